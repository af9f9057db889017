// passes.hpp - the passes of optimize(), each a function from graph to graph, and analyses of the values of a
// graph, which executors also use.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/optimizer/optimize.hpp"

namespace tidu::passes {

/// Inlining. An operation with trait holds_graph and an attribute `graph` whose interface is that of the
/// operation is replaced by the operations of that graph, at any depth. Returns the graph itself if there is
/// no such operation. Operations for which `stays` is true are kept. Iterative; throws Error
/// (invalid_argument) beyond `max_operations`.
Graph inline_graphs(const Graph& graph, std::size_t max_operations,
                    const std::function<bool(const Operation&)>& stays = {});

/// Its former name.
[[deprecated("use inline_graphs")]] inline Graph write_out_graphs(
    const Graph& graph, std::size_t max_operations, const std::function<bool(const Operation&)>& stays = {}) {
  return inline_graphs(graph, max_operations, stays);
}

/// Simplification, in one sweep: drops dead code and merges equal operations as prune does, and applies the
/// simplify rules of the primitives (docs/optimizer.md). Linear in the size of the graph. Inputs, outputs and
/// impure operations are kept, and nothing is moved across a barrier. Throws Error (internal) if a rule
/// returns other types than those of the operation.
Graph simplify(const Graph& graph, bool fast_math);

/// Constant folding. Replaces values that depend on constants alone by tensors, if they and all values in
/// their computation have at most `options.constant_bytes` bytes (or are carried by an operation); then
/// simplifies, according to `options`. Calls the evaluator at most once, for all values together. Returns the
/// graph without change if the evaluator throws Error, or if the set of primitives has no operation for
/// constants. Throws Error (execution) if the evaluator returns other types.
Graph fold_constants(const Graph& graph, const ConstantEvaluator& evaluate, const OptimizeOptions& options);

/// Loop merging. Operations that run graphs on the same operands, with the same carries in each step, become
/// one operation with the results of all: see Note [Merged loops] in merge_loops.cpp. Operations whose graphs
/// have little in common are kept. Returns the graph itself if there is nothing to merge.
Graph merge_loops(const Graph& graph);

/// Indexed by value: is it computed once, at compilation? True for results of operations without operands and
/// with trait constant, if they have at most `constant_bytes` bytes or the operation carries them as a
/// tensor.
std::vector<bool> find_constants(const Graph& graph, std::size_t constant_bytes);

/// Indexed by value: the value whose memory it shares through operations of trait view; otherwise itself.
std::vector<ValueId> alias_roots(const Graph& graph);
/// The former name of alias_roots.
[[deprecated("use alias_roots")]] inline std::vector<ValueId> storage_roots(const Graph& graph) {
  return alias_roots(graph);
}

/// Splats, indexed by value: a value of one element to which all its elements are equal; itself if it has one
/// element or is the repeated literal of an operation; no_index if elements may differ. Views are looked
/// through.
std::vector<ValueId> find_splats(const Graph& graph);

}  // namespace tidu::passes
