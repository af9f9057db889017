// passes.hpp - the passes of optimize(), each a function from graph to graph, and what is found out about the
// values of a graph for whoever runs it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/optimizer/optimize.hpp"

namespace tidu::passes {

/// The same function without operations that only name a graph: an operation with trait holds_graph and an
/// attribute `graph` whose interface is that of the operation stands for what is in that graph, which is
/// written in its place, at any depth. The graph itself when there is no such operation. Operations for which
/// `stays` is true are left as they are. Iterative; throws Error (invalid_argument) beyond `max_operations`.
Graph inline_graphs(const Graph& graph, std::size_t max_operations,
                    const std::function<bool(const Operation&)>& stays = {});

/// The name that it had.
[[deprecated("use inline_graphs")]] inline Graph write_out_graphs(
    const Graph& graph, std::size_t max_operations, const std::function<bool(const Operation&)>& stays = {}) {
  return inline_graphs(graph, max_operations, stays);
}

/// The same function as prune gives it, with what the simplify rules of its primitives put in the place of
/// operations (docs/optimizer.md). One sweep, linear in the size of the graph. Inputs, outputs and impure
/// operations stay what they are, and nothing is moved across a barrier. Throws Error (internal) for a rule
/// that gives other types than the operation.
Graph simplify(const Graph& graph, bool fast_math);

/// The same function with tensors in the place of values that depend on constants alone and have, like all
/// that they are computed from, at most `options.constant_bytes` bytes (or are carried by an operation), and
/// with what simplify then does, where `options` say so. The evaluator is called once, for all values
/// together, and not at all where there are none; where it throws Error, nothing is done, as in a set of
/// primitives without a vocabulary for constants. Throws Error (execution) when it gives other types.
Graph fold_constants(const Graph& graph, const ConstantEvaluator& evaluate, const OptimizeOptions& options);

/// The same function, in which operations that run graphs on the same operands, step by step the same
/// carries, are one that gives the results of all: see Note [Merged loops] in merge_loops.cpp. Operations
/// whose graphs have little in common stay. The graph itself where there are none to merge.
Graph merge_loops(const Graph& graph);

/// By value: is it made once, when the program is compiled? Results of operations without operands, of trait
/// constant, that have at most `constant_bytes` bytes or that the operation carries as a tensor.
std::vector<bool> find_constants(const Graph& graph, std::size_t constant_bytes);

/// By value: the value whose memory it shares, because nothing but operations of trait view stands between
/// them; itself otherwise.
std::vector<ValueId> storage_roots(const Graph& graph);

/// By value: the value of one element whose element all of its elements are, itself if it has one element
/// itself or is an operation's literal repeated, or no_index when elements may differ. Views are seen
/// through.
std::vector<ValueId> find_splats(const Graph& graph);

}  // namespace tidu::passes
