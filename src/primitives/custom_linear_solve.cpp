// custom_linear_solve.cpp - custom_linear_solve: a linear system that a graph of the user solves, as
// jax.lax.custom_linear_solve.
//
// Note [Derivatives of a linear solve]: from A x = b follows A dx = db - dA x, so the tangent is another
// solve of the same system with the same graphs. Its x is the operation's own result, so that its rule
// applies again at every further order. dA x is the tangent of `matvec` by its consts at x. The solve is
// linear in b, and its transpose solves the transposed system: `matvec` is transposed, `solve` and
// `transpose_solve` are exchanged. `solve` itself, a loop without a bound, say, is never differentiated.
#include <algorithm>
#include <numeric>

#include "primitives/affine.hpp"
#include "primitives/implicit.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec linear_solve_attributes[] = {
    {.name = "matvec", .kind = AttributeKind::graph},
    {.name = "solve", .kind = AttributeKind::graph},
    {.name = "transpose_solve", .kind = AttributeKind::graphs, .has_default = true},
    {.name = "num_consts", .kind = AttributeKind::integer},
    {.name = "symmetric", .kind = AttributeKind::boolean, .has_default = true}};

std::size_t num_consts(const Op& op) { return static_cast<std::size_t>(op.integer("num_consts")); }

void require_solution(const InferContext& c, const Graph& solve, std::string_view attribute,
                      std::size_t consts) {
  require_slots(c, solve, attribute, "input", solve.inputs(),
                operand_slots(c, consts, "which is right-hand side"));
  std::vector<Slot> unknowns = operand_slots(c, consts, "the unknown of right-hand side");
  unknowns.erase(unknowns.begin(), unknowns.begin() + static_cast<std::ptrdiff_t>(consts));
  require_slots(c, solve, attribute, "output", solve.outputs(), unknowns);
}

void infer_linear_solve(InferContext& c) {
  const std::size_t consts = require_num_consts(c);
  const Graph matvec = c.op().graph("matvec");
  require_slots(c, matvec, "matvec", "input", matvec.inputs(),
                operand_slots(c, consts, "the unknown of right-hand side"));
  std::vector<Slot> sides = operand_slots(c, consts, "which is right-hand side");
  sides.erase(sides.begin(), sides.begin() + static_cast<std::ptrdiff_t>(consts));
  require_slots(c, matvec, "matvec", "output", matvec.outputs(), sides);
  refuse_effects(c, matvec, "graph matvec");
  require_solution(c, c.op().graph("solve"), "solve", consts);
  require_optional(c, "transpose_solve");
  if (const auto transpose = optional_graph(c.op(), "transpose_solve"))
    require_solution(c, *transpose, "transpose_solve", consts);
  for (std::size_t i = consts; i < c.num_operands(); ++i) c.result(c.operand(i));
}

// Checks sums at least: other operations that are not linear have no transpose.
void require_linear(const Op& op, ADRuleError::Rule rule) {
  const Graph matvec = op.graph("matvec");
  std::vector<Standing> inputs(matvec.inputs().size(), Standing{true, false});
  std::fill_n(inputs.begin(), num_consts(op), Standing{});
  std::vector<std::size_t> outputs(matvec.outputs().size());
  std::iota(outputs.begin(), outputs.end(), std::size_t{0});
  const std::optional<std::string> sum = affine_sum(matvec, inputs, outputs);
  if (!sum) return;
  throw ADRuleError(rule, "custom_linear_solve", std::nullopt,
                    detail::str("expected graph matvec (", detail::in_quotes(matvec.name()),
                                ") to be linear in its inputs after the consts, got a sum of what depends on "
                                "them and of what neither does nor is zero by its making: ",
                                *sum));
}

// Replaces the operation by its solution. See Note [Derivatives of a linear solve].
Derivatives jvp_linear_solve(JvpContext& c) {
  const std::size_t consts = num_consts(c.op()), count = c.num_operands() - consts;
  const Values x = c.emitter().emit(c.op(), c.primals());
  const std::span<const Value> solution(x.begin(), x.end());
  c.host().replace_results(solution);
  const std::vector<std::optional<Value>> changes =
      tangents_by_consts(c, c.op().graph("matvec"), consts, solution);
  std::vector<Value> operands(c.primals().begin(), c.primals().begin() + static_cast<std::ptrdiff_t>(consts));
  bool any = false;
  for (std::size_t k = 0; k < count; ++k) {
    const std::optional<Value> db = c.tangent(consts + k);
    any = any || db || changes[k];
    if (changes[k]) {
      operands.push_back(db ? ops::sub(*db, *changes[k]) : ops::neg(*changes[k]));
    } else {
      operands.push_back(db ? *db : zeros(c.emitter(), x[k].type()));
    }
  }
  if (!any) return Derivatives::absent(count);
  require_linear(c.op(), ADRuleError::Rule::jvp);
  Derivatives tangents;
  for (const Value& tangent : c.emitter().emit(c.op(), operands)) tangents.push_back(tangent);
  return tangents;
}

