// freeze.hpp - a function for differences, which keep fixed what no tangent goes through.
#pragma once

#include <string>
#include <unordered_set>

#include "check/numeric.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::check {

/// What differences keep fixed: the results of primitives without tangent, and those of exact dtype.
struct FrozenValues {
  /// Of the graph with its inner graphs written out and without barriers.
  std::unordered_set<ValueKey> keys;
  /// One that stands in the steps of loops or in branches, which are written out for it, too; empty without.
  std::string inside{};
  bool all = true;  ///< were they?
};
FrozenValues frozen_values(const Graph& graph);

/// A graph whose frozen results are inputs after its own.
struct Frozen {
  Graph graph;
  Tensors extra;    ///< the values of those inputs
  bool all = true;  ///< is all fixed that should be?
};
/// `frozen`: of this graph or of one that it derives from.
Frozen freeze(const Graph& graph, const Tensors& inputs, const FrozenValues& frozen,
              const Executor& executor);

}  // namespace tidu::check
