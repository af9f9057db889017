// rewrite.hpp - the rewriting sweep that simplify and fold_constants share: from a graph to an equivalent
// graph, operation by operation.
#pragma once

#include <unordered_map>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu::passes {

/// The replacements of operations.
struct RewriteOptions {
  bool rules = true;       ///< apply simplify rules
  bool fast_math = false;  ///< including rules that are not exact
  /// Tensors, indexed by value: for all results of an operation or for none. Requires that the set can emit
  /// constants (TransformOps::constant).
  const std::unordered_map<ValueId, Literal>* tensors = nullptr;
};

/// An equivalent graph without dead operations, in which equal operations are merged.
Graph rewrite(const Graph& graph, const RewriteOptions& options);

}  // namespace tidu::passes
