// optimize.hpp - optimize: from a graph to an equivalent graph with less work. Its passes inline graphs,
// merge equal operations, drop dead code, apply the primitives' simplify rules, merge loops and fold
// constants. It is independent of executors, and refers to traits of primitives instead of names. Executors
// schedule the result.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu {

/// Options of optimize().
struct OptimizeOptions {
  /// Apply the primitives' simplify rules that change no bit of a result (except which NaN it is).
  bool simplify = true;
  /// Also apply rules that may change rounding, signs of zeros, infinities and NaNs.
  bool fast_math = false;
  /// Merge operations that run graphs on the same operands with the same carries in each step. Part of
  /// `simplify`.
  bool merge_loops = true;
  /// Maximum bytes of the result of an operation without operands that is computed once, at compilation. (A
  /// tensor that the operation carries as an attribute is always a constant.)
  std::size_t constant_bytes = std::size_t{1} << 16;
  /// Maximum number of operations after inlining. A few nested graphs can stand for more operations than any
  /// memory holds.
  std::size_t max_operations = std::size_t{1} << 26;
  friend bool operator==(const OptimizeOptions&, const OptimizeOptions&) = default;
};

/// Computes the outputs of a graph without inputs, for constant folding. The optimizer has no executor; its
/// caller provides one.
using ConstantEvaluator = std::function<std::vector<Literal>(const Graph& graph)>;

/// A function from a graph to an equivalent graph.
using GraphPass = std::function<Graph(const Graph& graph)>;

/// The optimized graph. Linear in the size of the graph. Inputs and outputs keep their order; an input that
/// nothing reads stays an input. `for_target` is a rewrite for one executor, which runs before constant
/// folding. Without `evaluate`, constants are not folded. Throws Error (invalid_argument) for a graph with
/// externals, and if inner graphs exceed `max_operations`.
Graph optimize(const Graph& graph, const OptimizeOptions& options = OptimizeOptions(),
               const ConstantEvaluator& evaluate = nullptr, const GraphPass& for_target = nullptr);
/// As optimize, but returns the error.
Result<Graph> try_optimize(const Graph& graph, const OptimizeOptions& options = OptimizeOptions(),
                           const ConstantEvaluator& evaluate = nullptr,
                           const GraphPass& for_target = nullptr);

}  // namespace tidu
