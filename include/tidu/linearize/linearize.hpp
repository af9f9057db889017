// linearize.hpp - linearize: from a graph, the linear graph that maps tangents of inputs to tangents of
// outputs (JVP).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu {

/// The arguments of linearize().
struct LinearizeOptions {
  /// Positions of the inputs to differentiate by; all floating and complex ones when not given.
  std::optional<std::vector<std::size_t>> wrt;
  /// Passed to every rule.
  ADContext* context = nullptr;
};

/// A graph, linearized at whatever values its inputs will have.
struct Linearization {
  Graph primal;  ///< as it was given
  /// The primal graph with residuals, the values that the linear graph needs, as additional results. Same
  /// inputs, externals and outputs. An operation that holds a graph is replaced by one that has its residuals
  /// as further results.
  Graph augmented;
  /// By value of primal: the same value in augmented. Empty when ids are the same.
  std::vector<ValueId> value_map;
  /// Inputs: one tangent per entry of wrt, in order. Externals: residuals and primal values, by key. Nothing
  /// but operations that are linear in their active operands. Outputs: the tangents that are there.
  Graph linear;
  std::vector<ValueId> residuals;  ///< by external of linear: its value in augmented
  std::vector<std::size_t> wrt;    ///< positions of inputs of primal
  /// By output of primal: position among the outputs of linear, or nothing when the tangent is zero.
  std::vector<std::optional<std::size_t>> tangent_of_output;

  /// The same value in augmented.
  ValueId in_augmented(ValueId primal_value) const {
    return value_map.empty() ? primal_value : value_map[primal_value];
  }
};

/// Asks the JVP rule of every operation on a path from wrt to an output, each once.
/// Throws Error (invalid_argument) for an entry of wrt that is out of range, given twice, or neither floating
/// nor complex; ADRuleError for a rule that is missing or breaks its contract.
Linearization linearize(const Graph& graph, const LinearizeOptions& options = {});
Result<Linearization> try_linearize(const Graph& graph, const LinearizeOptions& options = {});

}  // namespace tidu
