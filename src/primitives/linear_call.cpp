// linear_call.cpp - linear_call: a graph that is linear in its operands after the first ones, with its
// transpose.
//
// Note [Derivatives of linear_call]: the tangent by its linear operands is a linear_call again, so that its
// transpose is used at any order; the tangent by its residuals is that of graph. A graph is linear if its
// linearization keeps only values that depend on residuals alone; the part that is linear in the call's
// operands is then that linearization. (graph may have a constant part: it may have been a backward that was
// transposed.) A backward that is not linear is differentiated as a plain call.
#include <algorithm>

#include "primitives/linear_rule.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec graph_and_transpose[] = {{"graph", AttributeKind::graph},
                                                 {"transpose", AttributeKind::graph},
                                                 {"num_residuals", AttributeKind::integer}};

void infer_linear_call(InferContext& c) {
  const Graph graph = c.op().graph("graph"), transpose = c.op().graph("transpose");
  const std::int64_t residuals = c.op().integer("num_residuals");
  infer_inner_graph(c, graph);
  c.require(residuals >= 0 && static_cast<std::size_t>(residuals) <= c.num_operands(),
            "expected num_residuals from 0 to ", c.num_operands(), ", got ", residuals);
  const auto count = static_cast<std::size_t>(residuals);
  for (std::size_t i = count; i < c.num_operands(); ++i) {
    c.require(is_inexact(c.operand(i).dtype()), "expected a floating or complex operand ", i,
              ", in which graph is linear, got ", c.operand(i));
  }
  for (const Type type : c.results())
    c.require(is_inexact(type.dtype()), "expected floating or complex outputs of graph, got ", type);
  std::vector<Slot> slots;
  append_slots(slots, graph, graph.inputs().first(count), "which is residual");
  append_slots(slots, graph, graph.outputs(), "the cotangent of output");
  require_slots(c, transpose, "transpose", "input", transpose.inputs(), slots);
  slots.clear();
  append_slots(slots, graph, graph.inputs().subspan(count), "the cotangent of linear input");
  require_slots(c, transpose, "transpose", "output", transpose.outputs(), slots);
}

// See Note [Derivatives of linear_call].
class LinearRuleBuilder {
 public:
  explicit LinearRuleBuilder(JvpContext& c)
      : c_(c),
        graph_(c.op().graph("graph")),
        transpose_(c.op().graph("transpose")),
        num_residuals_(static_cast<std::size_t>(c.op().integer("num_residuals"))) {
    for (std::size_t i = 0; i < c.num_operands(); ++i) active_.push_back(i >= num_residuals_ && c.active(i));
  }

  // Nothing where the tangents of linear operands have to be those of a plain call.
  std::optional<LinearRule> make() {
    if (std::find(active_.begin(), active_.end(), true) == active_.end()) return std::nullopt;
    const InnerLinearization inner = c_.host().linearize(graph_, active_);
    if (inner.linear.outputs().empty() || !is_linear(inner)) return std::nullopt;
    keep_residuals(inner);
    rule_.linear = linear(inner);
    rule_.backward = backward();
    drop_unused_residuals(rule_);
    return std::move(rule_);
  }

