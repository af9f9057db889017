// fuse_node.hpp - FuseNode: a node of the schedule while fuse.cpp builds it: a fusion, a loop or a
// single operation.
//
// Note [Periods]: a fusion may also contain operations that repeat one row along all rows, or that reduce all
// rows to one. These allow shorter rows in the fusion: their row then spans `period` rows of the fusion, and
// its elements repeat after that many rows. A fusion splits its rows when it takes an operation with shorter
// rows. Operations that repeat each of several rows (RowStep::Kind::each_row) have no period; the source row
// of each row is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/schedule/fusion_limits.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

struct FuseNode {
  std::vector<std::uint32_t> operations;
  std::vector<ValueId> operands;  // of a fusion: roots that it reads from memory
  bool fusion = false;
  std::uint32_t loop = no_index;
  std::int64_t columns = 0;     // of a row fusion
  std::int64_t period = 1;      // of a row fusion, in rows
  bool needs_rows = false;      // does an operation reduce rows or repeat along them?
  bool reads_each_row = false;  // of some array: see RowStep
  bool reduces_columns = false;
  DType dtype = bool_;  // of a fusion: of all its floating-point elements
  bool can_have_rows = true;

  // The columns and period of the fusion if the step joins it, or nothing if it cannot: see Note [Periods].
  std::optional<std::pair<std::int64_t, std::int64_t>> rows_with(const RowStep& step) const {
    if (columns == 0) return std::pair(step.columns, std::int64_t{1});
    const bool reduces = step.kind == RowStep::Kind::reduce_columns;
    if (!reduces && step.columns == columns) return std::pair(columns, period);
    if (step.kind == RowStep::Kind::each_row && step.columns % columns == 0)
      return std::pair(columns, period);
    const auto shorter_rows = [](std::int64_t longer, std::int64_t shorter) {
      std::optional<std::pair<std::int64_t, std::int64_t>> rows;
      if (longer > shorter && longer % shorter == 0 && longer >= min_in_period)
        rows.emplace(shorter, longer / shorter);
      return rows;
    };
    if (!reduces && step.kind != RowStep::Kind::rows)
      return period > 1 || needs_rows ? std::nullopt : shorter_rows(columns, step.columns);
    if (step.columns == columns * period) return std::pair(columns, period);
    if (period > 1 || !(needs_rows || reads_each_row) || reduces_columns) return std::nullopt;
    return shorter_rows(step.columns, columns);
  }
};

}  // namespace tidu::passes
