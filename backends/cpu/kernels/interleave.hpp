// interleave.hpp - columns, each in one piece, brought side by side: squares of them are transposed in
// registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tidu::cpu_detail {

/// Columns of words that are brought side by side at a time.
template <class Word>
inline constexpr std::int64_t interleaved = 32 / sizeof(Word);

/// to[i * row + k] = from[k][i] for `interleaved<Word>` columns k, and for i in [begin, end). Of Word
/// std::uint32_t or std::uint64_t.
template <class Word>
using Interleave = void (*)(const Word* const* from, std::int64_t begin, std::int64_t end, Word* to,
                            std::int64_t row);
/// That of the CPU that is there.
template <class Word>
Interleave<Word> interleave_kernel();

/// Rows of one word of each column: row i, at to + i * columns.size() words, is of words i, for i in
/// [0, count).
template <class Word>
void interleave_rows(std::span<const Word* const> columns, std::int64_t count, Word* to);

/// Copies bytes, whole cache lines of them past the caches, which is in order with what the thread does next
/// only after `finish_past_caches`.
void copy_past_caches(const std::byte* from, std::byte* to, std::size_t bytes);
void finish_past_caches();
/// Does it go past the caches here?
bool can_pass_caches();

}  // namespace tidu::cpu_detail
