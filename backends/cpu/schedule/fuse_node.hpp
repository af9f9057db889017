// fuse_node.hpp - a node of the schedule that fuse.cpp makes.
//
// Note [Periods]: what repeats one row along all rows, and what folds all rows to one, is nothing that rows
// are needed for: its rows may as well be several of the group's, `period` of them, after which its elements
// begin anew. So a group's rows become shorter when it takes what needs shorter ones. Likewise what repeats
// each of some rows, but that this has no period: where a row comes from is found for each.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/schedule/groups.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

struct FuseNode {
  std::vector<std::uint32_t> operations;
  std::vector<ValueId> operands;  // of a group: roots that it reads from memory
  bool group = false;
  bool products = false;  // of equal products
  std::uint32_t loop = no_index;
  std::int64_t columns = 0;     // of a group of rows
  std::int64_t period = 1;      // of a group of rows: how many of them
  bool needs_rows = false;      // does something fold its rows or repeat along them?
  bool reads_each_row = false;  // of some array: see RowStep
  bool folds_columns = false;
  DType dtype = bool_;  // of a group: of all its floating elements
  bool can_have_rows = true;

  // The columns and the period of the group with the step: see Note [Periods]. Nothing where there are none.
  std::optional<std::pair<std::int64_t, std::int64_t>> rows_with(const RowStep& step) const {
    if (columns == 0) return std::pair(step.columns, std::int64_t{1});
    const bool folds = step.kind == RowStep::Kind::fold_columns;
    if (!folds && step.columns == columns) return std::pair(columns, period);
    if (step.kind == RowStep::Kind::each_row && step.columns % columns == 0)
      return std::pair(columns, period);
    const auto shorter_rows = [](std::int64_t longer, std::int64_t shorter) {
      std::optional<std::pair<std::int64_t, std::int64_t>> rows;
      if (longer > shorter && longer % shorter == 0 && longer >= min_in_period)
        rows.emplace(shorter, longer / shorter);
      return rows;
    };
    if (!folds && step.kind != RowStep::Kind::rows)
      return period > 1 || needs_rows ? std::nullopt : shorter_rows(columns, step.columns);
    if (step.columns == columns * period) return std::pair(columns, period);
    if (period > 1 || !(needs_rows || reads_each_row) || folds_columns) return std::nullopt;
    return shorter_rows(step.columns, columns);
  }
};

}  // namespace tidu::passes
