// interleave.cpp - squares of words transposed in registers, by AVX2 where it is there.
#include "cpu/kernels/interleave.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/instruction_set.hpp"
#include "cpu/kernels/short_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tidu::cpu_detail {
namespace {

template <class Word>
inline __attribute__((always_inline)) void rows_of(const Word* const* from, std::int64_t begin,
                                                   std::int64_t end, Word* to, std::int64_t row) {
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t k = 0; k < interleaved<Word>; ++k) to[i * row + k] = from[k][i];
  }
}
template <class Word>
void baseline(const Word* const* from, std::int64_t begin, std::int64_t end, Word* to, std::int64_t row) {
  rows_of(from, begin, end, to, row);
}

#if defined(__x86_64__)
#define TIDU_AVX2 __attribute__((target("avx2")))

TIDU_AVX2 void avx2(const std::uint64_t* const* from, std::int64_t begin, std::int64_t end, std::uint64_t* to,
                    std::int64_t row) {
  std::int64_t i = begin;
  for (; i + 4 <= end; i += 4) {
    __m256i x[4], y[4];
    for (int k = 0; k < 4; ++k) x[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from[k] + i));
    for (int k = 0; k < 2; ++k) {
      y[k] = _mm256_unpacklo_epi64(x[2 * k], x[2 * k + 1]);
      y[k + 2] = _mm256_unpackhi_epi64(x[2 * k], x[2 * k + 1]);
    }
    std::uint64_t* const at = to + i * row;
    for (int k = 0; k < 2; ++k) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + k * row),
                          _mm256_permute2x128_si256(y[2 * k], y[2 * k + 1], 0x20));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + (k + 2) * row),
                          _mm256_permute2x128_si256(y[2 * k], y[2 * k + 1], 0x31));
    }
  }
  rows_of(from, i, end, to, row);
}

TIDU_AVX2 void avx2(const std::uint32_t* const* from, std::int64_t begin, std::int64_t end, std::uint32_t* to,
                    std::int64_t row) {
  std::int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    __m256i x[8], y[8];
    for (int k = 0; k < 8; ++k) x[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from[k] + i));
    for (int k = 0; k < 8; k += 2) {  // rows 0 and 4, 1 and 5 of pairs of columns; then 2 and 6, 3 and 7
      y[k] = _mm256_unpacklo_epi32(x[k], x[k + 1]);
      y[k + 1] = _mm256_unpackhi_epi32(x[k], x[k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {  // rows r and r + 4 of four columns
      for (int half = 0; half < 2; ++half) {
        x[k + 2 * half] = _mm256_unpacklo_epi64(y[k + half], y[k + half + 2]);
        x[k + 2 * half + 1] = _mm256_unpackhi_epi64(y[k + half], y[k + half + 2]);
      }
    }
    std::uint32_t* const at = to + i * row;
    for (int k = 0; k < 4; ++k) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + k * row),
                          _mm256_permute2x128_si256(x[k], x[k + 4], 0x20));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + (k + 4) * row),
                          _mm256_permute2x128_si256(x[k], x[k + 4], 0x31));
    }
  }
  rows_of(from, i, end, to, row);
}

constexpr std::size_t store_line = 64;

TIDU_AVX2 void copy_lines_256(const std::byte* from, std::byte* to, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
}
__attribute__((target("avx512f"))) void copy_lines_512(const std::byte* from, std::byte* to,
                                                       std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += store_line)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
}
using CopyLines = void (*)(const std::byte* from, std::byte* to, std::size_t bytes);
CopyLines past_caches_copy() {
  static const CopyLines copy = cpu_has(InstructionSet::avx512) ? copy_lines_512
                                : cpu_has(InstructionSet::avx2) ? copy_lines_256
                                                                : CopyLines();
  return copy;
}
#endif

template <class Word>
Interleave<Word> choose() {
#if defined(__x86_64__)
  if (cpu_has(InstructionSet::avx2)) return avx2;
#endif
  return baseline<Word>;
}

}  // namespace

template <class Word>
Interleave<Word> interleave_kernel() {
  static const Interleave<Word> kernel = choose<Word>();
  return kernel;
}

template <class Word>
void interleave_rows(std::span<const Word* const> columns, std::int64_t count, Word* to) {
  constexpr auto together = static_cast<std::size_t>(interleaved<Word>);
  const std::size_t row = columns.size();
  const auto words = static_cast<std::int64_t>(row);
  if (is_short_row(words)) return join_short_rows(columns.data(), words, count, to);
  for (std::size_t next = 0; row >= together && next < row; next += together) {
    const std::size_t k = std::min(next, row - together);  // the last ones perhaps anew
    interleave_kernel<Word>()(columns.data() + k, 0, count, to + k, words);
  }
  for (std::size_t k = 0; row < together && k < row; ++k) {
    for (std::int64_t i = 0; i < count; ++i) to[i * words + static_cast<std::int64_t>(k)] = columns[k][i];
  }
}
template void interleave_rows(std::span<const std::uint32_t* const>, std::int64_t, std::uint32_t*);
template void interleave_rows(std::span<const std::uint64_t* const>, std::int64_t, std::uint64_t*);

#if defined(__x86_64__)
bool can_pass_caches() { return past_caches_copy() != nullptr; }
void finish_past_caches() { _mm_sfence(); }
void copy_past_caches(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (!can_pass_caches()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::size_t ahead =
      std::min(bytes, (store_line - reinterpret_cast<std::uintptr_t>(to) % store_line) % store_line);
  const std::size_t lines = (bytes - ahead) / store_line * store_line, behind = ahead + lines;
  if (ahead != 0) std::memcpy(to, from, ahead);
  past_caches_copy()(from + ahead, to + ahead, lines);
  if (behind != bytes) std::memcpy(to + behind, from + behind, bytes - behind);
}
#else
bool can_pass_caches() { return false; }
void finish_past_caches() {}
void copy_past_caches(const std::byte* from, std::byte* to, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

template Interleave<std::uint32_t> interleave_kernel<std::uint32_t>();
template Interleave<std::uint64_t> interleave_kernel<std::uint64_t>();

}  // namespace tidu::cpu_detail
