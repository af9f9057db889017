// columns.cpp - see columns.hpp; by AVX2 where it is there.
#include "cpu/kernels/columns.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/instruction_set.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tidu::cpu_detail {
namespace {

template <class Word>
inline __attribute__((always_inline)) void columns_of(const Word* from, const std::int64_t* offsets,
                                                      std::int64_t begin, std::int64_t count,
                                                      std::int64_t columns, Word* to, std::int64_t stride) {
  for (std::int64_t k = 0; k < columns; ++k) {
    for (std::int64_t i = begin; i < count; ++i) to[k * stride + i] = from[offsets[i] + k];
  }
}
template <class Word>
void gather_one_by_one(const Word* from, const std::int64_t* offsets, std::int64_t count,
                       std::int64_t columns, Word* to, std::int64_t stride) {
  columns_of(from, offsets, 0, count, columns, to, stride);
}
template <class Index>
inline __attribute__((always_inline)) void offsets_of(const Index* indices, std::int64_t begin,
                                                      std::int64_t count, std::int64_t last,
                                                      std::int64_t step, std::int64_t* offsets) {
  for (std::int64_t i = begin; i < count; ++i)
    offsets[i] = std::clamp<std::int64_t>(indices[i], 0, last) * step;
}

template <class Word>
void interleave_one_by_one(const Word* const* from, std::int64_t begin, std::int64_t end, Word* to,
                           std::int64_t row) {
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t k = 0; k < interleaved<Word>; ++k) to[i * row + k] = from[k][i];
  }
}

#if defined(__x86_64__)
#define TIDU_AVX2 __attribute__((target("avx2")))

// The elements at x in the lower half, those at y in the upper one.
TIDU_AVX2 inline __m256i joined(const void* x, const void* y) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(x))),
                                 _mm_loadu_si128(static_cast<const __m128i*>(y)), 1);
}
TIDU_AVX2 inline void put(void* to, __m256i words) { _mm256_storeu_si256(static_cast<__m256i*>(to), words); }

// Two columns of four rows, from `k` on.
TIDU_AVX2 inline void transpose(const std::uint64_t* const* rows, std::int64_t k, std::uint64_t* to,
                                std::int64_t stride) {
  const __m256i even = joined(rows[0] + k, rows[2] + k), odd = joined(rows[1] + k, rows[3] + k);
  put(to, _mm256_unpacklo_epi64(even, odd));
  put(to + stride, _mm256_unpackhi_epi64(even, odd));
}
// Four columns of eight rows.
TIDU_AVX2 inline void transpose(const std::uint32_t* const* rows, std::int64_t k, std::uint32_t* to,
                                std::int64_t stride) {
  __m256i x[4];
  for (int r = 0; r < 4; ++r) x[r] = joined(rows[r] + k, rows[r + 4] + k);
  const __m256i low[] = {_mm256_unpacklo_epi32(x[0], x[1]), _mm256_unpacklo_epi32(x[2], x[3])};
  const __m256i high[] = {_mm256_unpackhi_epi32(x[0], x[1]), _mm256_unpackhi_epi32(x[2], x[3])};
  put(to, _mm256_unpacklo_epi64(low[0], low[1]));
  put(to + stride, _mm256_unpackhi_epi64(low[0], low[1]));
  put(to + 2 * stride, _mm256_unpacklo_epi64(high[0], high[1]));
  put(to + 3 * stride, _mm256_unpackhi_epi64(high[0], high[1]));
}
// to[k * stride + r] = rows[r][k] for as many rows as a vector has words, and for k in [0, columns), at least
// half as many.
template <class Word>
TIDU_AVX2 inline void transpose_rows(const Word* const* rows, std::int64_t columns, Word* to,
                                     std::int64_t stride) {
  constexpr std::int64_t wide = 16 / sizeof(Word);
  std::int64_t k = 0;
  for (; k + wide <= columns; k += wide) transpose(rows, k, to + k * stride, stride);
  if (k < columns) transpose(rows, columns - wide, to + (columns - wide) * stride, stride);  // some anew
}
template <class Word>
TIDU_AVX2 void gather_squares(const Word* from, const std::int64_t* offsets, std::int64_t count,
                              std::int64_t columns, Word* to, std::int64_t stride) {
  constexpr std::int64_t together = 32 / sizeof(Word), wide = 16 / sizeof(Word);
  std::int64_t i = 0;
  for (; columns >= wide && i + together <= count; i += together) {
    const Word* rows[together];
    for (std::int64_t r = 0; r < together; ++r) rows[r] = from + offsets[i + r];
    transpose_rows(rows, columns, to + i, stride);
  }
  columns_of(from, offsets, i, count, columns, to, stride);
}
template <class Word>
TIDU_AVX2 void interleave_squares(const Word* const* from, std::int64_t begin, std::int64_t end, Word* to,
                                  std::int64_t row) {
  constexpr std::int64_t wide = 16 / sizeof(Word);
  if (end - begin < wide) return interleave_one_by_one(from, begin, end, to, row);
  const Word* columns[interleaved<Word>];
  for (std::int64_t k = 0; k < interleaved<Word>; ++k) columns[k] = from[k] + begin;
  transpose_rows(columns, end - begin, to + begin * row, row);
}

TIDU_AVX2 void find_offsets_256(const std::int32_t* indices, std::int64_t count, std::int64_t last,
                                std::int64_t step, std::int64_t* offsets) {
  const __m128i zero = _mm_setzero_si128(), limit = _mm_set1_epi32(static_cast<std::int32_t>(last));
  const __m256i by = _mm256_set1_epi64x(step);
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m128i given = _mm_loadu_si128(reinterpret_cast<const __m128i*>(indices + i));
    const __m128i inside = _mm_min_epi32(_mm_max_epi32(given, zero), limit);
    put(offsets + i, _mm256_mul_epi32(_mm256_cvtepi32_epi64(inside), by));
  }
  offsets_of(indices, i, count, last, step, offsets);
}
#endif

template <class Word>
GatherColumns<Word> chosen() {
#if defined(__x86_64__)
  if (cpu_has(InstructionSet::avx2)) return gather_squares<Word>;
#endif
  return gather_one_by_one<Word>;
}

}  // namespace

template <class Word>
GatherColumns<Word> gather_columns_kernel() {
  static const GatherColumns<Word> kernel = chosen<Word>();
  return kernel;
}
template GatherColumns<std::uint32_t> gather_columns_kernel<std::uint32_t>();
template GatherColumns<std::uint64_t> gather_columns_kernel<std::uint64_t>();

template <class Word>
Interleave<Word> interleave_kernel() {
#if defined(__x86_64__)
  static const bool has_avx2 = cpu_has(InstructionSet::avx2);
  if (has_avx2) return interleave_squares<Word>;
#endif
  return interleave_one_by_one<Word>;
}
template Interleave<std::uint32_t> interleave_kernel<std::uint32_t>();
template Interleave<std::uint64_t> interleave_kernel<std::uint64_t>();

template <>
void find_offsets(const std::int64_t* indices, std::int64_t count, std::int64_t last, std::int64_t step,
                  std::int64_t* offsets) {
  offsets_of(indices, 0, count, last, step, offsets);
}
template <>
void find_offsets(const std::int32_t* indices, std::int64_t count, std::int64_t last, std::int64_t step,
                  std::int64_t* offsets) {
#if defined(__x86_64__)
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (cpu_has(InstructionSet::avx2) && step <= most)
    return find_offsets_256(indices, count, std::min(last, most), step, offsets);
#endif
  offsets_of(indices, 0, count, last, step, offsets);
}

}  // namespace tidu::cpu_detail
