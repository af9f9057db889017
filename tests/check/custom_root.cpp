// custom_root.cpp - custom_root beyond the table of primitives: a square root by bisection against its closed
// form to third order; fixed points, found by a `while`, against sixty steps that are differentiated as they
// are, with unknowns of several types, complex, mapped, in loops and branches; dumps, refusals.
#include <cmath>

#include "check/custom_support.hpp"
#include "check/implicit_support.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;
using namespace tidu::test::implicit_cases;

namespace root_cases {

using custom_calls::mentions;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A graph with inputs of these types.
Graph graph_of(const char* name, const std::vector<Type>& types,
               const std::function<Values(const Values&)>& f) {
  GraphBuilder g(name);
  Values inputs;
  for (const Type type : types) inputs.push_back(g.input(detail::str('x', inputs.size()), type));
  return g.build(f(inputs));
}

// The y in [0, 4] with y y = a, halved 60 times.
Graph bisection(DType dtype) {
  const Type s(dtype);
  const Graph until = graph_of("until", {s, s, s, i32}, [](const Values& v) {
    return Values{ops::lt(v[3], ops::full_like(v[3], 60))};
  });
  const Graph step = graph_of("step", {s, s, s, i32}, [](const Values& v) {
    const Value middle = scaled(v[1] + v[2], 0.5), below = ops::lt(middle * middle, v[0]);
    const Value low = ops::select_n(below, v[1], middle), high = ops::select_n(below, middle, v[2]);
    return Values{low, high, v[3] + ops::full_like(v[3], 1)};
  });
  return graph_of("bisection", {s, s}, [&](const Values& v) {
    const Value operands[] = {v[0], scaled(v[1], 0.0), ops::full_like(v[0], 4.0),
                              ops::full(*v[0].emitter(), Type(i32), 0.0)};
    return Values{ops::while_loop(until, step, operands, {1, {}})[0]};
  });
}

enum class Tangents { dense, by_graphs };
Graph square_root(DType dtype, Tangents how) {
  const Type s(dtype);
  const Graph residual =
      graph_of("residual", {s, s}, [](const Values& v) { return Values{v[1] * v[1] - v[0]}; });
  RootSolve solve{1, {}, {}};
  if (how == Tangents::by_graphs) {
    solve.tangent_solve =
        graph_of("tangent", {s, s, s}, [](const Values& v) { return Values{v[2] / (v[1] + v[1])}; });
    solve.transpose_tangent_solve = solve.tangent_solve;
  }
  GraphBuilder g("f");
  const Value a = g.input("a", s), guess = g.input("guess", s);
  return g.build(ops::custom_root(residual, bisection(dtype), std::array{a, guess}, solve));
}

TEST_CASE("custom_root: a square root by bisection has the derivatives of its closed form") {
  for (const Tangents how : {Tangents::dense, Tangents::by_graphs}) {
    CAPTURE((how == Tangents::dense));
    const Graph f = square_root(f64, how);
    const Graph first = grad(f, {"a"}), second = grad(first, {"a"}), third = grad(second, {"a"});
    for (const double a : {0.25, 2.0, 7.0}) {
      CAPTURE(a);
      const Tensors at{scalar(a), scalar(1.0)};
      CHECK(near(real_number(f, at), std::sqrt(a)));
      CHECK(near(real_number(first, at), 0.5 / std::sqrt(a)));
      CHECK(near(real_number(second, at), -0.25 / std::pow(a, 1.5)));
      CHECK(near(real_number(third, at), 0.375 / std::pow(a, 2.5)));
      CHECK(near(cpu().run(third, at)[0].at(0), 0.375 / std::pow(a, 2.5)));
    }
    GraphBuilder g("g");
    const Value a = g.input("a", f64);
    (void)g.input("guess", f64);
    const Graph expected = g.build({ops::sqrt(a)});
    const Tensors tangents{scalar(2.0), scalar(1.0), scalar(0.7), scalar(3.0)};
    same_function(jvp(f), jvp(expected), tangents);
    const Graph pairs[][2] = {{jvp(jvp(f, {"a"}), {"a"}), jvp(jvp(expected, {"a"}), {"a"})},
                              {jvp(vjp(f, {"a"}), {"a"}), jvp(vjp(expected, {"a"}), {"a"})},
                              {vjp(jvp(f, {"a"}), {"a"}), vjp(jvp(expected, {"a"}), {"a"})},
                              {vjp(vjp(f, {"a"}), {"a"}), vjp(vjp(expected, {"a"}), {"a"})}};
    for (const auto& pair : pairs) {
      Tensors inputs = inputs_for(pair[0], 5);
      inputs[0] = scalar(2.5);
      same_function(pair[0], pair[1], inputs);
    }
    // The guess has none.
    CHECK_FALSE(vjp_parts(f, {"guess"}).present[0]);
    CHECK_FALSE(jvp_parts(f, {"guess"}).present[0]);
    const Tensors batch{vector({0.5, 1.0, 9.0}), vector({1.0, 1.0, 1.0})};
    CHECK(near(run(vmap(second, 3), batch)[0], vector({-0.25 / std::pow(0.5, 1.5), -0.25, -0.25 / 27.0})));
  }
  const Tensors single{Tensor::scalar(f32, 4.0), Tensor::scalar(f32, 1.0)};
  CHECK(std::abs(real_number(grad(square_root(f32, Tangents::dense), {"a"}), single) - 0.25) < 1e-5);
}

// x = step(consts..., x...), a contraction.
struct FixedPoint {
  std::vector<Type> consts, unknowns;
  std::function<Values(const Values&)> step;

