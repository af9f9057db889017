// interleave.hpp - interleaves contiguous columns into rows (structure of arrays to array of structures).
// Squares are transposed in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tidu::cpu_detail {

/// Interleaves whole rows of one word of each column: to[i * columns.size() + k] = columns[k][i], for i in
/// [0, count).
template <class Word>
void interleave_rows(std::span<const Word* const> columns, std::int64_t count, Word* to);

/// Copies bytes, and whole cache lines past the caches. The order with the thread's later writes holds only
/// after `finish_past_caches`.
void copy_past_caches(const std::byte* from, std::byte* to, std::size_t bytes);
void finish_past_caches();
/// Does copy_past_caches pass the caches on this CPU?
bool can_pass_caches();

}  // namespace tidu::cpu_detail
