// custom_vjp.cpp - custom_vjp_call, which becomes a linear_call in a linear graph: reverse mode uses the
// transpose, the user's `backward`, unchanged.
//
// Note [Forward mode of custom_vjp_call]: the map from tangents to tangents is the transpose of backward if
// backward can be transposed. So both modes agree, also if the rule is meant to differ from the derivative of
// graph. If backward is linear and no rule transposes it (a while without a bound), the map is computed row
// by row. If backward is not linear (a clipped cotangent), or has a constant part or effects, the map is the
// derivative of graph, for which the linear_call has operands of graph as further residuals. It keeps all of
// them, used or not. Otherwise calls of one function on several operands would be one linear_call, and
// backward, which is not linear, would run once on a sum of cotangents.
#include <algorithm>
#include <numeric>

#include "graph/in_all.hpp"
#include "primitives/affine.hpp"
#include "primitives/custom_rules.hpp"
#include "primitives/linear_rule.hpp"
#include "primitives/scan.hpp"
#include "primitives/transpose_by_rows.hpp"
#include "tidu/graph/deferred_graph.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec graph_forward_backward[] = {
    {"graph", AttributeKind::graph}, {"forward", AttributeKind::rule}, {"backward", AttributeKind::rule}};

void infer_custom_vjp(InferContext& c) {
  const Graph graph = c.op().graph("graph");
  infer_inner_graph(c, graph);
  if (is_deferred(c.op(), "forward") || is_deferred(c.op(), "backward")) return;
  const Graph forward = c.op().graph("forward"), backward = c.op().graph("backward");
  std::vector<Slot> slots;
  append_slots(slots, graph, graph.inputs(), "which is input");
  require_slots(c, forward, "forward", "input", forward.inputs(), slots);
  slots.clear();
  append_slots(slots, graph, graph.outputs(), "which is output");
  require_slots(c, forward, "forward", "output", forward.outputs(), slots, true);
  slots.clear();
  append_slots(slots, forward, forward.outputs().subspan(graph.outputs().size()), "which is residual");
  append_slots(slots, graph, graph.outputs(), "the cotangent of output", true);
  require_slots(c, backward, "backward", "input", backward.inputs(), slots);
  slots.clear();
  append_slots(slots, graph, graph.inputs(), "the cotangent of input", true);
  for (std::size_t i = 0; i < graph.inputs().size() && backward.outputs().size() != slots.size(); ++i) {
    const Type type = graph.type(graph.inputs()[i]);
    c.require(is_inexact(type.dtype()), "expected ", slots.size(), " outputs of graph backward (",
              detail::in_quotes(backward.name()),
              "), a cotangent of each floating or complex input and none of ", "input ", i, ", ", type,
              ", got ", backward.outputs().size());
  }
  require_slots(c, backward, "backward", "output", backward.outputs(), slots);
}

// These outputs of backward, which is given residuals after its own that it does not read.
Graph backward_with_residuals(const VjpGraphs& graphs, const std::vector<Value>& residuals,
                              const std::vector<std::size_t>& kept) {
  const Graph& backward = graphs.backward;
  GraphBuilder builder(backward.name(), backward.primitives());
  const std::size_t own = graphs.forward.outputs().size() - graphs.graph.outputs().size();
  std::vector<Value> inputs;
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    const Value input = builder.input(detail::str("residual.", r), residuals[r].type());
    if (r < own) inputs.push_back(input);
  }
  for (std::size_t i = own; i < backward.inputs().size(); ++i)
    inputs.push_back(builder.input(detail::str("cotangent.", i - own), backward.type(backward.inputs()[i])));
  const std::vector<Value> values = inline_graph(builder, backward, inputs);
  std::vector<Value> outputs;
  for (const std::size_t k : kept) outputs.push_back(values[backward.outputs()[k]]);
  return builder.build(outputs);
}

// The linear graph of a custom_vjp_call for the operands that are active.
class VjpRuleBuilder {
 public:
  VjpRuleBuilder(JvpContext& c, const VjpGraphs& graphs, std::vector<Value> residuals)
      : c_(c), graphs_(graphs), graph_(graphs.graph), backward_(graphs.backward) {
    rule_.residuals = std::move(residuals);
    own_residuals_ = rule_.residuals.size();
  }

