// custom_rules.hpp - functions that custom_jvp_call, custom_vjp_call and the transposes of both share.
//
// Note [Results of a rule]: under differentiation, the results of such a call stay the results of a call with
// the rule, so that they have its derivatives at every order. If the rule's graph computes them, for its own
// use or as residuals, they replace its values. The new call computes the results by the rule's graph, if
// that differs from `graph`.
#pragma once

#include <optional>
#include <vector>

#include "primitives/rule_evaluation.hpp"

namespace tidu::prim {

// --- rules, which may be deferred: a deferred one is checked when it is made. Throws Error (type) if its
// inputs or outputs do not fit.
/// Is the graph of this attribute made on demand?
bool is_deferred(const Op& op, std::string_view attribute);
/// The rule of a custom_jvp_call or custom_jvp_transpose of `graph`.
Graph jvp_of(const Op& op, const Graph& graph);
/// The graphs of a custom_vjp_call.
struct VjpGraphs {
  explicit VjpGraphs(const Op& op);
  Graph graph, forward, backward;
};
/// Such a rule batched over these inputs; deferred where it is.
Attribute batched_rule(BatchContext& c, std::string_view attribute, const std::vector<bool>& inputs);
/// Refuses a graph jvp, unless it is deferred, whose signature is not that of a rule of graph.
void require_jvp(const InferContext& c, const Graph& graph);

/// In a JVP rule: emits the call anew, to replace the primal operation, and returns its results. The first
/// outputs of `rule` are the results, computed from its first inputs.
Values emit_results(JvpContext& c, const Graph& rule);
/// By value of the rule's graph: these results, where the graph computes them from its inputs, as its first
/// outputs.
std::vector<std::optional<Tracked>> results_known(const Graph& rule, std::span<const Value> results);

/// The tangents of these results of a custom_jvp_call, by its attribute jvp. `tangents`: by operand.
Derivatives tangents_by_jvp(RuleEvaluation& evaluation, const Graph& rule, std::span<const Value> primals,
                            const std::vector<Tracked>& tangents, const Values& results);
/// The transpose of a custom_jvp_call: a custom_jvp_transpose.
Derivatives transpose_custom_jvp_call(TransposeContext& c);

/// For an operation that is linear in its last operands by construction (linear_call, custom_jvp_transpose,
/// custom_linear_solve): the number of operands before those; for others nothing.
std::optional<std::size_t> residuals_of_linear(const Operation& operation);
/// For a custom_vjp_call: do the cotangents of these operands read no residual that depends on them? Then a
/// function with a true rule is linear in them.
bool linear_by_rule(const Op& op, const std::vector<bool>& operands);

}  // namespace tidu::prim
