// groups.hpp - limits of fused groups, for the passes that make them and change them, and where products
// stand that groups read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidu/cpu/schedule.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

// Operations in one group, and values that it reads from memory, at most.
inline constexpr std::size_t max_in_group = 512;
inline constexpr std::size_t max_operands = 20;
// Elements of a period of several rows of a group, at least and at most.
inline constexpr std::int64_t min_in_period = 512;
inline constexpr std::int64_t max_in_period = 65536;

/// Does it read rows of an array that may be others than the group's own?
constexpr bool reads_rows(RowStep::Kind kind) {
  return kind == RowStep::Kind::rows || kind == RowStep::Kind::each_row || kind == RowStep::Kind::picked;
}

/// The schedule in which a product that one fused group of single elements alone reads, and that is larger
/// than its operands together, stands right before the group: then they can run as one step, and its place,
/// unless it is an output, is needed for less long.
Schedule delay_products(const Graph& graph, Schedule schedule, const std::vector<ValueId>& roots,
                        const std::vector<ValueId>& splats);

}  // namespace tidu::passes