 private:
  bool is_linear(const InnerLinearization& inner) const {
    std::vector<bool> linear_inputs(graph_.inputs().size(), true);
    std::fill_n(linear_inputs.begin(), num_residuals_, false);
    const std::vector<bool> depends = depending_on(graph_, linear_inputs),
                            kept = depending_on(inner.primal, linear_inputs);
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      if (depends[graph_.outputs()[k]] && !inner.tangent_of_output[k]) return false;
    }
    const auto residuals = inner.primal.outputs().subspan(graph_.outputs().size());
    return std::none_of(residuals.begin(), residuals.end(), [&](ValueId id) { return kept[id]; });
  }

  // Those of the linearization, then those of the operation.
  void keep_residuals(const InnerLinearization& inner) {
    std::vector<bool> inputs(graph_.inputs().size(), false);
    std::fill_n(inputs.begin(), num_residuals_, true);
    std::vector<std::size_t> outputs;
    for (std::size_t k = graph_.outputs().size(); k < inner.primal.outputs().size(); ++k)
      outputs.push_back(k);
    const auto own = c_.primals().first(num_residuals_);
    if (!outputs.empty()) {
      const Values values = ops::call(c_.emitter(), restricted(inner.primal, inputs, outputs), own);
      rule_.residuals.assign(values.begin(), values.end());
    }
    further_ = rule_.residuals.size();
    rule_.residuals.insert(rule_.residuals.end(), own.begin(), own.end());
    for (std::size_t i = num_residuals_; i < active_.size(); ++i) {
      if (active_[i]) rule_.inputs.push_back(i);
    }
    for (std::size_t k = 0; k < inner.tangent_of_output.size(); ++k) {
      if (inner.tangent_of_output[k]) rule_.outputs.push_back(k);
    }
  }

  std::vector<Value> residual_inputs(GraphBuilder& builder) const {
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < rule_.residuals.size(); ++i)
      inputs.push_back(builder.input(detail::str("residual.", i), rule_.residuals[i].type()));
    return inputs;
  }

  Graph linear(const InnerLinearization& inner) const {
    GraphBuilder builder(graph_.name() + ".linear", graph_.primitives());
    std::vector<Value> arguments = residual_inputs(builder);
    arguments.resize(further_);
    for (const std::size_t i : rule_.inputs)
      arguments.push_back(builder.input(detail::str("tangent.", i), graph_.type(graph_.inputs()[i])));
    const std::vector<Value> values = inline_graph(builder, inner.linear, arguments);
    std::vector<Value> outputs;
    for (const std::size_t k : rule_.outputs)
      outputs.push_back(values[inner.linear.outputs()[*inner.tangent_of_output[k]]]);
    return builder.build(outputs);
  }

  // The transpose of the operation, where results without a tangent have no cotangent.
  Graph backward() const {
    GraphBuilder builder(transpose_.name(), transpose_.primitives());
    std::vector<Value> arguments = residual_inputs(builder);
    arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(further_));
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      const Type type = graph_.type(graph_.outputs()[k]);
      const bool wanted = std::find(rule_.outputs.begin(), rule_.outputs.end(), k) != rule_.outputs.end();
      arguments.push_back(wanted ? builder.input(detail::str("cotangent.", k), type) : zeros(builder, type));
    }
    const std::vector<Value> values = inline_graph(builder, transpose_, arguments);
    std::vector<Value> outputs;
    for (const std::size_t i : rule_.inputs)
      outputs.push_back(values[transpose_.outputs()[i - num_residuals_]]);
    return builder.build(outputs);
  }

  JvpContext& c_;
  Graph graph_, transpose_;
  std::size_t num_residuals_, further_ = 0;
  std::vector<bool> active_;  // linear operands with a tangent
  LinearRule rule_;
};

Derivatives jvp_linear_call(JvpContext& c) {
  const std::optional<LinearRule> rule = LinearRuleBuilder(c).make();
  const EmitGraph by_call = [&c](const Graph& inner, std::span<const Value> operands) {
    return ops::call(c.emitter(), inner, operands);
  };
  if (!rule) return jvp_inner_graph(c, by_call);
  std::vector<bool> active_residuals(c.num_operands(), false);
  for (std::int64_t i = 0; i < c.op().integer("num_residuals"); ++i)
    active_residuals[static_cast<std::size_t>(i)] = c.active(static_cast<std::size_t>(i));
  Derivatives result = jvp_inner_graph(c, by_call, active_residuals);
  const Values tangents = tangents_by(c, *rule);
  for (std::size_t j = 0; j < rule->outputs.size(); ++j) {
    const std::size_t k = rule->outputs[j];
    result.set(k, result[k] ? ops::add(*result[k], tangents[j]) : tangents[j]);
  }
  return result;
}

