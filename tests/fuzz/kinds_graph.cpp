// kinds_graph.cpp - operations of random graphs that hold graphs: calls, checkpoints, loops, choices, and
// calls with rules of their own, which are those that tidu derives from the same graph.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "fuzz/generator.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

using G = Generator;

// The derivatives alone, of a result of jvp or vjp.
Graph alone(const Derivative& derivative) {
  std::vector<std::size_t> positions;
  for (std::size_t k = derivative.first; k < derivative.graph.outputs().size(); ++k) positions.push_back(k);
  return with_outputs(derivative.graph, positions);
}

struct Held {
  std::vector<Value> operands;
  Graph graph;
};
Held held(G& g) {
  std::vector<Value> operands{g.any_value()};
  if (g.choices().below(3) != 0) operands.push_back(g.any_value());
  Graph graph = g.inner(operands);
  return {std::move(operands), std::move(graph)};
}

Values called(G& g) {
  const Held h = held(g);
  return ops::call(h.graph, h.operands);
}

Values checkpointed(G& g) {
  const Held h = held(g);
  switch (g.choices().below(3)) {
    case 0: return ops::checkpoint(h.graph, h.operands);
    case 1: return ops::checkpoint(h.graph, h.operands, CheckpointPolicy::everything());
    default: break;
  }
  std::vector<ValueId> saved;
  for (ValueId id = 0; id < h.graph.num_values(); ++id) {
    if (h.graph.producer(id) && g.choices().below(2) == 0) saved.push_back(id);
  }
  return ops::checkpoint(h.graph, h.operands, CheckpointPolicy::save(saved));
}

Values with_jvp(G& g) {
  const Held h = held(g);
  return ops::custom_jvp_call(h.graph, jvp(h.graph), h.operands);
}

Values with_vjp(G& g) {
  const Held h = held(g);
  const auto builder = GraphBuilder::extending(h.graph);
  std::vector<ValueId> kept(h.graph.outputs().begin(), h.graph.outputs().end());
  kept.insert(kept.end(), h.graph.inputs().begin(), h.graph.inputs().end());
  return ops::custom_vjp_call(h.graph, builder->build_ids(kept), alone(vjp_parts(h.graph)), h.operands);
}

// The tangents of the graph, linear in as many operands as it has inputs.
Values linear(G& g) {
  Held h = held(g);
  const std::size_t residuals = h.operands.size();
  for (std::size_t i = 0; i < residuals; ++i) h.operands.push_back(g.like(h.operands[i]));
  return ops::linear_call(alone(jvp_parts(h.graph)), alone(vjp_parts(h.graph)), residuals, h.operands);
}

// Cotangents of the linear operands, from its results.
Values transposed(G& g) {
  const Held h = held(g);
  const Graph of = alone(jvp_parts(h.graph)), transpose = alone(vjp_parts(h.graph));
  std::vector<Value> operands = h.operands, all = h.operands;
  Ints linear, outputs;
  for (const Value& operand : h.operands) {
    linear.push_back(static_cast<std::int64_t>(all.size()));
    all.push_back(g.like(operand));
  }
  for (const Value result : ops::call(of, all)) {
    outputs.push_back(static_cast<std::int64_t>(outputs.size()));
    operands.push_back(result);
  }
  const Op op = Op::make(
      prim::custom_jvp_transpose,
      {{"graph", transpose}, {"of", of}, {"jvp", jvp(of)}, {"linear", linear}, {"outputs", outputs}});
  return operands[0].emitter()->emit(op, operands);
}

Value conjugate_of(Value x) { return is_complex(x.dtype()) ? ops::conj(x) : x; }
Graph of_inputs(const char* name, std::size_t count, Type type,
                const std::function<Value(const std::vector<Value>&)>& f) {
  GraphBuilder builder(name, standard_primitives());
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < count; ++i) inputs.push_back(builder.input(detail::str('x', i), type));
  return builder.build({f(inputs)});
}
using Inputs = const std::vector<Value>&;

// d x = b for a d that is far from zero.
Values solved_linearly(G& g) {
  const Value c = g.any_value(), b = g.like(c), d = g.around(3.0, 1.0, c);
  const Graph matvec = of_inputs("matvec", 2, b.type(), [](Inputs v) { return v[0] * v[1]; }),
              solve = of_inputs("solve", 2, b.type(), [](Inputs v) { return v[1] / v[0]; }),
              back = of_inputs("back", 2, b.type(), [](Inputs v) { return v[1] / conjugate_of(v[0]); });
  return ops::custom_linear_solve(matvec, solve, std::vector{d, b}, {1, back, false});
}

// (d x)² = e² for d and e that are far from zero, whatever the guess.
Values root_found(G& g) {
  const Value c = g.any_value(), d = g.around(3.0, 1.0, c), e = g.around(3.0, 1.0, g.like(c));
  const Type type = d.type();
  const Graph residual = of_inputs("residual", 3, type,
                                   [](Inputs v) {
                                     const Value y = v[0] * v[2], square = y * y;
                                     return square - v[1] * v[1];
                                   }),
              solve = of_inputs("solve", 3, type, [](Inputs v) { return v[1] / v[0]; });
  const auto slope = [](Inputs v) {
    const Value y = v[0] * v[0] * v[2];
    return y + y;
  };
  RootSolve how{2, {}, {}};
  if (g.choices().below(2) == 0) {
    how.tangent_solve = of_inputs("tangent", 4, type, [&](Inputs v) { return v[3] / slope(v); });
    how.transpose_tangent_solve =
        of_inputs("cotangent", 4, type, [&](Inputs v) { return v[3] / conjugate_of(slope(v)); });
  }
  return ops::custom_root(residual, solve, std::vector{d, e, g.like(c)}, how);
}

