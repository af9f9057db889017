// optimize.hpp - optimize: the same function as a graph with less work in it. Graphs inside operations are
// inlined, equal operations merged, dead ones dropped, operations simplified by the rules of their
// primitives, loops over the same steps merged and constants folded. Of no executor: it knows the traits of
// primitives and no names. Executors schedule what it gives.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu {

/// What optimize() may do.
struct OptimizeOptions {
  /// Let primitives put less work in the place of their operations, by rules that change no bit of a result
  /// (which NaN it is does not count).
  bool simplify = true;
  /// Let these rules also be such as are exact but for rounding, signs of zeros, infinities and NaNs.
  bool fast_math = false;
  /// Let operations that run graphs on the same operands, step by step the same carries, be one. Part of
  /// `simplify`.
  bool merge_loops = true;
  /// Results of operations without operands are made once, when the graph is compiled, if they have at most
  /// this many bytes (a tensor that the operation carries as an attribute: always).
  std::size_t constant_bytes = std::size_t{1} << 16;
  /// Most operations that inlining graphs may lead to: a few nested graphs can stand for more than any memory
  /// holds.
  std::size_t max_operations = std::size_t{1} << 26;
  friend bool operator==(const OptimizeOptions&, const OptimizeOptions&) = default;
};

/// Computes the outputs of a graph without inputs. The optimizer knows no executor: who compiles hands it
/// one, to compute what depends on constants alone.
using ConstantEvaluator = std::function<std::vector<Literal>(const Graph& graph)>;

/// From graph to graph, of the same function.
using GraphPass = std::function<Graph(const Graph& graph)>;

/// The same function with less work. Linear in the size of the graph. Inputs and outputs keep their order; an
/// input that nothing reads stays an input. `for_target`, a rewrite for one executor, runs before constants
/// are folded. Without an evaluator nothing is computed. Throws Error (invalid_argument) for a graph
/// with externals, and for inner graphs that go beyond `max_operations`.
Graph optimize(const Graph& graph, const OptimizeOptions& options = OptimizeOptions(),
               const ConstantEvaluator& evaluate = nullptr, const GraphPass& for_target = nullptr);
/// As optimize, but returns the error.
Result<Graph> try_optimize(const Graph& graph, const OptimizeOptions& options = OptimizeOptions(),
                           const ConstantEvaluator& evaluate = nullptr,
                           const GraphPass& for_target = nullptr);

}  // namespace tidu