Derivatives transpose_linear_call(TransposeContext& c) {
  const auto residuals = static_cast<std::size_t>(c.op().integer("num_residuals"));
  std::vector<Value> operands;
  for (std::size_t i = 0; i < residuals; ++i) {
    if (c.linear(i)) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("expected an operation that is linear in operands from ", residuals,
                              " on, got operand ", i, " depending on the linear inputs"));
    }
    operands.push_back(c.operand(i));
  }
  const Graph graph = c.op().graph("graph");
  for (std::size_t slot = 0; slot < c.num_results(); ++slot) {
    const std::optional<Value> ct = c.cotangent(slot);
    operands.push_back(ct ? *ct : zeros(c.emitter(), graph.type(graph.outputs()[slot])));
  }
  Derivatives result = Derivatives::absent(c.num_operands());
  const Graph transpose = c.op().graph("transpose");
  if (transpose.outputs().empty()) return result;
  const Values cotangents = ops::linear_call(c.emitter(), transpose, graph, residuals, operands);
  for (std::size_t i = residuals; i < c.num_operands(); ++i) {
    if (c.linear(i)) result.set(i, cotangents[i - residuals]);
  }
  return result;
}

Values batch_linear_call(BatchContext& c) {
  const std::int64_t residuals = c.op().integer("num_residuals");
  const auto count = static_cast<std::size_t>(residuals);
  const Graph transpose = c.op().graph("transpose");
  const std::vector<bool> batched = batched_operands(c);
  std::vector<bool> inputs(transpose.inputs().size(), true), summed;
  std::copy_n(batched.begin(), count, inputs.begin());
  for (std::size_t i = count; i < batched.size(); ++i) summed.push_back(!batched[i]);
  return ops::linear_call(c.emitter(), c.host().batch(c.op().graph("graph"), batched, c.size()),
                          batched_and_summed(c.host(), transpose, inputs, summed, c.size()), count,
                          operands_of(c));
}

}  // namespace

void drop_unused_residuals(LinearRule& rule) {
  const std::vector<bool> in_linear = reachable(rule.linear, rule.linear.outputs()),
                          in_backward = reachable(rule.backward, rule.backward.outputs());
  std::vector<bool> linear_inputs(rule.linear.inputs().size(), true),
      backward_inputs(rule.backward.inputs().size(), true);
  std::vector<Value> kept;
  for (std::size_t i = 0; i < rule.residuals.size(); ++i) {
    const bool used = in_linear[rule.linear.inputs()[i]] || in_backward[rule.backward.inputs()[i]];
    linear_inputs[i] = backward_inputs[i] = used;
    if (used) kept.push_back(rule.residuals[i]);
  }
  rule.residuals = std::move(kept);
  const auto all_outputs = [](const Graph& graph) {
    std::vector<std::size_t> positions(graph.outputs().size());
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = i;
    return positions;
  };
  rule.linear = restricted(rule.linear, linear_inputs, all_outputs(rule.linear));
  rule.backward = restricted(rule.backward, backward_inputs, all_outputs(rule.backward));
}

Values tangents_by(JvpContext& c, const LinearRule& rule) {
  std::vector<Value> operands = rule.residuals;
  for (const std::size_t i : rule.inputs) operands.push_back(*c.tangent(i));
  return ops::linear_call(c.emitter(), rule.linear, rule.backward, rule.residuals.size(), operands);
}

// y = graph(r, x)          ct_x = transpose(r, ct), which is a linear_call again
constinit const Primitive linear_call{.name = "linear_call",
                                      .arity = variadic,
                                      .num_outputs = variadic,
                                      .attributes = graph_and_transpose,
                                      .traits = Trait::holds_graph,
                                      .linearity = linearity::linear,
                                      .infer = infer_linear_call,
                                      .jvp = jvp_linear_call,
                                      .transpose = transpose_linear_call,
                                      .batch = batch_linear_call};

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Op linear_op(const Graph& graph, const Graph& transpose, std::size_t residuals) {
  return Op::make(
      prim::linear_call,
      {{"graph", graph}, {"transpose", transpose}, {"num_residuals", static_cast<std::int64_t>(residuals)}});
}

}  // namespace

Values linear_call(Emitter& emitter, const Graph& graph, const Graph& transpose, std::size_t num_residuals,
                   std::span<const Value> operands, Where where) {
  return emitter.emit(linear_op(graph, transpose, num_residuals), operands, where);
}
Values linear_call(const Graph& graph, const Graph& transpose, std::size_t num_residuals,
                   std::span<const Value> operands, Where where) {
  return emit(linear_op(graph, transpose, num_residuals), operands, where);
}

}  // namespace tidu::ops
