// fusion_limits.hpp - limits of fusions, shared by the passes that create and change them, and the position
// of matmuls in the schedule relative to the fusions that read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidu/cpu/schedule.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

// Maximum number of operations in one fusion, and of values that it reads from memory.
inline constexpr std::size_t max_in_fusion = 512;
inline constexpr std::size_t max_operands = 20;
// Minimum and maximum number of elements of a period of several rows of a fusion.
inline constexpr std::int64_t min_in_period = 512;
inline constexpr std::int64_t max_in_period = 65536;

/// Does the step read rows of an array at other positions than the fusion's own rows?
constexpr bool reads_rows(RowStep::Kind kind) {
  return kind == RowStep::Kind::rows || kind == RowStep::Kind::each_row || kind == RowStep::Kind::gathered;
}

/// Delays matmuls: a matmul that has one reader, an element-wise fusion, and whose result is large and not
/// smaller than its operands together is moved right before that fusion. The two can then run as one step,
/// and the result, unless it is an output, is live for a shorter time.
Schedule delay_matmuls(const Graph& graph, Schedule schedule, const std::vector<ValueId>& roots,
                       const std::vector<ValueId>& splats);

}  // namespace tidu::passes
