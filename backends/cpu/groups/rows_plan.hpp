// rows_plan.hpp - from a fused group of rows to steps over lanes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/groups/rows.hpp"
#include "cpu/kernels/folds.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The code's pointers are the group's operands and then its results. Of several rows in a period, those
/// among `periodic` have one period for all: for the code they begin where the period does.
struct RowsPlan {
  /// A result that is a fold of all rows.
  struct ColumnFold {
    std::uint32_t result = 0;
    std::uint32_t pointer = 0;
    Fold fold = Fold::sum;
  };
  RowsCode code;
  std::int64_t rows = 0;
  std::int64_t period = 1;  ///< rows that have elements of their own in what all rows share
  std::vector<std::uint32_t> periodic;
  std::vector<ColumnFold> folds;
  std::vector<std::uint32_t> streams;  ///< results that are written past the caches
};

/// The plan of the group of rows at position `node` of the schedule, which runs `repeats` times where others
/// run once; nothing where lanes cannot do all of it.
std::optional<RowsPlan> plan_rows_code(const Program& program, std::size_t node,
                                       const passes::NodeValues& values, std::int64_t repeats,
                                       std::size_t num_carry);

}  // namespace tidu::cpu_detail
