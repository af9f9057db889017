// fused_columns.hpp - Columns: the columns that a fusion gathers in its prologue, and those that it
// interleaves in its epilogue. See Note [Columns] in fused.cpp; steps/gather_prologues.cpp finds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

/// A gathered column: element i is matrix[start + row * step], where row is i, or indices[i] clamped to
/// [0, extent).
struct GatheredColumn {
  ValueId column = no_index;
  ValueId matrix = no_index;
  ValueId indices = no_index;  ///< or no_index
  std::int64_t start = 0, step = 0, extent = 0;
};

/// The columns that a fusion gathers, and those that it interleaves.
struct Columns {
  std::vector<GatheredColumn> gathered;
  std::vector<ValueId> of;    ///< roots, with words of 4 or 8 bytes, that are interleaved
  ValueId result = no_index;  ///< the interleaved rows, or no_index
  bool past_caches = false;   ///< is the result written past the caches?
  bool empty() const { return gathered.empty() && result == no_index; }
};

}  // namespace tidu::cpu_detail
