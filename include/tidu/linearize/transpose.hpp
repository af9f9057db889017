// transpose.hpp - linear_transpose: from a linear graph, the linear graph that maps cotangents of outputs to
// cotangents of inputs (VJP), with respect to the real inner product <a, b> = Re(conj(a) b). A transposed
// graph is again a linear graph.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu {

/// The arguments of linear_transpose().
struct TransposeOptions {
  /// Positions of the inputs in which the graph is linear; all when not given. The others are parameters.
  std::optional<std::vector<std::size_t>> linear_inputs;
  /// By output: has it a cotangent? By default all have.
  std::optional<std::vector<bool>> seeded;
  ADContext* context = nullptr;  ///< passed to every rule
  /// Holds sums of three or more cotangents of f16 or bf16 in f32, and rounds them to the dtype of their
  /// value once, at the end, also in graphs that operations hold; the sum of two needs no more than one
  /// rounding as it is. Without it, or where the set has no operation for conversions, each partial sum is
  /// rounded. Graphs without values of 16 bits are the same either way.
  bool wide_accumulation = true;
  /// The graph from which linearize() made the linear graph: errors name operations of it. Optional.
  const Graph* primal = nullptr;
};

/// The result of linear_transpose().
struct Transposition {
  /// Inputs: the parameters of the linear graph, then one cotangent per seeded output. Externals: those of
  /// the linear graph that are needed. Outputs: the cotangents that are there.
  Graph graph;
  /// By entry of linear_inputs: position among graph's outputs, or nothing when the cotangent is zero.
  std::vector<std::optional<std::size_t>> cotangent_of_input;
};

/// Asks the transpose rule of every operation that a cotangent reaches, each once, and emits the set's `add`
/// where cotangents meet (in f32 those of 16 bits, see TransposeOptions::wide_accumulation); no rule sums
/// cotangents itself. Throws Error (invalid_argument, type) for options that do not fit or a graph that is
/// not linear in these inputs; ADRuleError for a rule that is missing or breaks its contract.
Transposition linear_transpose(const Graph& linear, const TransposeOptions& options = {});
Result<Transposition> try_linear_transpose(const Graph& linear, const TransposeOptions& options = {});

/// The builder form: emits the transposed graph on `emitter`, which may make a graph, execute at once or
/// record. `parameters` stand for the inputs that are not linear, `externals` for the externals, `cotangents`
/// (absent: zero) for the cotangents of the outputs; all are values of `emitter`. Returns the cotangents of
/// the linear inputs.
std::vector<std::optional<Value>> linear_transpose_with(Emitter& emitter, const Graph& linear,
                                                        std::span<const Value> parameters,
                                                        std::span<const Value> externals,
                                                        std::span<const std::optional<Value>> cotangents,
                                                        const TransposeOptions& options = {});
Result<std::vector<std::optional<Value>>> try_linear_transpose_with(
    Emitter& emitter, const Graph& linear, std::span<const Value> parameters,
    std::span<const Value> externals, std::span<const std::optional<Value>> cotangents,
    const TransposeOptions& options = {});

}  // namespace tidu
