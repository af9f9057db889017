// rematerialized.hpp - values that kernels compute again from memory instead of reading them from it.
#pragma once

#include <functional>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cuda_detail {

/// What is known of values before kernels are written.
struct KnownValues {
  std::vector<bool> by_element;  ///< by operation: in a kernel that computes its elements one by one
  std::vector<bool>
      given;  ///< by value: input, made by a node by itself, or one for a row; in memory whatever others do
  std::vector<bool> asked_for;       ///< by value: somebody reads it from memory whatever others do
  std::vector<bool> read_elsewhere;  ///< by value: another kernel than the one that makes it needs it
  /// What an operand is read from.
  std::function<std::vector<ValueId>(ValueId)> sources;
};

/// By value: a few instructions (of what is large, and takes no less time to write and to read, some more)
/// away from values that are in memory anyway, of which at most one is large, and no larger than itself. A
/// kernel that reads it computes it again, and nobody writes it: where a difference from a mean, or the tanh
/// in a GELU, is used forward and backward, that is one large array less written, none more read.
std::vector<bool> rematerialized_values(const Graph& graph, const KnownValues& known);

}  // namespace tidu::cuda_detail