Op transposed_solve(RuleServices& host, const Op& op) {
  const Graph solve = op.graph("solve");
  const bool symmetric = op.boolean("symmetric");
  const std::optional<Graph> transpose = optional_graph(op, "transpose_solve");
  if (!transpose && symmetric) return op;
  if (!transpose) {
    throw ADRuleError(ADRuleError::Rule::transpose, "custom_linear_solve", std::nullopt,
                      "expected a graph transpose_solve for reverse mode, or symmetric = true, got neither");
  }
  require_linear(op, ADRuleError::Rule::transpose);
  const Graph matvec = op.graph("matvec");
  std::vector<bool> linear(matvec.inputs().size(), true);
  std::fill_n(linear.begin(), num_consts(op), false);
  return Op::make(op.primitive(), {{"matvec", symmetric ? matvec : transposed_graph(host, matvec, linear)},
                                   {"solve", *transpose},
                                   {"transpose_solve", GraphList{solve.share()}},
                                   {"num_consts", op.integer("num_consts")},
                                   {"symmetric", symmetric}});
}

Derivatives transpose_linear_solve(TransposeContext& c) {
  const std::size_t consts = num_consts(c.op());
  std::vector<Value> operands;
  for (std::size_t i = 0; i < consts; ++i) {
    if (c.linear(i)) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("expected an operation that is linear in operands from ", consts,
                              " on, got operand ", i, " depending on the linear inputs"));
    }
    operands.push_back(c.operand(i));
  }
  for (std::size_t k = 0; k < c.num_results(); ++k) {
    const std::optional<Value> ct = c.cotangent(k);
    operands.push_back(ct ? *ct : zeros(c.emitter(), c.operand_type(consts + k)));
  }
  const Values cotangents = c.emitter().emit(transposed_solve(c.host(), c.op()), operands);
  Derivatives result = Derivatives::absent(c.num_operands());
  for (std::size_t i = consts; i < c.num_operands(); ++i) {
    if (c.linear(i)) result.set(i, cotangents[i - consts]);
  }
  return result;
}

// Every example has unknowns, and so right-hand sides, of its own.
Values batch_linear_solve(BatchContext& c) {
  const Op& op = c.op();
  std::vector<bool> batched = batched_operands(c);
  std::vector<Value> operands = operands_of(c);
  for (std::size_t i = num_consts(op); i < operands.size(); ++i) {
    batched[i] = true;
    operands[i] = with_batch_axis(c, i);
  }
  const auto mapped = [&](const Graph& graph) { return c.host().batch(graph, batched, c.size()); };
  GraphList transpose;
  for (const Graph& graph : op.graphs("transpose_solve")) transpose.push_back(mapped(graph).share());
  return c.emitter().emit(Op::make(op.primitive(), {{"matvec", mapped(op.graph("matvec"))},
                                                    {"solve", mapped(op.graph("solve"))},
                                                    {"transpose_solve", transpose},
                                                    {"num_consts", op.integer("num_consts")},
                                                    {"symmetric", op.boolean("symmetric")}}),
                          operands);
}

}  // namespace

// A x = b          A dx = db - dA x, Aᴴ ct_b = ct_x
constinit const Primitive custom_linear_solve{.name = "custom_linear_solve",
                                              .arity = variadic,
                                              .num_outputs = variadic,
                                              .attributes = linear_solve_attributes,
                                              .traits = Trait::holds_graph,
                                              .linearity = linearity::linear,
                                              .infer = infer_linear_solve,
                                              .jvp = jvp_linear_solve,
                                              .transpose = transpose_linear_solve,
                                              .batch = batch_linear_solve,
                                              .called = "solve"};

}  // namespace tidu::prim

namespace tidu::ops {

Values custom_linear_solve(const Graph& matvec, const Graph& solve, std::span<const Value> operands,
                           const LinearSolve& how, Where where) {
  GraphList transpose;
  if (how.transpose_solve) transpose.push_back(how.transpose_solve->share());
  return emit(Op::make(prim::custom_linear_solve, {{"matvec", matvec},
                                                   {"solve", solve},
                                                   {"transpose_solve", transpose},
                                                   {"num_consts", static_cast<std::int64_t>(how.num_consts)},
                                                   {"symmetric", how.symmetric}}),
              operands, where);
}

}  // namespace tidu::ops
