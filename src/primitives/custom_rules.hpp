// custom_rules.hpp - what custom_jvp_call, custom_vjp_call and the transposes of both share.
//
// Note [Results of a rule]: where a derivative is taken, the results of such a call stay the results of a
// call with the rule, so that they have its derivatives at every order. Where the rule's graph computes them,
// for its own use or as residuals, they take the place of what it computes. The call computes the results as
// the rule does, where that is not as `graph` does.
#pragma once

#include <optional>
#include <vector>

#include "primitives/rule_evaluation.hpp"

namespace tidu::prim {

// --- rules, which may be deferred: a deferred one is checked when it is asked for. Throws Error (type) where
// its inputs or outputs do not fit.
/// Is the graph of this attribute made when it is asked for?
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

/// In a JVP rule: emits the call anew in the place of the primal operation, and gives its results. `rule` has
/// the results as its first outputs, computed from its first inputs.
Values emit_results(JvpContext& c, const Graph& rule);
/// By value of the rule's graph: these results, where the graph computes them from its inputs, as its first
/// outputs.
std::vector<std::optional<Tracked>> results_known(const Graph& rule, std::span<const Value> results);

/// The tangents of these results of a custom_jvp_call, by its attribute jvp. `tangents`: by operand.
Derivatives tangents_by_jvp(RuleEvaluation& evaluation, const Graph& rule, std::span<const Value> primals,
                            const std::vector<Tracked>& tangents, const Values& results);
/// The transpose of a custom_jvp_call: a custom_jvp_transpose.
Derivatives transpose_custom_jvp_call(TransposeContext& c);

/// Of an operation that is linear in its last operands by its making (linear_call, custom_jvp_transpose,
/// custom_linear_solve): how many come before; of any other one nothing.
std::optional<std::size_t> residuals_of_linear(const Operation& operation);
/// Of a custom_vjp_call: do the cotangents of these operands read no residual that depends on them? A
/// function whose rule is true is linear in them then.
bool linear_by_rule(const Op& op, const std::vector<bool>& operands);

}  // namespace tidu::prim
