// columns_plan.cpp - see columns_plan.hpp.
#include "cpu/fusion/columns_plan.hpp"

#include <algorithm>
#include <tuple>

#include "cpu/cpu_target.hpp"
#include "cpu/kernels/interleave.hpp"

namespace tidu::cpu_detail {
namespace {

// Bytes that columns may take together, and elements of one at least.
constexpr std::size_t column_memory = CpuTarget::first_level;
constexpr std::int64_t min_rows = 32;
// Bytes of rows that wait to be copied past the caches, at most.
constexpr std::size_t max_waiting = std::size_t{1} << 14;

// How often something else can be done in between.
std::size_t pieces_of(const std::vector<Gathering>& gatherings, std::int64_t block) {
  std::size_t runs = 0;
  for (const Gathering& gathering : gatherings) runs += gathering.runs.size();
  return runs * static_cast<std::size_t>(block / gathered_at_once);
}

}  // namespace

std::int64_t rows_of_columns(std::size_t bytes) {
  std::int64_t rows = max_rows;
  while (rows > min_rows && static_cast<std::size_t>(rows) * bytes > column_memory) rows /= 2;
  return rows;
}

GatheringPlan plan_gathering(const Graph& graph, const Columns& columns,
                             const std::unordered_map<ValueId, std::uint32_t>& operand_at, std::int64_t block,
                             std::size_t& memory) {
  GatheringPlan plan;
  std::vector<GatheredColumn> gathered = columns.gathered;
  const auto order = [](const GatheredColumn& column) {
    return std::tuple(column.matrix, column.indices, column.step, column.extent, column.start);
  };
  std::sort(gathered.begin(), gathered.end(),
            [&](const GatheredColumn& a, const GatheredColumn& b) { return order(a) < order(b); });
  for (std::size_t k = 0; k < gathered.size(); ++k) {
    const GatheredColumn& column = gathered[k];
    const std::size_t word = size_of(graph.type(column.column).dtype());
    const std::size_t bytes = aligned(static_cast<std::size_t>(block) * word);
    const bool is_same = k > 0 && gathered[k - 1].matrix == column.matrix &&
                         gathered[k - 1].step == column.step && gathered[k - 1].extent == column.extent &&
                         gathered[k - 1].indices == column.indices;
    if (!is_same) {
      Gathering& with = plan.gatherings.emplace_back();
      with.matrix = operand_at.at(column.matrix);
      if (column.indices != no_index) {
        with.indices = operand_at.at(column.indices);
        with.wide = graph.type(column.indices).dtype() == i64;
      } else {
        for (std::int64_t i = 0; i < block; ++i) with.offsets.push_back(i * column.step);
      }
      with.word = word;
      with.step = column.step;
      with.extent = column.extent;
      with.stride = static_cast<std::int64_t>(bytes / word);
    }
    std::vector<Gathering::Run>& runs = plan.gatherings.back().runs;
    const auto offset = static_cast<std::uint32_t>(memory);
    memory += bytes;
    if (is_same && runs.back().start + runs.back().count == column.start) {
      ++runs.back().count;
    } else {
      runs.push_back({column.start, 1, offset});
    }
    plan.offsets[column.column] = offset;
  }
  return plan;
}

Interleaving plan_interleaving(const Graph& graph, const Columns& columns,
                               const std::vector<Gathering>& gatherings, std::int64_t block,
                               std::size_t& memory) {
  Interleaving rows;
  rows.word = size_of(graph.type(columns.result).dtype());
  const std::size_t bytes = static_cast<std::size_t>(block) * rows.word * columns.of.size();
  if (columns.past_caches && bytes <= max_waiting && can_pass_caches()) {
    constexpr std::size_t line = 64;
    rows.ahead = (bytes / (pieces_of(gatherings, block) + 1) + line) / line * line;
    rows.rows = memory;
    memory += aligned(bytes);
  }
  return rows;
}

}  // namespace tidu::cpu_detail
