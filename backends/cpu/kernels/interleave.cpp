// interleave.cpp - see interleave.hpp.
#include "cpu/kernels/interleave.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/cpu_target.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/kernels/columns.hpp"
#include "cpu/kernels/short_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tidu::cpu_detail {
namespace {

#if defined(__x86_64__)
constexpr std::size_t store_line = CpuTarget::line;

__attribute__((target("avx2"))) void copy_lines_256(const std::byte* from, std::byte* to, std::size_t bytes) {
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

}  // namespace

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

}  // namespace tidu::cpu_detail
