// interleave.hpp - columns, each in one piece, brought side by side: squares of them are transposed in
// registers.
#pragma once

#include <cstdint>

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

}  // namespace tidu::cpu_detail
