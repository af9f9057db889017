// fused_columns.hpp - columns that a fused group reads and rows of columns that it makes, by operations that
// are found to be done by the group: see Note [Columns] in fused.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// A column that the group reads: element i is matrix[start + place step] where place is i, or indices[i]
/// moved into [0, extent).
struct GatheredColumn {
  ValueId column = no_index;
  ValueId matrix = no_index;
  ValueId indices = no_index;  ///< or none
  std::int64_t start = 0, step = 0, extent = 0;
};

/// Columns that a group gathers and brings together.
struct Columns {
  std::vector<GatheredColumn> gathered;
  std::vector<ValueId> of;    ///< roots, of words of 4 or 8 bytes, that are brought side by side
  ValueId result = no_index;  ///< or none
  bool past_caches = false;   ///< is the result written past the caches?
  bool empty() const { return gathered.empty() && result == no_index; }
};

class ColumnFinder {
 public:
  /// `values` by node; `wholes` by output of the program: bytes of what it is a part of, or empty.
  ColumnFinder(const Program& program, std::vector<passes::NodeValues>& values,
               std::span<const std::size_t> wholes, bool check_indices = false);

  /// Those of the group at position `node`. Then values[node] are the group's with them, and the operations
  /// that it does are `is_done`.
  Columns find(std::size_t node);
  bool is_done(std::uint32_t operation) const { return done_[operation]; }

 private:
  void gather(std::size_t node, std::int64_t rows, Columns& columns);
  std::optional<GatheredColumn> follow(ValueId id, std::int64_t rows, std::vector<std::uint32_t>& path) const;
  void leave_out(std::vector<std::uint32_t>& operations);
  void bring_together(std::size_t node, std::int64_t rows, Columns& columns);
  std::int64_t rows_of(std::size_t node) const;
  bool is_of_columns(std::uint32_t operation, std::int64_t rows) const;
  bool is_given(ValueId root) const;
  bool is_large(ValueId result) const;

  const Program& program_;
  const Graph& graph_;
  std::vector<passes::NodeValues>& values_;
  std::span<const std::size_t> wholes_;
  bool check_indices_;
  std::vector<std::uint32_t> readers_;  // by root: nodes, and more for outputs
  std::vector<bool> alone_, done_;      // by operation; alone: in no group and no loop
};

}  // namespace tidu::cpu_detail