  std::optional<LinearRule> make() {
    choose_outputs_of_backward();
    if (kept_.empty()) return std::nullopt;
    choose_cotangents();
    rule_.backward = restricted(backward_, inputs_of_backward(), kept_);
    const std::optional<InnerTransposition> transposed = affine_ ? std::nullopt : transposed_backward();
    if (!transposed && !affine_ && has_rows()) {
      rule_.linear = transposed_by_rows(rule_.backward, own_residuals_, graph_.name() + ".linear");
      drop_unused_residuals(rule_);
      return std::move(rule_);
    }
    if (!transposed) {
      affine_ = true;
      keep_all_outputs_of_backward();
      choose_cotangents();
      rule_.backward = restricted(backward_, inputs_of_backward(), kept_);
      from_graph();
      return std::move(rule_);
    }
    from_transposed(*transposed);
    drop_unused_residuals(rule_);
    return std::move(rule_);
  }

 private:
  // The cotangents of active inputs, but those that are zero by themselves.
  void choose_outputs_of_backward() {
    std::vector<Standing> inputs(backward_.inputs().size(), Standing{true, false});
    std::fill_n(inputs.begin(), own_residuals_, Standing{});
    const std::vector<Standing> made = standings(backward_, inputs);
    const std::vector<std::size_t> inexact = inexact_positions(graph_, graph_.inputs());
    for (std::size_t k = 0; k < inexact.size(); ++k) {
      if (!c_.active(inexact[k]) || (!made[k].depends && made[k].zero)) continue;
      affine_ = affine_ || !made[k].depends;
      kept_.push_back(k);
      rule_.inputs.push_back(inexact[k]);
    }
    if (affine_ || kept_.empty()) return;
    const Graph read =
        eliminate_dead_code(restricted(backward_, std::vector<bool>(inputs.size(), true), kept_));
    std::vector<std::size_t> all(kept_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    affine_ = affine_sum(read, inputs, all).has_value();
  }

  // The derivative of graph is that by all active inputs.
  void keep_all_outputs_of_backward() {
    kept_.clear();
    rule_.inputs.clear();
    const std::vector<std::size_t> inexact = inexact_positions(graph_, graph_.inputs());
    for (std::size_t k = 0; k < inexact.size(); ++k) {
      if (!c_.active(inexact[k])) continue;
      kept_.push_back(k);
      rule_.inputs.push_back(inexact[k]);
    }
  }

  // Those that the kept outputs of backward read. All where backward may give something for cotangents that
  // are zero: it then runs whichever result of graph is read, and gives the same whatever else is active.
  void choose_cotangents() {
    used_.clear();
    rule_.outputs.clear();
    std::vector<ValueId> roots;
    for (const std::size_t k : kept_) roots.push_back(backward_.outputs()[k]);
    const std::vector<bool> needed = reachable(backward_, roots);
    const std::vector<std::size_t> inexact = inexact_positions(graph_, graph_.outputs());
    for (std::size_t j = 0; j < inexact.size(); ++j) {
      used_.push_back(affine_ || needed[backward_.inputs()[own_residuals_ + j]]);
      if (used_.back()) rule_.outputs.push_back(inexact[j]);
    }
  }

  std::vector<bool> inputs_of_backward() const {
    std::vector<bool> inputs(own_residuals_, true);
    inputs.insert(inputs.end(), used_.begin(), used_.end());
    return inputs;
  }

  std::optional<InnerTransposition> transposed_backward() {
    std::vector<bool> linear(rule_.backward.inputs().size(), true);
    std::fill_n(linear.begin(), own_residuals_, false);
    try {
      Graph backward = eliminate_dead_code(rule_.backward);
      if (backward.data().has_effects && tidu::detail::operations_in_all(backward) <= max_unrolled)
        backward = with_effects_inlined(backward);
      return c_.host().transpose(separated(backward, linear), linear, std::vector<bool>(kept_.size(), true));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::ad_rule && error.kind() != ErrorKind::invalid_argument) throw;
      return std::nullopt;
    }
  }

