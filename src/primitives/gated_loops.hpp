// gated_loops.hpp - loops without a bound with a gate: a bool operand that makes them take no step.
//
// Note [Loops not taken]: results for an example are dropped if it does not take the branch, or has ended
// before the step. A loop without a bound inside would then run on operands that are not that example's, or
// are masked, and might never end. So the conditions of such loops, at any depth, get the gate.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu::prim {

/// Is there a while without a bound in the graph, or in one that its operations hold, at any depth?
bool holds_unbounded(const Graph& graph);
/// The graph with one more input, the last: a bool, without which such loops take no step.
Graph gated(const Graph& graph);

}  // namespace tidu::prim
