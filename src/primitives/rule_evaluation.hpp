// rule_evaluation.hpp - evaluates the graph of a user's rule on primal values and tangents: operations on a
// tangent are linear and go to the linear graph, the others are primal. Operations with rules of their own
// stay operations, so that these rules apply at every order.
//
// Note [Zeros in a rule]: the tangent of a constant operand is a zero that is never made. It is propagated
// symbolically through the user's graph: an operation that is linear in zeros alone is zero, a sum with zero
// is the other term, and an array of zeros is made only for other operations. A value that depends on such
// tangents alone is zero by linearity, also if it contains a value that is not known to be zero (a padding,
// say).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "primitives/inner_graphs.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::prim {

/// A value while a rule's graph is evaluated. A zero without a value was never made.
struct Tracked {
  std::optional<Value> value;
  Type type;
  bool linear = false;  ///< depends on a tangent
  bool zero = false;
  bool vanishes = false;  ///< is zero because it depends on tangents of constants alone
};

class RuleEvaluation {
 public:
  /// `primitive`: whose rule it is, as errors say.
  RuleEvaluation(Emitter& emitter, std::string_view primitive) : emitter_(emitter), primitive_(primitive) {}

  /// Its value, made where it is a zero that has none.
  Value made(Tracked& tracked);
  /// The outputs of the graph. Values of the graph that have an entry in `known` (by id; empty: none has) are
  /// taken from there, and operations that only they need are left out. Throws ADRuleError where the graph is
  /// not linear in tangents. Graphs nest at most max_graph_depth deep, and so does this.
  std::vector<Tracked> run(const Graph& graph, const std::vector<Tracked>& inputs,
                           const std::vector<std::optional<Tracked>>& known = {});
  /// The error for a graph that is not linear in its tangents.
  ADRuleError bent(const std::string& message) const;

 private:
  std::vector<Tracked> apply(const Graph& graph, const Operation& operation, std::vector<Tracked>& operands);
  std::vector<Tracked> emit(const Op& op, const std::vector<Tracked>& operands, bool zero);
  std::vector<Tracked> pass_barrier(const Op& op, const std::vector<Tracked>& operands);
  std::vector<Tracked> keep_rule(const Graph& graph, const Operation& operation,
                                 const std::vector<Tracked>& operands);
  std::vector<Tracked> tried(const Graph& graph, const Operation& operation,
                             const std::vector<Tracked>& operands) const;
  std::vector<Tracked> control_flow(const Graph& graph, const Operation& operation,
                                    const std::vector<Tracked>& operands);
  std::vector<Tracked> without_tangents(const Operation& operation, std::vector<Tracked> operands);
  std::optional<Tracked> sum_with_zero(const Graph& graph, const Operation& operation,
                                       const std::vector<Tracked>& operands);
  void require_linear(const Graph& graph, const Operation& operation,
                      const std::vector<Tracked>& operands) const;

  Emitter& emitter_;
  std::string_view primitive_;
};

}  // namespace tidu::prim
