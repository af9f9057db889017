// custom_root.cpp - custom_root: a root that a graph of the user finds, as jax.lax.custom_root.
//
// Note [Derivatives of a root]: from r(a, x) = 0 follows (dr/dx) dx = -(dr/da) da, which is a
// custom_linear_solve whose `matvec` is the linearized residual and whose consts are a and x. x is the
// operation's own result, so that its rule applies again at every further order. The guess and the steps of
// `solve` have no derivative.
#include <algorithm>

#include "primitives/implicit.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec root_attributes[] = {
    {.name = "residual", .kind = AttributeKind::graph},
    {.name = "solve", .kind = AttributeKind::graph},
    {.name = "tangent_solve", .kind = AttributeKind::graphs, .has_default = true},
    {.name = "transpose_tangent_solve", .kind = AttributeKind::graphs, .has_default = true},
    {.name = "num_consts", .kind = AttributeKind::integer}};

constexpr std::string_view optional_graphs[] = {"tangent_solve", "transpose_tangent_solve"};

void require_tangent_solve(const InferContext& c, std::string_view attribute, std::size_t consts,
                           const std::vector<Slot>& unknowns) {
  require_optional(c, attribute);
  const std::optional<Graph> graph = optional_graph(c.op(), attribute);
  if (!graph) return;
  std::vector<Slot> slots = operand_slots(c, consts, "which is unknown");
  for (const Slot& unknown : unknowns)
    slots.push_back({unknown.type, "the right-hand side of unknown", unknown.index});
  require_slots(c, *graph, attribute, "input", graph->inputs(), slots);
  slots = unknowns;
  for (Slot& slot : slots) slot.what = "the tangent of unknown";
  require_slots(c, *graph, attribute, "output", graph->outputs(), slots);
}

