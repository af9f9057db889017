// gated_loops.hpp - loops without a bound that can be told to take no step.
//
// Note [Loops not taken]: where what is computed for an example is dropped, as of a branch that it does not
// take or of a step after its end, a loop without a bound inside would go on with operands that are not that
// example's, or are masked, and might never end. So the conditions of such loops, at any depth, are told.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu::prim {

/// Is there a while without a bound in the graph, or in one that its operations hold, at any depth?
bool holds_unbounded(const Graph& graph);
/// The graph with one more input, the last: a bool, without which such loops take no step.
Graph gated(const Graph& graph);

}  // namespace tidu::prim