  // Is backward, which has no transpose by rules, linear in the cotangents?
  bool has_rows() const {
    if (rule_.backward.data().has_effects) return false;
    std::vector<Standing> inputs(rule_.backward.inputs().size(), Standing{true, false, false});
    std::fill_n(inputs.begin(), own_residuals_, Standing{});
    const std::vector<Standing> made = standings(rule_.backward, inputs);
    return std::none_of(made.begin(), made.end(), [](const Standing& each) { return each.bent; });
  }

  // Inputs: the residuals, `extra` further ones, then tangents.
  void start_linear(GraphBuilder& builder, std::size_t extra) {
    for (std::size_t i = 0; i < own_residuals_ + extra; ++i)
      formal_.push_back(builder.input(detail::str("residual.", i), rule_.residuals[i].type()));
    for (const std::size_t i : rule_.inputs)
      formal_.push_back(builder.input(detail::str("tangent.", i), graph_.type(graph_.inputs()[i])));
  }

  void from_transposed(const InnerTransposition& transposed) {
    GraphBuilder builder(graph_.name() + ".linear", graph_.primitives());
    start_linear(builder, 0);
    const std::vector<Value> values = inline_graph(builder, transposed.graph, formal_);
    std::vector<Value> outputs;
    for (std::size_t j = 0; j < rule_.outputs.size(); ++j) {
      const auto& at = transposed.cotangent_of_input[own_residuals_ + j];
      outputs.push_back(at ? values[transposed.graph.outputs()[*at]]
                           : zeros(builder, graph_.type(graph_.outputs()[rule_.outputs[j]])));
    }
    rule_.linear = builder.build(outputs);
  }

  // See Note [Forward mode of custom_vjp_call].
  void from_graph() {
    std::vector<bool> active(graph_.inputs().size(), false);
    for (const std::size_t i : rule_.inputs) active[i] = true;
    const InnerLinearization inner = c_.host().linearize(graph_, active);
    rule_.residuals.insert(rule_.residuals.end(), c_.primals().begin(), c_.primals().end());
    GraphBuilder builder(graph_.name() + ".linear", graph_.primitives());
    start_linear(builder, c_.primals().size());
    const std::span<const Value> formal(formal_);
    const std::vector<Value> primal =
        inline_graph(builder, inner.primal, formal.subspan(own_residuals_, c_.primals().size()));
    std::vector<Value> arguments;
    for (const ValueId id : inner.primal.outputs().subspan(graph_.outputs().size()))
      arguments.push_back(primal[id]);
    arguments.insert(arguments.end(), formal.end() - static_cast<std::ptrdiff_t>(rule_.inputs.size()),
                     formal.end());
    const std::vector<Value> tangents = inline_graph(builder, inner.linear, arguments);
    std::vector<Value> outputs;
    for (const std::size_t k : rule_.outputs) {
      const auto& at = inner.tangent_of_output[k];
      outputs.push_back(at ? tangents[inner.linear.outputs()[*at]]
                           : zeros(builder, graph_.type(graph_.outputs()[k])));
    }
    rule_.linear = builder.build(outputs);
    rule_.backward = backward_with_residuals(graphs_, rule_.residuals, kept_);
  }

  JvpContext& c_;
  const VjpGraphs& graphs_;
  const Graph &graph_, &backward_;
  std::size_t own_residuals_ = 0;
  bool affine_ = false;            // backward has a constant part, or is not linear
  std::vector<std::size_t> kept_;  // outputs of backward
  std::vector<bool> used_;         // by cotangent that goes into backward
  std::vector<Value> formal_;
  LinearRule rule_;
};

Derivatives jvp_custom_vjp(JvpContext& c) {
  const VjpGraphs graphs(c.op());
  const Graph& forward = graphs.forward;
  const Values results = emit_results(c, forward);
  const std::size_t count = results.size();
  std::vector<Tracked> inputs;
  for (const Value& primal : c.primals()) inputs.push_back({primal, primal.type()});
  RuleEvaluation evaluation(c.emitter(), custom_vjp_call.name);
  const std::vector<Tracked> outputs =
      evaluation.run(forward, inputs, results_known(forward, {results.data(), count}));
  std::vector<Value> residuals;
  for (std::size_t r = count; r < outputs.size(); ++r) residuals.push_back(*outputs[r].value);

  const std::optional<LinearRule> rule = VjpRuleBuilder(c, graphs, std::move(residuals)).make();
  Derivatives result = Derivatives::absent(count);
  if (!rule) return result;
  const Values tangents = tangents_by(c, *rule);
  for (std::size_t j = 0; j < rule->outputs.size(); ++j) result.set(rule->outputs[j], tangents[j]);
  return result;
}

