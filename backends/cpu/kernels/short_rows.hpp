// short_rows.hpp - splits contiguous rows of two, three or four words into columns, and joins columns into
// rows, by shuffles of whole vectors.
#pragma once

#include <cstdint>

#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail {

inline constexpr std::int64_t min_short_row = 2, max_short_row = 4;
inline bool is_short_row(std::int64_t words) { return words >= min_short_row && words <= max_short_row; }

/// to[k][i] = from[i row + k] for i in [0, count) and k in [0, row), if to[k] is not null. Reads nothing
/// after the last word that is needed. `row` is from min_short_row to max_short_row; Word is std::uint32_t or
/// std::uint64_t; `best` is the best instruction set to use, for tests.
template <class Word>
void split_short_rows(const Word* from, std::int64_t row, std::int64_t count, Word* const* to,
                      InstructionSet best = InstructionSet::avx512);

/// to[i row + k] = from[k][i] for i in [0, count) and k in [0, row).
template <class Word>
void join_short_rows(const Word* const* from, std::int64_t row, std::int64_t count, Word* to,
                     InstructionSet best = InstructionSet::avx512);

}  // namespace tidu::cpu_detail
