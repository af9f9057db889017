// fused_columns.hpp - ColumnFinder: finds the columns that a fusion gathers in its prologue and the columns
// that it interleaves in its epilogue; the fusion absorbs these operations. See Note [Columns] in fused.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// A gathered column: element i is matrix[start + place * step], where place is i, or indices[i] clamped to
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

class ColumnFinder {
 public:
  /// `values` is indexed by node. `wholes` has, for each output of the program, the bytes of the tensor that
  /// it is a part of; or it is empty.
  ColumnFinder(const Program& program, std::vector<passes::NodeValues>& values,
               std::span<const std::size_t> wholes, bool check_indices = false);

  /// The columns of the fusion at position `node`. Updates values[node] accordingly, and marks the absorbed
  /// operations as `is_done`.
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
  std::vector<std::uint32_t> readers_;  // by root: number of nodes, and more for outputs
  std::vector<bool> alone_, done_;      // by operation; alone: in no fusion and no loop
};

}  // namespace tidu::cpu_detail