// Each example has its own results and cotangents; residuals have the batch axis only if they depend on
// batched inputs. `batched`: by input of graph. Returns forward and backward.
std::pair<Graph, Graph> batched_rules(const VjpGraphs& of, const std::vector<bool>& batched,
                                      std::int64_t size, RuleServices& host) {
  const std::size_t count = of.graph.outputs().size();
  const InnerBatching forward = host.batch_reached(of.forward, batched, size);
  const auto builder = GraphBuilder::extending(forward.graph);
  std::vector<Value> outputs;
  for (std::size_t k = 0; k < forward.batched_outputs.size(); ++k) {
    const Value value = builder->value(forward.graph.outputs()[k]);
    const bool alike = k < count && !forward.batched_outputs[k];
    outputs.push_back(alike ? broadcast_to_batch(value, size) : value);
  }
  std::vector<bool> inputs(of.backward.inputs().size(), true), summed;
  for (std::size_t r = 0; r + count < forward.batched_outputs.size(); ++r)
    inputs[r] = forward.batched_outputs[count + r];
  for (const std::size_t i : inexact_positions(of.graph, of.graph.inputs())) summed.push_back(!batched[i]);
  return {builder->build(outputs), batched_and_summed(host, of.backward, inputs, summed, size)};
}

Values batch_custom_vjp(BatchContext& c) {
  const std::vector<bool> batched = batched_operands(c);
  const Graph mapped = c.host().batch(c.op().graph("graph"), batched, c.size());
  Attributes attributes{{"graph", mapped}};
  if (!is_deferred(c.op(), "forward") && !is_deferred(c.op(), "backward")) {
    const auto [forward, backward] = batched_rules(VjpGraphs(c.op()), batched, c.size(), c.host());
    attributes.insert(attributes.end(), {{"forward", forward}, {"backward", backward}});
  } else {
    Key128 key = detail::mix(c.op().record()->key, static_cast<std::uint64_t>(c.size()));
    for (const bool each : batched) key = detail::mix(key, static_cast<std::uint64_t>(each));
    const auto rules = [op = c.op(), batched, size = c.size(), host = c.host().later()] {
      return batched_rules(VjpGraphs(op), batched, size, *host);
    };
    const std::string name = c.op().graph("graph").name();
    attributes.emplace_back(
        "forward", std::make_shared<const DeferredGraph>(name + ".forward", detail::mix(key, "forward"),
                                                         [rules] { return rules().first; }));
    attributes.emplace_back(
        "backward", std::make_shared<const DeferredGraph>(name + ".backward", detail::mix(key, "backward"),
                                                          [rules] { return rules().second; }));
  }
  return c.emitter().emit(Op::make(custom_vjp_call, std::move(attributes)), operands_of(c));
}

Derivatives transpose_by_graph(TransposeContext& c) {
  return transpose_inner_graph(c, [&c](const Graph& inner, std::span<const Value> operands) {
    return ops::call(c.emitter(), inner, operands);
  });
}

// For a call that is linear by its rule: the residuals that the cotangents of its linear operands read. The
// others, which depend on these operands, are zeros.
std::vector<Value> residuals_without(TransposeContext& c, const Graph& forward,
                                     const std::vector<bool>& linear) {
  const std::vector<bool> depends = depending_on(forward, linear);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(c.operand(i));
  std::vector<ValueId> wanted;
  const std::span<const ValueId> all = forward.outputs().subspan(c.num_results());
  std::copy_if(all.begin(), all.end(), std::back_inserter(wanted), [&](ValueId id) { return !depends[id]; });
  const std::vector<Value> made = outputs_given(c.emitter(), forward, operands, wanted);
  std::vector<Value> residuals;
  std::size_t next = 0;
  for (const ValueId id : all)
    residuals.push_back(depends[id] ? zeros(c.emitter(), forward.type(id)) : made[next++]);
  return residuals;
}