std::string listed(const std::vector<Type>& types) {
  std::string text;
  for (const Type type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

void infer_root(InferContext& c) {
  const std::size_t consts = require_num_consts(c);
  const Graph residual = c.op().graph("residual"), solve = c.op().graph("solve");
  const std::vector<Slot> operands = operand_slots(c, consts, "which is unknown");
  std::vector<Slot> unknowns(operands.begin() + static_cast<std::ptrdiff_t>(consts), operands.end());
  require_slots(c, residual, "residual", "input", residual.inputs(), operands);
  require_slots(c, residual, "residual", "output", residual.outputs(), unknowns);
  refuse_effects(c, residual, "graph residual");
  require_slots(c, solve, "solve", "input", solve.inputs(), operand_slots(c, consts, "the guess of unknown"));
  require_slots(c, solve, "solve", "output", solve.outputs(), unknowns);
  for (const std::string_view attribute : optional_graphs)
    require_tangent_solve(c, attribute, consts, unknowns);
  const std::vector<Type> types(c.operands().begin() + static_cast<std::ptrdiff_t>(consts),
                                c.operands().end());
  if (!optional_graph(c.op(), "tangent_solve")) {
    c.require(!optional_graph(c.op(), "transpose_tangent_solve"),
              "expected a graph tangent_solve beside transpose_tangent_solve, got none");
    c.require(has_dense_solution(types),
              "expected a graph tangent_solve, without which unknowns are f32 and c64 alone or f64 and c128 "
              "alone, got none and unknowns of type ",
              listed(types));
  }
  for (const Type type : types) c.result(type);
}

// v -> (dr/dx) v, of consts, x and v.
Graph tangent_map(RuleServices& host, const Graph& residual, std::size_t consts) {
  std::vector<bool> active(residual.inputs().size(), true);
  std::fill_n(active.begin(), consts, false);
  const InnerLinearization inner = host.linearize(residual, active);
  GraphBuilder builder(residual.name() + ".linear", residual.primitives());
  std::vector<Value> at, arguments, results;
  for (std::size_t i = 0; i < active.size(); ++i)
    at.push_back(builder.input(active[i] ? detail::str("x.", i - consts) : detail::str("const.", i),
                               residual.type(residual.inputs()[i])));
  const std::vector<Value> primal = inline_graph(builder, inner.primal, at);
  for (const ValueId id : inner.primal.outputs().subspan(residual.outputs().size()))
    arguments.push_back(primal[id]);
  for (std::size_t i = consts; i < active.size(); ++i)
    arguments.push_back(builder.input(detail::str("tangent.", i - consts), at[i].type()));
  std::vector<Value> tangents;
  if (!inner.linear.outputs().empty()) tangents = inline_graph(builder, inner.linear, arguments);
  for (std::size_t k = 0; k < residual.outputs().size(); ++k) {
    const auto& of = inner.tangent_of_output[k];
    results.push_back(of ? tangents[inner.linear.outputs()[*of]] : zeros(builder, at[consts + k].type()));
  }
  return prune(builder.build(results));
}

Derivatives jvp_root(JvpContext& c) {
  const auto consts = static_cast<std::size_t>(c.op().integer("num_consts"));
  const std::size_t count = c.num_operands() - consts;
  const Graph residual = c.op().graph("residual");
  const Values x = c.emitter().emit(c.op(), c.primals());
  const std::span<const Value> root(x.begin(), x.end());
  c.host().replace_results(root);
  const std::vector<std::optional<Value>> changes = tangents_by_consts(c, residual, consts, root);
  if (std::none_of(changes.begin(), changes.end(), [](const auto& each) { return each.has_value(); }))
    return Derivatives::absent(count);
  std::vector<Value> operands(c.primals().begin(), c.primals().begin() + static_cast<std::ptrdiff_t>(consts));
  operands.insert(operands.end(), x.begin(), x.end());
  for (std::size_t k = 0; k < count; ++k)
    operands.push_back(changes[k] ? ops::neg(*changes[k]) : zeros(c.emitter(), x[k].type()));

  const Graph map = tangent_map(c.host(), residual, consts);
  std::optional<Graph> solve = optional_graph(c.op(), "tangent_solve");
  LinearSolve how{c.num_operands(), optional_graph(c.op(), "transpose_tangent_solve"), false};
  if (!solve) {
    solve = dense_solution(c.host(), map, c.num_operands(), false);
    how.transpose_solve = dense_solution(c.host(), map, c.num_operands(), true);
  }
  Derivatives tangents;
  for (const Value& tangent : ops::custom_linear_solve(map, *solve, operands, how))
    tangents.push_back(tangent);
  return tangents;
}

// Every example has unknowns of its own.
Values batch_root(BatchContext& c) {
  const Op& op = c.op();
  const auto consts = static_cast<std::size_t>(op.integer("num_consts"));
  std::vector<bool> batched = batched_operands(c);
  std::vector<Value> operands = operands_of(c);
  for (std::size_t i = consts; i < operands.size(); ++i) {
    batched[i] = true;
    operands[i] = with_batch_axis(c, i);
  }
  const auto mapped = [&](const Graph& graph) {
    std::vector<bool> inputs = batched;
    inputs.resize(graph.inputs().size(), true);  // right-hand sides
    return c.host().batch(graph, inputs, c.size());
  };
  Attributes attributes{{"residual", mapped(op.graph("residual"))},
                        {"solve", mapped(op.graph("solve"))},
                        {"num_consts", op.integer("num_consts")}};
  for (const std::string_view attribute : optional_graphs) {
    GraphList graphs;
    for (const Graph& graph : op.graphs(attribute)) graphs.push_back(mapped(graph).share());
    attributes.emplace_back(std::string(attribute), std::move(graphs));
  }
  return c.emitter().emit(Op::make(op.primitive(), std::move(attributes)), operands);
}

}  // namespace

// r(a, x) = 0          (dr/dx) dx = -(dr/da) da
constinit const Primitive custom_root{.name = "custom_root",
                                      .arity = variadic,
                                      .num_outputs = variadic,
                                      .attributes = root_attributes,
                                      .traits = Trait::holds_graph,
                                      .infer = infer_root,
                                      .jvp = jvp_root,
                                      .batch = batch_root,
                                      .called = "solve"};

}  // namespace tidu::prim

namespace tidu::ops {

Values custom_root(const Graph& residual, const Graph& solve, std::span<const Value> operands,
                   const RootSolve& how, Where where) {
  const auto list = [](const std::optional<Graph>& graph) {
    return graph ? GraphList{graph->share()} : GraphList{};
  };
  return emit(Op::make(prim::custom_root, {{"residual", residual},
                                           {"solve", solve},
                                           {"tangent_solve", list(how.tangent_solve)},
                                           {"transpose_tangent_solve", list(how.transpose_tangent_solve)},
                                           {"num_consts", static_cast<std::int64_t>(how.num_consts)}}),
              operands, where);
}

}  // namespace tidu::ops
