// columns.hpp - gathers columns: copies scattered rows of words to contiguous columns (array of structures to
// structure of arrays); and interleaves contiguous columns to rows, the other way round. Squares are
// transposed in registers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidu::cpu_detail {

/// to[k * stride + i] = from[offsets[i] + k] for k in [0, columns) and i in [0, count). Word is std::uint32_t
/// or std::uint64_t.
template <class Word>
using GatherColumns = void (*)(const Word* from, const std::int64_t* offsets, std::int64_t count,
                               std::int64_t columns, Word* to, std::int64_t stride);
/// The kernel for this CPU.
template <class Word>
GatherColumns<Word> gather_columns_kernel();

/// Number of columns that are interleaved at a time.
template <class Word>
inline constexpr std::int64_t interleaved = 32 / sizeof(Word);

/// to[i * row + k] = from[k][i] for `interleaved<Word>` columns k, and for i in [begin, end). Word is
/// std::uint32_t or std::uint64_t.
template <class Word>
using Interleave = void (*)(const Word* const* from, std::int64_t begin, std::int64_t end, Word* to,
                            std::int64_t row);
/// The kernel for this CPU.
template <class Word>
Interleave<Word> interleave_kernel();

/// offsets[i] = step * (indices[i] clamped to [0, last]). Index is std::int32_t or std::int64_t.
template <class Index>
void find_offsets(const Index* indices, std::int64_t count, std::int64_t last, std::int64_t step,
                  std::int64_t* offsets);

}  // namespace tidu::cpu_detail
