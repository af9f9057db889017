// custom_linear_solve.cpp - custom_linear_solve beyond the table of primitives: every order and mode against
// LU factors that are differentiated as they are and against closed forms; solutions by a `while`; unknowns
// of several types, complex and Hermitian systems, batches, loops, branches, rules of users, dumps, refusals.
#include "check/custom_support.hpp"
#include "check/implicit_support.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;
using namespace tidu::test::implicit_cases;

namespace linear_solve_cases {

using custom_calls::mentions;

using Solution = std::function<Value(Value, Value)>;
Solution custom(By by) {
  return [by](Value a, Value b) { return solved(a, b, by); };
}

// x sin(x) for a regular system of a and b; of a symmetric one for `symmetric`.
Graph system(DType dtype, std::int64_t n, bool symmetric, const Solution& solution) {
  GraphBuilder g("f");
  const Value a = g.input("a", Type(dtype, {n, n})), b = g.input("b", Type(dtype, {n}));
  const Value whole = symmetric ? a + adjoint(a) : a;
  const Value x = solution(whole + diagonal_like(a, symmetric ? 9.0 : 4.0), b);
  return g.build({ops::sin(x) * x});
}

TEST_CASE("custom_linear_solve: every order is that of differentiated LU factors") {
  for (const DType dtype : {f64, c128}) {
    CAPTURE(dtype);
    const Graph expected = system(dtype, 3, false, by_factors);
    const Graph f = system(dtype, 3, false, custom(By::factors));
    for (const Names& wrt : {Names{}, Names{"a"}, Names{"b"}}) same_derivatives(f, expected, wrt);
  }
  same_derivatives(system(f32, 3, false, custom(By::factors)), system(f32, 3, false, by_factors), {}, 1e-3);
  same_derivatives(system(c64, 2, false, custom(By::factors)), system(c64, 2, false, by_factors), {}, 1e-3);
}

TEST_CASE("custom_linear_solve: how the system is solved does not matter") {
  same_derivatives(system(f64, 3, false, custom(By::bicgstab)), system(f64, 3, false, by_factors), {}, 1e-8);
  for (const DType dtype : {f64, c128}) {
    CAPTURE(dtype);
    same_derivatives(system(dtype, 3, true, custom(By::conjugate_gradients)),
                     system(dtype, 3, true, by_factors), {}, 1e-8);
  }
  same_derivatives(system(f64, 1, false, custom(By::bicgstab)), system(f64, 1, false, by_factors));
  const Graph jacobian = jacfwd(system(f64, 3, false, custom(By::bicgstab)));
  same_function(jacobian, jacrev(system(f64, 3, false, by_factors)), 1e-9);
  same_function(jacrev(system(f64, 3, false, custom(By::bicgstab))), jacobian, 1e-9);
}

TEST_CASE("custom_linear_solve: nothing to solve") {
  for (const By by : {By::factors, By::bicgstab})
    same_derivatives(system(f64, 0, false, custom(by)), system(f64, 0, false, by_factors));
}

// 4 x + c y = p, sum(d x) + 3 y = q: x a vector, y a scalar of another size of number.
Values two_unknowns(Value c, Value d, Value p, Value q) {
  const Value inner = ops::reduce_sum(d * p, {0}), weight = ops::reduce_sum(d * c, {0});
  const Value y = (scaled(q, 4.0) - inner) / (ops::full_like(q, 12.0) - weight);
  const Value x = scaled(p - times(y, c), 0.25);
  return {x, y};
}
Graph of_four(const char* name, DType dtype, const std::function<Values(const Values&)>& f) {
  GraphBuilder g(name);
  const Type v(dtype, {3}), s(dtype);
  const Value c = g.input("c", v), d = g.input("d", v), p = g.input("p", v), q = g.input("q", s);
  return g.build(f({c, d, p, q}));
}

TEST_CASE("custom_linear_solve: several unknowns, and consts that the equation does not read") {
  const auto direct = [](const Values& v) { return two_unknowns(v[0], v[1], v[2], v[3]); };
  const auto of_transposed = [](const Values& v) {
    const Value c = conjugate(v[0]);
    return two_unknowns(conjugate(v[1]), c, v[2], v[3]);
  };
  for (const DType dtype : {f64, c128}) {
    CAPTURE(dtype);
    const Graph matvec = of_four("matvec", dtype, [](const Values& v) {
      const Value first = scaled(v[2], 4.0) + times(v[3], v[0]);
      const Value inner = ops::reduce_sum(v[1] * v[2], {0});
      return Values{first, inner + scaled(v[3], 3.0)};
    });
    const LinearSolve how{2, of_four("transpose", dtype, of_transposed), false};
    const Graph solve = of_four("solve", dtype, direct);
    const auto results = [](const Values& x) { return Values{ops::sin(x[0]), x[1] * x[1]}; };
    const auto f = [&](const Values& v) {
      const Value operands[] = {v[0], ops::sin(v[1]), v[2], v[3]};
      return results(ops::custom_linear_solve(matvec, solve, operands, how));
    };
    const auto g = [&](const Values& v) { return results(two_unknowns(v[0], ops::sin(v[1]), v[2], v[3])); };
    same_derivatives(of_four("f", dtype, f), of_four("g", dtype, g));
    same_derivatives(of_four("f", dtype, f), of_four("g", dtype, g), {"d", "q"});
    // One result alone.
    const auto one = [&](const Values& v) { return Values{f(v)[1]}; };
    const auto one_expected = [&](const Values& v) { return Values{g(v)[1]}; };
    same_derivatives(of_four("f", dtype, one), of_four("g", dtype, one_expected));
    for (const Names& batched : {Names{"c"}, Names{"p"}, Names{"q", "d"}})
      same_derivatives(vmap(of_four("f", dtype, f), 2, batched), vmap(of_four("g", dtype, g), 2, batched));
  }
  // Whole numbers are consts too; of `guess` nothing depends but where the solution begins.
  GraphBuilder m("matvec"), s("solve");
  const Type v3(f64, {3});
  for (GraphBuilder* each : {&m, &s}) {
    (void)each->input("guess", v3);
    (void)each->input("n", i32);
  }
  const Value x = m.input("x", v3), b = s.input("b", v3);
  const Graph doubled = m.build({x + x}), halved = s.build({scaled(b, 0.5)});
  GraphBuilder f("f"), g("g");
  const Value guess = f.input("guess", v3), n = f.input("n", i32), right = f.input("b", v3);
  const Graph solution =
      f.build(ops::custom_linear_solve(doubled, halved, std::array{guess, n, right}, {2, halved, false}));
  (void)g.input("guess", v3);
  (void)g.input("n", i32);
  same_derivatives(solution, g.build({scaled(g.input("b", v3), 0.5)}));
  CHECK_FALSE(vjp_parts(solution, {"guess"}).present[0]);
}

// 2 x + k conj(x) is linear over real numbers alone, and its own transpose.
TEST_CASE("custom_linear_solve: a system that is linear over real numbers alone") {
  const Type v2(c128, {2});
  const auto solution = [](Value k, Value b) {
    const Value top = scaled(b, 2.0) - k * ops::conj(b);
    return top / (ops::full_like(k, 4.0) - k * ops::conj(k));
  };
  const auto of_two = [&](const std::function<Value(Value, Value)>& f) {
    GraphBuilder g("f");
    const Value k = g.input("k", v2), x = g.input("x", v2);
    return g.build({f(k, x)});
  };
  const Graph matvec = of_two([](Value k, Value x) { return scaled(x, 2.0) + k * ops::conj(x); });
  const Graph solve = of_two(solution);
  for (const bool symmetric : {true, false}) {
    LinearSolve how{1, {}, symmetric};
    if (!symmetric) how.transpose_solve = solve;
    const auto f = [&](Value k, Value b) {
      const Value x = ops::custom_linear_solve(matvec, solve, std::array{k, b}, how)[0];
      return x * x;
    };
    const auto g = [&](Value k, Value b) {
      const Value x = solution(k, b);
      return x * x;
    };
    same_derivatives(of_two(f), of_two(g));
  }
}

TEST_CASE("custom_linear_solve: mapped, in loops, in branches") {
  for (const By by : {By::factors, By::bicgstab}) {
    const Graph f = system(f64, 3, false, custom(by)), expected = system(f64, 3, false, by_factors);
    for (const Names& batched : {Names{}, Names{"a"}, Names{"b"}}) {
      same_derivatives(vmap(f, 2, batched), vmap(expected, 2, batched), {}, 1e-8);
      same_function(vmap(vmap(f, 2, batched), 3), vmap(vmap(expected, 2, batched), 3), 1e-9);
    }
    const auto scanned = [](const Graph& body) {
      GraphBuilder s("step"), g("f");
      const Type m(f64, {3, 3}), v(f64, {3});
      const Value a = s.input("a", m), b = s.input("b", v), x = s.input("x", v);
      const Value next = ops::call(body, std::array{a, b + x})[0];
      const Graph step = s.build({next, next * x});
      const Value operands[] = {g.input("a", m), g.input("b", v), g.input("xs", Type(f64, {3, 3}))};
      return g.build(ops::scan(step, operands, {3, false, 1, 1}));
    };
    same_derivatives(scanned(f), scanned(expected), {}, 1e-8);
    // Mapped, both branches run: that of an example that takes the other one has to end too.
    const auto chosen = [](const Graph& body) {
      GraphBuilder other("other"), g("f");
      const Type m(f64, {3, 3}), v(f64, {3});
      const Value a = other.input("a", m), b = other.input("b", v);
      const std::array branches{other.build({ops::matmul(a, b)}), body};
      const Value which = g.input("which", DType::boolean), operands[] = {g.input("a", m), g.input("b", v)};
      return g.build(ops::cond(which, branches, operands));
    };
    same_derivatives(chosen(f), chosen(expected), {}, 1e-8);
    same_derivatives(vmap(chosen(f), 2), vmap(chosen(expected), 2), {}, 1e-8);
    const auto kept = [](const Graph& body) {
      GraphBuilder g("f");
      return g.build(
          ops::checkpoint(body, std::array{g.input("a", Type(f64, {3, 3})), g.input("b", Type(f64, {3}))}));
    };
    same_derivatives(kept(f), kept(expected), {}, 1e-8);
  }
}

// Mapped, the branch runs for an example that does not take it too, for which the loop would not end.
TEST_CASE("custom_linear_solve: a loop that would not end in a branch that is not taken") {
  const auto of_types = [](std::size_t count, const std::function<Values(const Values&)>& f) {
    GraphBuilder g("f");
    Values inputs;
    for (std::size_t i = 0; i < count; ++i) inputs.push_back(g.input(detail::str('x', i), f64));
    return g.build(f(inputs));
  };
  // Halves b in four steps of a quarter; a step of nothing never ends.
  const Graph until = of_types(
                  3, [](const Values&v) { return Values{ops::lt(v[2], ops::full_like(v[2], 1.0))}; }),
              body = of_types(3, [](const Values&v) {
                return Values{v[1], v[2] + v[0]};
              });
  const Graph solve = of_types(2, [&](const Values& v) {
    const Value operands[] = {v[0], scaled(v[1], 0.5), ops::full_like(v[1], 0.0)};
    return Values{ops::while_loop(until, body, operands, {1, {}})[0]};
  });
  const Graph matvec = of_types(2, [](const Values& v) { return Values{v[1] + v[1]}; });
  for (const bool root : {false, true}) {
    const Graph taken = of_types(2, [&](const Values& v) {
      const Value operands[] = {v[0], v[1]};
      if (!root) return ops::custom_linear_solve(matvec, solve, operands, {1, {}, true});
      const Graph residual = of_types(3, [](const Values& x) { return Values{x[2] + x[2] - x[1]}; });
      const Graph found = of_types(3, [&](const Values& x) {
        return ops::call(solve, std::array{x[0], x[1]});
      });
      const Value all[] = {v[0], v[1], v[1]};
      return ops::custom_root(residual, found, all, {2, {}, {}});
    });
    const Graph other = of_types(2, [](const Values& v) { return Values{v[1] * v[1]}; });
    const Graph f = of_types(2, [&](const Values& v) {
      const Value operands[] = {v[0], v[1]};
      return ops::cond(ops::gt(v[0], ops::full_like(v[0], 0.0)), std::array{other, taken}, operands);
    });
    const Tensors inputs{vector({0.25, 0.0}), vector({3.0, 3.0})};
    CHECK(near(run(vmap(f, 2), inputs)[0], vector({1.5, 9.0})));
    CHECK(near(cpu().run(vmap(f, 2), inputs)[0], vector({1.5, 9.0})));
    CHECK(near(run(vmap(grad(f, {"x1"}), 2), inputs)[0], vector({0.5, 6.0})));
    CHECK(near(cpu().run(vmap(grad(f, {"x1"}), 2), inputs)[0], vector({0.5, 6.0})));
  }
}

// b / d by the rule of a user's, which is handed on by a linear solve of the tangents, or of the cotangents.
TEST_CASE("custom_linear_solve: in the rules of users") {
  const Type v3(f64, {3});
  const auto divided = [&](const char* name) {
    GraphBuilder g(name);
    const Value d = g.input("d", v3), b = g.input("b", v3);
    return g.build({b / d});
  };
  GraphBuilder m("matvec"), j("jvp"), w("forward"), k("backward");
  const Value scale = m.input("d", v3), unknown = m.input("x", v3);
  const Graph matvec = m.build({scale * unknown}), solve = divided("solve");
  const auto solution = [&](Value d, Value b) {
    return ops::custom_linear_solve(matvec, solve, std::array{d, b}, {1, {}, true})[0];
  };
  const Value d = j.input("d", v3), b = j.input("b", v3), dd = j.input("dd", v3), db = j.input("db", v3);
  const Value x = solution(d, b), change = db - dd * x;
  const Graph rule = j.build({x, solution(d, change)});
  const Value wd = w.input("d", v3), wb = w.input("b", v3), wx = solution(wd, wb);
  const Graph forward = w.build({wx, wd, wx});
  const Value kd = k.input("d", v3), kx = k.input("x", v3), ct = solution(kd, k.input("ct", v3));
  const Graph backward = k.build({-(ct * kx), ct});
  const auto around = [&](const std::function<Value(Value, Value)>& f) {
    GraphBuilder g("f");
    const Value from = g.input("d", v3), to = g.input("b", v3), shifted = from + ops::full_like(from, 3.0);
    return g.build({ops::sin(f(shifted, to))});
  };
  const Graph expected = around([](Value p, Value q) { return q / p; });
  for (const Names& wrt : {Names{}, Names{"d"}, Names{"b"}}) {
    same_derivatives(around([&](Value p, Value q) {
                       return ops::custom_jvp_call(solve, rule, std::array{p, q})[0];
                     }),
                     expected, wrt);
    same_derivatives(around([&](Value p, Value q) {
                       return ops::custom_vjp_call(solve, forward, backward, std::array{p, q})[0];
                     }),
                     expected, wrt);
  }
  // A solve is not linear in the consts of its equation.
  GraphBuilder n("nonlinear");
  const Value nd = n.input("d", v3), nb = n.input("b", v3), ndd = n.input("dd", v3);
  (void)n.input("db", v3);
  const Graph nonlinear = n.build({solution(nd, nb), solution(ndd, nb)});
  const Graph wrong = around([&](Value p, Value q) {
    return ops::custom_jvp_call(solve, nonlinear, std::array{p, q})[0];
  });
  CHECK_THROWS_WITH_AS(linearize(wrong, {.wrt = std::vector<std::size_t>{0}}),
                       doctest::Contains("linear in its tangents, got custom_linear_solve of them"),
                       ADRuleError);
}

TEST_CASE("custom_linear_solve: dumps") {
  for (const By by : {By::bicgstab, By::conjugate_gradients}) {
    const Graph f = system(f64, 2, by == By::conjugate_gradients, custom(by));
    for (const Graph& graph : {f, jvp(f), vjp(f), vmap(f, 2), jvp(vjp(f))}) {
      const Graph loaded = graph_from_json(to_json(graph));
      CHECK(loaded.structural_key() == graph.structural_key());
      CHECK(to_json(loaded) == to_json(graph));
      same_function(loaded, graph);
    }
    const bool symmetric = by == By::conjugate_gradients;
    CHECK(mentions(to_json(f), "transpose_solve") == !symmetric);
    CHECK(mentions(to_json(f), "symmetric") == symmetric);
    CHECK(operations_of(Program::make(f).graph(), "custom_linear_solve").empty());
  }
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("custom_linear_solve: without a transposed solution there is forward mode alone") {
  const auto forward_alone = [](Value a, Value b) {
    return ops::custom_linear_solve(matvec_graph(a.type(), b.type()),
                                    solve_graph(a.type(), b.type(), By::bicgstab), std::array{a, b},
                                    {1, {}, {}})[0];
  };
  const Graph f = system(f64, 3, false, forward_alone), expected = system(f64, 3, false, by_factors);
  same_function(jvp(jvp(f)), jvp(jvp(expected)), 1e-9);
  same_function(jacfwd(f), jacfwd(expected), 1e-9);
  try {
    (void)vjp(f);
    FAIL("expected an error");
  } catch (const ADRuleError& error) {
    CHECK(error.rule() == ADRuleError::Rule::transpose);
    CHECK(error.primitive() == "custom_linear_solve");
    CHECK(mentions(error.what(),
                   "expected a graph transpose_solve for reverse mode, or symmetric = true, got neither"));
    CHECK(mentions(error.what(), "custom_linear_solve.cpp:"));
  }
}

TEST_CASE("custom_linear_solve: an equation that is not linear is refused, not differentiated") {
  const Type v3(f64, {3});
  const auto with = [&](const std::function<Value(Value, Value)>& map) {
    GraphBuilder m("affine"), s("solve"), f("f");
    const Value c = m.input("c", v3), x = m.input("x", v3);
    const Graph matvec = m.build({map(c, x)});
    const Value sc = s.input("c", v3), sb = s.input("b", v3);
    const Graph solve = s.build({sb - sc});
    return f.build(ops::custom_linear_solve(matvec, solve, std::array{f.input("c", v3), f.input("b", v3)},
                                            {1, solve, false}));
  };
  const Graph affine = with([](Value c, Value x) { return x + c; });
  for (const Transform mode : {forward_mode, reverse_mode}) {
    const std::string message = message_of([&] { (void)mode(affine, {}); });
    CHECK(mentions(message,
                   "expected graph matvec (\"affine\") to be linear in its inputs after the consts, "
                   "got a sum of what depends on them and of what neither does nor is zero"));
    CHECK(mentions(message, "custom_linear_solve.cpp:"));
  }
  CHECK_THROWS_AS((void)vjp(with([](Value c, Value x) { return c * x * x; }), {"b"}), Error);
}

TEST_CASE("custom_linear_solve: signatures that do not fit are named with graph and position") {
  const Type m(f64, {3, 3}), v(f64, {3}), w(f64, {2});
  const Graph matvec = matvec_graph(m, v), solve = solve_graph(m, v, By::factors);
  const auto refused = [&](const Graph& map, const Graph& by, const std::vector<Type>& operands,
                           const LinearSolve& how) {
    return message_of([&] {
      GraphBuilder g("f");
      std::vector<Value> values;
      for (const Type type : operands) values.push_back(g.input(detail::str('x', values.size()), type));
      (void)ops::custom_linear_solve(map, by, values, how);
    });
  };
  const std::string op = "[custom_linear_solve] expected ";
  CHECK(mentions(refused(matvec, solve, {m, v}, {2, {}, {}}), op + "num_consts from 0 to 1, got 2"));
  CHECK(mentions(refused(matvec, solve, {m, Type(i32, {3})}, {1, {}, {}}),
                 op + "a floating or complex operand 1, which is no const, got i32[3]"));
  CHECK(mentions(refused(matvec, solve, {m, w}, {1, {}, {}}),
                 op +
                     "f64[2] for input 1 of graph matvec (\"matvec\"), the unknown of right-hand side 0, got "
                     "f64[3]"));
  CHECK(mentions(refused(solve_graph(Type(f64, {3, 3}), v, By::factors), of_x(v, [](Value x) { return x; }),
                         {m, v}, {1, {}, {}}),
                 op + "2 inputs of graph solve (\"f\"), got 1"));
  GraphBuilder s("short");
  (void)s.input("a", m);
  const Value x = s.input("x", v);
  const Graph shorter = s.build({ops::slice(x, {0}, {2})});
  CHECK(mentions(
      refused(shorter, solve, {m, v}, {1, {}, {}}),
      op + "f64[3] for output 0 of graph matvec (\"short\"), which is right-hand side 0, got f64[2]"));
  CHECK(mentions(refused(matvec, shorter, {m, v}, {1, {}, {}}),
                 op + "f64[3] for output 0 of graph solve (\"short\"), the unknown of right-hand side 0, got "
                      "f64[2]"));
  CHECK(mentions(
      refused(matvec, solve, {m, v}, {1, shorter, {}}),
      op + "f64[3] for output 0 of graph transpose_solve (\"short\"), the unknown of right-hand side "
           "0, got f64[2]"));
  const Op two =
      Op::make(prim::custom_linear_solve, {{"matvec", matvec},
                                           {"solve", solve},
                                           {"transpose_solve", GraphList{solve.share(), solve.share()}},
                                           {"num_consts", 1}});
  CHECK(mentions(message_of([&] {
                   (void)infer_types(two, std::array{m, v});
                 }),
                 op + "one graph or none in attribute transpose_solve, got 2"));
  const Op none =
      Op::make(prim::custom_linear_solve, {{"matvec", matvec}, {"solve", solve}, {"num_consts", 0}});
  CHECK(mentions(message_of([&] { (void)infer_types(none, std::vector<Type>()); }),
                 op + "one operand or more, got none"));
}

}  // namespace linear_solve_cases
}  // namespace
