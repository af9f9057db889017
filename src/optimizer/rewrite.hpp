// rewrite.hpp - the sweep that simplify and fold_constants share.
#pragma once

#include <unordered_map>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu::passes {

/// What is put in the place of operations.
struct RewriteOptions {
  bool rules = true;       ///< what their simplify rules give
  bool fast_math = false;  ///< rules that are not exact, too
  /// By value: all results of an operation, or none of them. Of a set with a vocabulary for constants.
  const std::unordered_map<ValueId, Literal>* tensors = nullptr;
};

/// The same function, without dead operations, equal ones merged.
Graph rewrite(const Graph& graph, const RewriteOptions& options);

}  // namespace tidu::passes
