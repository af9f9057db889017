// columns_plan.hpp - where the columns of a fused group lie while a block runs: see Note [Columns] in
// fused.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cpu/groups/fused_columns.hpp"
#include "cpu/groups/fused_run.hpp"

namespace tidu::cpu_detail {

/// Elements of a block where columns take so many bytes for each.
std::int64_t rows_of_columns(std::size_t bytes);

struct GatheringPlan {
  std::vector<Gathering> gatherings;
  std::unordered_map<ValueId, std::uint32_t> places;  ///< by column: bytes into a thread's memory
};

/// The columns that are gathered for a block, those of the same places together, and columns that lie side by
/// side. `operand_at` are the places of roots among the group's operands; columns are put behind `memory`.
GatheringPlan plan_gathering(const Graph& graph, const Columns& columns,
                             const std::unordered_map<ValueId, std::uint32_t>& operand_at, std::int64_t block,
                             std::size_t& memory);
/// How columns are brought side by side, but for where they are; where rows wait they do behind `memory`.
Interleaving plan_interleaving(const Graph& graph, const Columns& columns,
                               const std::vector<Gathering>& gatherings, std::int64_t block,
                               std::size_t& memory);

}  // namespace tidu::cpu_detail