// The call on those operands that are not linear, which come first, and on the linear ones: its results that
// are floating or complex.
Graph call_as_graph(const Op& op, const Graph& graph, const std::vector<bool>& linear,
                    const LinearRule& rule) {
  GraphBuilder builder(graph.name() + ".linear", graph.primitives());
  for (std::size_t r = 0; r < rule.residuals.size(); ++r)
    builder.input(detail::str("residual.", r), rule.residuals[r].type());
  std::vector<Value> operands(linear.size());
  for (const bool last : {false, true}) {
    for (std::size_t i = 0; i < linear.size(); ++i) {
      if (linear[i] == last) operands[i] = builder.input(detail::str("x.", i), graph.type(graph.inputs()[i]));
    }
  }
  const Values results = builder.emit(op, operands);
  std::vector<Value> outputs;
  for (const std::size_t k : rule.outputs) outputs.push_back(results[k]);
  return builder.build(outputs);
}

// By the rule, where that says that the call is linear in these operands: backward as it is, whose transpose
// is the call.
Derivatives transpose_custom_vjp(TransposeContext& c) {
  std::vector<bool> linear;
  for (std::size_t i = 0; i < c.num_operands(); ++i) linear.push_back(c.linear(i));
  if (!linear_by_rule(c.op(), linear)) return transpose_by_graph(c);
  const VjpGraphs graphs(c.op());
  LinearRule rule;
  rule.outputs = inexact_positions(graphs.graph, graphs.graph.outputs());
  std::vector<std::size_t> kept;
  const std::vector<std::size_t> inexact = inexact_positions(graphs.graph, graphs.graph.inputs());
  for (std::size_t k = 0; k < inexact.size(); ++k) {
    if (!linear[inexact[k]]) continue;
    kept.push_back(k);
    rule.inputs.push_back(inexact[k]);
  }
  rule.residuals = residuals_without(c, graphs.forward, linear);
  rule.linear = call_as_graph(c.op(), graphs.graph, linear, rule);
  for (std::size_t i = 0; i < linear.size(); ++i) {
    if (!linear[i]) rule.residuals.push_back(c.operand(i));
  }
  rule.backward = backward_with_residuals(graphs, rule.residuals, kept);
  drop_unused_residuals(rule);
  std::vector<Value> operands = rule.residuals;
  bool any = false;
  for (const std::size_t k : rule.outputs) {
    const std::optional<Value> ct = c.cotangent(k);
    any = any || ct;
    operands.push_back(ct ? *ct : zeros(c.emitter(), graphs.graph.type(graphs.graph.outputs()[k])));
  }
  Derivatives result = Derivatives::absent(c.num_operands());
  if (!any) return result;
  const Values cotangents =
      ops::linear_call(c.emitter(), rule.backward, rule.linear, rule.residuals.size(), operands);
  for (std::size_t j = 0; j < rule.inputs.size(); ++j) result.set(rule.inputs[j], cotangents[j]);
  return result;
}

}  // namespace

// y = graph(x)          (y, r) = forward(x), ct_x = backward(r, ct)
constinit const Primitive custom_vjp_call{.name = "custom_vjp_call",
                                          .arity = variadic,
                                          .num_outputs = variadic,
                                          .attributes = graph_forward_backward,
                                          .traits = Trait::holds_graph,
                                          .linearity = linearity::linear,
                                          .infer = infer_custom_vjp,
                                          .jvp = jvp_custom_vjp,
                                          .transpose = transpose_custom_vjp,
                                          .batch = batch_custom_vjp};

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Op vjp_op(const Graph& graph, const Graph& forward, const Graph& backward) {
  return Op::make(prim::custom_vjp_call, {{"graph", graph}, {"forward", forward}, {"backward", backward}});
}

}  // namespace

Values custom_vjp_call(Emitter& emitter, const Graph& graph, const Graph& forward, const Graph& backward,
                       std::span<const Value> operands, Where where) {
  return emitter.emit(vjp_op(graph, forward, backward), operands, where);
}
Values custom_vjp_call(const Graph& graph, const Graph& forward, const Graph& backward,
                       std::span<const Value> operands, Where where) {
  return emit(vjp_op(graph, forward, backward), operands, where);
}

}  // namespace tidu::ops
