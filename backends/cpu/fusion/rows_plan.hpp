// rows_plan.hpp - lowers a row fusion to vector code: from a node of the schedule to a RowsCode.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/fusion/rows.hpp"
#include "cpu/kernels/reduce_line.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The code's pointers are the fusion's operands and then its results. If a period has several rows, the
/// pointers in `periodic` point to one period that all rows share; for the code they begin where the period
/// does.
struct RowsPlan {
  /// A result that is a reduction of all rows.
  struct ColumnReduction {
    std::uint32_t result = 0;
    std::uint32_t pointer = 0;
    Reduction reduction = Reduction::sum;
  };
  RowsCode code;
  std::int64_t rows = 0;
  std::int64_t period = 1;  ///< number of rows after which shared values repeat
  std::vector<std::uint32_t> periodic;
  std::vector<ColumnReduction> reductions;
  std::vector<std::uint32_t> streams;  ///< results that are written past the caches
};

/// The plan of the row fusion at position `node` of the schedule, which runs `repeats` times for one run of
/// the outermost program. Nothing if an operation has no vector code.
std::optional<RowsPlan> plan_rows_code(const Program& program, std::size_t node,
                                       const passes::NodeValues& values, std::int64_t repeats,
                                       std::size_t num_carry);

}  // namespace tidu::cpu_detail