  std::vector<Type> operands() const {
    std::vector<Type> types = consts;
    types.insert(types.end(), unknowns.begin(), unknowns.end());
    return types;
  }
  Values operands_of(const Values& inputs) const {
    Values all = inputs;
    for (const Type type : unknowns) all.push_back(ops::full(*inputs[0].emitter(), type, 0.0));
    return all;
  }
  // `count` steps, whose derivatives are those of the steps.
  Graph repeated(std::int64_t count) const {
    return graph_of("repeated", operands(), [&](const Values& v) {
      return ops::scan(graph_of("step", operands(), step), std::span<const Value>(v.begin(), v.end()),
                       {count, false, consts.size(), unknowns.size()});
    });
  }
  // Results through sines, so that cotangents have derivatives.
  Graph expected() const {
    return graph_of("f", consts, [&](const Values& v) {
      const Values all = operands_of(v);
      return sines(ops::call(repeated(60), std::span<const Value>(all.begin(), all.end())));
    });
  }
  Graph residual() const {
    return graph_of("residual", operands(), [&](const Values& v) {
      const Values next = step(v);
      Values left;
      for (std::size_t k = 0; k < unknowns.size(); ++k) left.push_back(v[consts.size() + k] - next[k]);
      return left;
    });
  }
  // A loop without a bound, which has no reverse mode of its own.
  Graph solve() const {
    std::vector<Type> types = operands();
    types.push_back(i32);
    const Graph until = graph_of("until", types, [&](const Values& v) {
      const Value n = v[types.size() - 1];
      return Values{ops::lt(n, ops::full_like(n, 60))};
    });
    const Graph body = graph_of("body", types, [&](const Values& v) {
      Values next = step(v);
      const Value n = v[types.size() - 1];
      next.push_back(n + ops::full_like(n, 1));
      return next;
    });
    return graph_of("solve", operands(), [&](const Values& v) {
      Values all = v;
      all.push_back(ops::full(*v[0].emitter(), Type(i32), 0.0));
      Values found =
          ops::while_loop(until, body, std::span<const Value>(all.begin(), all.end()), {consts.size(), {}});
      found.resize(unknowns.size());
      return found;
    });
  }
  Graph root() const {
    return graph_of("f", consts, [&](const Values& v) {
      const Values all = operands_of(v);
      return sines(ops::custom_root(residual(), solve(), std::span<const Value>(all.begin(), all.end()),
                                    {consts.size(), {}, {}}));
    });
  }
  static Values sines(const Values& x) {
    Values results;
    for (const Value& each : x) results.push_back(ops::sin(each));
    return results;
  }
};

// x = tanh(m x / 8 + b) / 4, for complex numbers with sin.
FixedPoint system(DType dtype, std::int64_t n) {
  return {{Type(dtype, {n, n}), Type(dtype, {n})}, {Type(dtype, {n})}, [](const Values& v) {
            const Value inside = scaled(ops::matmul(v[0], v[2]), 0.125) + v[1];
            return Values{scaled(is_complex(inside.dtype()) ? ops::sin(inside) : ops::tanh(inside), 0.25)};
          }};
}

TEST_CASE("custom_root: fixed points have the derivatives of many steps, at every order") {
  for (const DType dtype : {f64, c128}) {
    CAPTURE(dtype);
    same_derivatives(system(dtype, 3).root(), system(dtype, 3).expected());
    same_derivatives(system(dtype, 3).root(), system(dtype, 3).expected(), {"x0"});
  }
  same_derivatives(system(f32, 2).root(), system(f32, 2).expected(), {}, 1e-4);
  same_derivatives(system(c64, 2).root(), system(c64, 2).expected(), {}, 1e-4);
  same_derivatives(system(f64, 0).root(), system(f64, 0).expected());
  same_function(jacfwd(system(f64, 3).root()), jacrev(system(f64, 3).expected()));
  same_function(jacrev(system(f64, 3).root()), jacfwd(system(f64, 3).expected()));
}

TEST_CASE("custom_root: several unknowns, of several types, and conjugates") {
  const FixedPoint mixed{{Type(f64, {3}), Type(c128), Type(f64, {0})},
                         {Type(f64, {3}), Type(c128), Type(f64, {0})},
                         [](const Values& v) {
                           const Value x = v[3], y = v[4];
                           const Value size = ops::real(y * ops::conj(y) * v[1]);
                           const Value first = scaled(ops::sin(x * v[0]) + times(size, v[0]), 0.125);
                           const Value sum = ops::reduce_sum(x * v[0], {0}),
                                       root = ops::complex(sum, sum * sum);
                           const Value second = scaled(ops::conj(y) * v[1] + ops::sin(y) + root, 0.125);
                           return Values{first, second + scaled(v[1], 0.5), scaled(v[2] * v[5], 0.5)};
                         }};
  same_derivatives(mixed.root(), mixed.expected());
  same_derivatives(mixed.root(), mixed.expected(), {"x1"});
  same_derivatives(vmap(mixed.root(), 2, {"x0"}), vmap(mixed.expected(), 2, {"x0"}));
}

TEST_CASE("custom_root: mapped, in loops, in branches") {
  const Graph f = system(f64, 2).root(), expected = system(f64, 2).expected();
  const Type m(f64, {2, 2}), v(f64, {2});
  for (const Names& batched : {Names{}, Names{"x0"}, Names{"x1"}}) {
    same_derivatives(vmap(f, 2, batched), vmap(expected, 2, batched));
    same_function(vmap(vmap(f, 2, batched), 3), vmap(vmap(expected, 2, batched), 3));
  }
  const auto scanned = [&](const Graph& body) {
    GraphBuilder s("step"), g("f");
    const Value a = s.input("a", m), b = s.input("b", v), x = s.input("x", v);
    const Value next = ops::call(body, std::array{a, b + x})[0];
    const Graph step = s.build({next, next * x});
    const Value operands[] = {g.input("a", m), g.input("b", v), g.input("xs", Type(f64, {3, 2}))};
    return g.build(ops::scan(step, operands, {3, false, 1, 1}));
  };
  same_derivatives(scanned(f), scanned(expected));
  const auto chosen = [&](const Graph& body) {
    GraphBuilder other("other"), g("f");
    const Value a = other.input("a", m), b = other.input("b", v);
    const std::array branches{other.build({ops::matmul(a, b)}), body};
    const Value which = g.input("which", DType::boolean), operands[] = {g.input("a", m), g.input("b", v)};
    return g.build(ops::cond(which, branches, operands));
  };
  same_derivatives(chosen(f), chosen(expected));
  same_derivatives(vmap(chosen(f), 2), vmap(chosen(expected), 2));
  const auto kept = [&](const Graph& body) {
    GraphBuilder g("f");
    return g.build(ops::checkpoint(body, std::array{g.input("a", m), g.input("b", v)}));
  };
  same_derivatives(kept(f), kept(expected));
}

TEST_CASE("custom_root: dumps") {
  for (const Tangents how : {Tangents::dense, Tangents::by_graphs}) {
    const Graph f = square_root(f64, how);
    for (const Graph& graph : {f, jvp(f), vjp(f), vmap(f, 2), jvp(vjp(f))}) {
      const Graph loaded = graph_from_json(to_json(graph));
      CHECK(loaded.structural_key() == graph.structural_key());
      CHECK(to_json(loaded) == to_json(graph));
    }
    CHECK(mentions(to_json(f), "tangent_solve") == (how == Tangents::by_graphs));
    CHECK(operations_of(Program::make(f).graph(), "custom_root").empty());
  }
}

TEST_CASE("custom_root: without a transposed solution there is forward mode alone") {
  const Type s(f64);
  const Graph residual =
                  graph_of("residual", {s, s}, [](const Values&v) { return Values{v[1] * v[1] - v[0]}; }),
              tangent =
                  graph_of("tangent", {s, s, s}, [](const Values&v) { return Values{v[2] / (v[1] + v[1])}; });
  const Graph f = graph_of("f", {s, s}, [&](const Values& v) {
    return ops::custom_root(residual, bisection(f64), std::array{v[0], v[1]}, {1, tangent, {}});
  });
  CHECK(near(real_number(tangents_of(jvp(f, {"x0"}), {"x0"}),
                         {scalar(2.0), scalar(1.0), scalar(1.0), scalar(1.0)}, 1),
             -0.25 / std::pow(2.0, 1.5)));
  try {
    (void)grad(f);
    FAIL("expected an error");
  } catch (const ADRuleError& error) {
    CHECK(error.rule() == ADRuleError::Rule::transpose);
    CHECK(mentions(error.what(), "expected a graph transpose_solve for reverse mode"));
    CHECK(mentions(error.what(), "custom_root.cpp:"));
  }
}

TEST_CASE("custom_root: signatures that do not fit are named with graph and position") {
  const Type s(f64), v(f64, {3});
  const Graph good = graph_of("good", {v, s}, [](const Values&x) { return Values{x[1]}; }),
              wide = graph_of("wide", {v, s}, [](const Values&x) { return Values{x[0]}; }),
              third = graph_of("third", {v, s, s}, [](const Values&x) { return Values{x[2]}; });
  const auto refused = [](const Graph& residual, const Graph& solve, const std::vector<Type>& operands,
                          const RootSolve& how) {
    return message_of([&] {
      (void)graph_of("f", operands, [&](const Values& x) {
        return ops::custom_root(residual, solve, std::span<const Value>(x.begin(), x.end()), how);
      });
    });
  };
  const std::string op = "[custom_root] expected ";
  CHECK(refused(good, good, {v, s}, {1, {}, {}}) == "no error");
  CHECK(mentions(refused(good, good, {v, s}, {2, {}, {}}), op + "num_consts from 0 to 1, got 2"));
  CHECK(mentions(refused(good, good, {v, i64}, {1, {}, {}}),
                 op + "a floating or complex operand 1, which is no const, got i64[]"));
  CHECK(mentions(refused(wide, good, {v, s}, {1, {}, {}}),
                 op + "f64[] for output 0 of graph residual (\"wide\"), which is unknown 0, got f64[3]"));
  CHECK(mentions(refused(good, wide, {v, s}, {1, {}, {}}),
                 op + "f64[] for output 0 of graph solve (\"wide\"), which is unknown 0, got f64[3]"));
  CHECK(mentions(refused(good, good, {s, s}, {1, {}, {}}),
                 op + "f64[] for input 0 of graph residual (\"good\"), which is const 0, got f64[3]"));
  CHECK(mentions(refused(good, good, {v, s}, {1, good, {}}),
                 op + "3 inputs of graph tangent_solve (\"good\"), got 2"));
  CHECK(mentions(refused(good, good, {v, s}, {1, third, wide}),
                 op + "3 inputs of graph transpose_tangent_solve (\"wide\"), got 2"));
  CHECK(mentions(refused(good, good, {v, s}, {1, {}, third}),
                 op + "a graph tangent_solve beside transpose_tangent_solve, got none"));
  const Graph half = graph_of("half", {f16}, [](const Values& x) { return Values{x[0]}; });
  CHECK(mentions(refused(half, half, {f16}, {0, {}, {}}),
                 op + "a graph tangent_solve, without which unknowns are f32 and c64 alone or f64 and c128 "
                      "alone, got none and unknowns of type f16[]"));
}

}  // namespace root_cases
}  // namespace
