// columns_plan.hpp - plans the gather prologue and the interleave epilogue of a fusion: the offsets of
// columns in a thread's memory while a block runs. See Note [Columns] in fused.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cpu/fusion/fused_columns.hpp"
#include "cpu/fusion/fused_run.hpp"

namespace tidu::cpu_detail {

/// Elements of a block whose columns take `bytes` bytes for each element.
std::int64_t rows_of_columns(std::size_t bytes);

struct GatheringPlan {
  std::vector<Gathering> gatherings;
  std::unordered_map<ValueId, std::uint32_t> offsets;  ///< by column: offset in a thread's memory, in bytes
};

/// Plans the gathers of a block: columns with the same indices are gathered together, and adjacent columns in
/// one run. `operand_at` has the index of each root among the fusion's operands. The columns' memory is
/// appended to `memory`.
GatheringPlan plan_gathering(const Graph& graph, const Columns& columns,
                             const std::unordered_map<ValueId, std::uint32_t>& operand_at, std::int64_t block,
                             std::size_t& memory);
/// Plans the interleaving of columns, without their sources. If rows are staged, their memory is appended to
/// `memory`.
Interleaving plan_interleaving(const Graph& graph, const Columns& columns,
                               const std::vector<Gathering>& gatherings, std::int64_t block,
                               std::size_t& memory);

}  // namespace tidu::cpu_detail