// A step calls a random graph of a const, the carry and a slice; the carry stays small.
Values scanned(G& g) {
  const Value a = g.any_value(), c = g.any_value(), x = g.array();
  GraphBuilder builder("step", standard_primitives());
  const Shape slice(x.shape().begin() + 1, x.shape().end());
  const std::vector<Value> inputs{builder.input("a", a.type()), builder.input("c", c.type()),
                                  builder.input("x", x.type().with_shape(slice))};
  const Graph inner = g.inner(inputs);
  const Values results = ops::call(inner, inputs);
  const Value first = results[0];
  Ints axes(first.rank());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  const Value sum = axes.empty() ? first : ops::reduce_sum(first, axes);
  const Value more = ops::broadcast_scalar(sum, c.shape());
  std::vector<Value> outputs{ops::mul(ops::add(inputs[1], more), ops::full_like(more, 0.25))};
  outputs.insert(outputs.end(), results.begin(), results.end());
  const ScanShape shape{x.shape()[0], g.choices().below(2) == 0, 1, 1};
  return ops::scan(builder.build(outputs), std::vector{a, c, x}, shape);
}

// One of two or three random graphs, of which the first two results of each are brought to types of the
// operands.
Values conditional(G& g) {
  std::vector<Value> operands{g.any_value(), g.any_value()};
  const bool flag = g.choices().below(2) == 0;
  std::vector<Graph> branches;
  for (std::size_t b = flag ? 2 : 3; b > 0; --b) {
    GraphBuilder builder(detail::str("branch", b), standard_primitives());
    std::vector<Value> inputs;
    for (const Value& operand : operands)
      inputs.push_back(builder.input(detail::str('x', inputs.size()), operand.type()));
    const Values results = ops::call(g.inner(inputs), inputs);
    std::vector<Value> outputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const Value result = results[std::min(k, results.size() - 1)];
      Ints axes(result.rank());
      std::iota(axes.begin(), axes.end(), 0);
      const Value sum = axes.empty() ? result : ops::reduce_sum(result, axes);
      outputs.push_back(g.choices().below(4) == 0 ? inputs[k]
                                                  : ops::broadcast_scalar(sum, inputs[k].shape()));
    }
    branches.push_back(builder.build(outputs));
  }
  const Value index =
      flag ? g.which() : ops::add(ops::convert_element_type(g.which(), i32), g.whole(i32, {}, -2, 2));
  return ops::cond(index, branches, operands);
}

// A step calls a random graph of a const and a carry, which stays small; a counter ends the loop, or the
// bound.
Values looped(G& g) {
  const Value a = g.any_value(), c = g.any_value();
  GraphBuilder body("step", standard_primitives()), until("until", standard_primitives());
  const std::vector<Value> inputs{body.input("a", a.type()), body.input("c", c.type())};
  const Value n = body.input("n", i32);
  const Graph inner = g.inner(inputs);
  const Value first = ops::call(inner, inputs)[0];
  Ints axes(first.rank());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  const Value sum = axes.empty() ? first : ops::reduce_sum(first, axes);
  const Value more = ops::broadcast_scalar(sum, c.shape());
  const Value next = ops::add(inputs[1], more);
  const std::vector<Value> outputs{ops::mul(next, ops::full_like(more, 0.25)),
                                   ops::add(n, ops::full_like(n, 1))};
  (void)until.input("a", a.type());
  (void)until.input("c", c.type());
  const Value at = until.input("n", i32);
  const auto steps = static_cast<double>(g.choices().below(4));
  const auto bound = static_cast<std::int64_t>(g.choices().below(4));
  const Graph cond = until.build({ops::lt(at, ops::full_like(at, steps))});
  Emitter& emitter = *a.emitter();
  const Values results =
      ops::while_loop(cond, body.build(outputs), std::vector{a, c, ops::full(emitter, i32, 0.0)}, {1, bound});
  return {results[0]};
}

constexpr unsigned outermost = G::any | G::outermost;
constexpr G::Kind graph_table[] = {{"call", G::any, called},
                                   {"checkpoint", outermost, checkpointed},
                                   {"custom_jvp_call", outermost, with_jvp},
                                   {"custom_vjp_call", outermost, with_vjp},
                                   {"linear_call", outermost, linear},
                                   {"custom_jvp_transpose", outermost, transposed},
                                   {"custom_linear_solve", outermost & ~unsigned{G::exact}, solved_linearly},
                                   {"custom_root", outermost & ~unsigned{G::exact}, root_found},
                                   {"scan", outermost & ~unsigned{G::exact}, scanned},
                                   {"cond", G::any, conditional},
                                   {"while", outermost & ~unsigned{G::exact}, looped}};

}  // namespace

std::span<const Generator::Kind> graph_kinds() { return graph_table; }

}  // namespace tidu::test
