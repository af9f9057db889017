// scan_body.hpp - loop-invariant code motion for scan and while: splits a body into a graph that runs once
// before the steps and a graph for each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

struct ScanBody {
  Graph before;  ///< inputs: the consts; outputs: the invariants. No outputs if there are none
  /// Has the outputs of the body. Its inputs: consts, invariants, carries, slices, and last the carries that
  /// are only added to, in the order of CallSite::sums.
  Graph step;
  /// The input of `step` for each input of the body, with the invariants after the consts.
  std::vector<std::size_t> positions;
  std::vector<std::uint32_t> sums;  ///< carries that are only added to
  std::size_t num_made = 0;         ///< number of outputs of `before`
};

/// Splits the body. Without `adds`, `sums` is empty. Throws Error (invalid_argument) if inlining inner graphs
/// gives more than `max_operations`.
ScanBody split_scan_body(const Graph& body, std::size_t num_consts, std::size_t num_carry, bool adds,
                         std::size_t max_operations);

}  // namespace tidu::cpu_detail
