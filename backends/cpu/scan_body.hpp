// scan_body.hpp - the body of a scan as two graphs: what is computed before the steps, and a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

struct ScanBody {
  Graph before;  ///< inputs: the consts; outputs: what is made of them. Without outputs where nothing is
  /// Outputs: the body's. Inputs: consts, what is made before, carries and slices, and last the carries that
  /// are only added to, as Surroundings::sums wants them.
  Graph step;
  /// By input of the body, with what is made before behind the consts: which input of `step` it is.
  std::vector<std::size_t> place;
  std::vector<std::uint32_t> sums;  ///< carries that are only added to
  std::size_t num_made = 0;         ///< outputs of `before`
};

/// Without sums where `adds` is false. Throws Error (invalid_argument) where graphs in the body take more
/// than `max_operations`.
ScanBody split_scan_body(const Graph& body, std::size_t num_consts, std::size_t num_carry, bool adds,
                         std::size_t max_operations);

}  // namespace tidu::cpu_detail
