// while_loops.cpp - while beyond the table of primitives: derivatives and batches compared with scans of as
// many steps, examples with different numbers of steps, carries, linear loops that users make, strong zeros,
// dumps, errors.
#include <algorithm>
#include <cmath>

#include "check/helpers.hpp"
#include "check/same_function.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/dot.hpp"
#include "tidu/graph/html.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/strong_zeros.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

namespace while_cases {

const Type v3{f64, {3}};
using Bound = std::optional<std::int64_t>;

// Consts w and table, carries a, b (active through a alone), k (stays), n (counts).
Graph step_graph() {
  GraphBuilder s("step");
  const Value table = s.input("table", Type(f64, {4, 3})), w = s.input("w", v3), a = s.input("a", v3),
              b = s.input("b", v3), k = s.input("k", v3), n = s.input("n", i32);
  const Value row =
      ops::reshape(ops::dynamic_slice(table, std::vector{n, ops::full_like(n, 0)}, {1, 3}), {3});
  return s.build({ops::sin(w * a) + k * row, b * a + row, k, n + ops::full_like(n, 1)});
}
Graph cond_graph(int steps) {
  GraphBuilder s("until");
  (void)s.input("table", Type(f64, {4, 3}));
  for (const char* name : {"w", "a", "b", "k"}) (void)s.input(name, v3);
  const Value n = s.input("n", i32);
  return s.build({ops::lt(n, ops::full_like(n, steps))});
}

enum class As { loop, scan };
// The same function twice: `steps` steps as a while, or as a scan of as many.
Graph counted(As as, int steps, Bound bound = {}) {
  GraphBuilder g("counted");
  std::vector<Value> operands{g.input("table", Type(f64, {4, 3})), g.input("w", v3), g.input("a", v3),
                              g.input("k", v3), g.input("n", i32)};
  operands.insert(operands.begin() + 3, ops::full(g, v3, 0.5));
  const std::int64_t length = bound ? std::min<std::int64_t>(*bound, steps) : steps;
  const Values r = as == As::loop ? ops::while_loop(cond_graph(steps), step_graph(), operands, {2, bound})
                                  : ops::scan(step_graph(), operands, {length, false, 2, 4});
  return g.build({r[0], r[1], r[2], r[3], ops::reduce_sum(ops::cos(r[0]) * r[1], {0})});
}

TEST_CASE("while: forward derivatives and batches are those of as many steps") {
  for (const int steps : {0, 1, 4}) {
    const Graph f = counted(As::loop, steps), expected = counted(As::scan, steps);
    CAPTURE(steps);
    same_function(f, expected);
    for (const Names& wrt : {Names{}, Names{"a"}, Names{"w", "k"}, Names{"table"}}) {
      same_function(jvp(f, wrt), jvp(expected, wrt));
      same_function(jvp(jvp(f, wrt), wrt), jvp(jvp(expected, wrt), wrt));
      same_function(jacfwd(f, wrt), jacfwd(expected, wrt));
    }
    same_function(jvp(jvp(jvp(f, {"a"}), {"w"}), {"a"}), jvp(jvp(jvp(expected, {"a"}), {"w"}), {"a"}));
    for (const Names& batched : {Names{"a"}, Names{"table"}, Names{"w", "a"}, Names{"k"}}) {
      same_function(vmap(f, 2, batched), vmap(expected, 2, batched));
      same_function(jvp(vmap(f, 2, batched)), jvp(vmap(expected, 2, batched)));
      same_function(vmap(jvp(f), 2, batched), vmap(jvp(expected), 2, batched));
      same_function(vmap(vmap(f, 2, batched), 3, batched), vmap(vmap(expected, 2, batched), 3, batched));
    }
  }
}

TEST_CASE("while: with a bound every derivative is that of the steps that are taken") {
  for (const auto& of : {std::pair{0, 2}, {1, 1}, {2, 4}, {4, 3}, {4, 0}}) {
    const auto steps = of.first, bound = of.second;
    const Graph f = counted(As::loop, steps, bound), expected = counted(As::scan, steps, bound);
    CAPTURE(steps);
    CAPTURE(bound);
    same_function(f, expected);
    same_function(with_control_flow_unrolled(f), expected);
    for (const Names& wrt : {Names{}, Names{"a"}, Names{"w", "k"}, Names{"table"}}) {
      same_function(jvp(f, wrt), jvp(expected, wrt));
      same_function(vjp(f, wrt), vjp(expected, wrt));
      same_function(jvp(vjp(f, wrt), wrt), jvp(vjp(expected, wrt), wrt));
      same_function(vjp(vjp(f, wrt), wrt), vjp(vjp(expected, wrt), wrt));
      same_function(vjp(jvp(f, wrt), wrt), vjp(jvp(expected, wrt), wrt));
      same_function(jacrev(f, wrt), jacrev(expected, wrt));
    }
    // Examples that begin at different numbers take different numbers of steps.
    const Graph written = with_control_flow_unrolled(f);
    for (const Names& batched : {Names{"a"}, Names{"table"}, Names{"w", "n"}, Names{}}) {
      same_function(vmap(f, 2, batched), vmap(written, 2, batched));
      same_function(vjp(vmap(f, 2, batched)), vjp(vmap(written, 2, batched)));
      same_function(vmap(vjp(f), 2, batched), vmap(vjp(written), 2, batched));
    }
  }
}

// y = x while |y| is small: y = y w + x. How many steps there are depends on the numbers.
Graph growing(Bound bound = {}) {
  GraphBuilder c("small"), s("step"), g("growing");
  const Value cw = c.input("w", f64), cx = c.input("x", v3), cy = c.input("y", v3);
  (void)cw;
  const Graph cond = c.build(
      {ops::lt(ops::reduce_sum(cy * cy, {0}), ops::reduce_sum(cx * cx, {0}) + ops::full(c, f64, 30.0))});
  const Value w = s.input("w", f64), x = s.input("x", v3), y = s.input("y", v3);
  const Graph body = s.build({y * ops::broadcast_scalar(w, {3}) + x});
  const Value gw = g.input("w", f64), gx = g.input("x", v3);
  return g.build({ops::while_loop(cond, body, std::vector{gw, gx, gx}, {2, bound})[0]});
}

TEST_CASE("while: examples that end apart") {
  const Tensors xs{vector({1.0, 2.0, 3.0}), vector({0.1, 0.1, 0.0}), vector({9.0, 0.0, 1.0}),
                   vector({2.0, 2.0, 2.0})};
  const Numbers ws{1.5, 1.25, 3.0, 2.0};
  Tensor all_x(Type(f64, {4, 3})), all_w(Type(f64, {4}));
  for (std::size_t e = 0; e < 4; ++e) {
    for (std::size_t i = 0; i < 3; ++i)
      all_x.mutable_elements<double>()[3 * e + i] = xs[e].elements<double>()[i];
    all_w.mutable_elements<double>()[e] = ws[e].real();
  }
  const auto row = [](const Tensor& t, std::size_t e) {
    const std::size_t n = static_cast<std::size_t>(t.size()) / 4;
    return t.elements<double>().subspan(n * e, n);
  };
  for (const Bound bound : {Bound(), Bound(20), Bound(4)}) {
    std::vector<Graph> functions{growing(bound), jacfwd(growing(bound)), jacfwd(jacfwd(growing(bound)))};
    if (bound) {
      functions.push_back(jacrev(growing(bound)));
      functions.push_back(jacrev(jacrev(growing(bound))));
    }
    for (const Graph& f : functions) {
      const Graph mapped = vmap(f, 4);
      for (const Tensors& got : {run(mapped, {all_w, all_x}), cpu().run(mapped, {all_w, all_x})}) {
        for (std::size_t e = 0; e < 4; ++e) {
          const Tensors alone = run(f, {scalar(ws[e].real()), xs[e]});
          for (std::size_t k = 0; k < alone.size(); ++k) {
            const auto one = row(got[k], e), expected = alone[k].elements<double>();
            for (std::size_t i = 0; i < expected.size(); ++i)
              CHECK(one[i] == doctest::Approx(expected[i]).epsilon(1e-12));
          }
        }
      }
    }
    // Both modes agree, however many steps there are.
    for (std::size_t e = 0; e < 4 && bound; ++e) {
      const Tensors at{scalar(ws[e].real()), xs[e]};
      const Tensors forward = run(jacfwd(growing(bound)), at), reverse = run(jacrev(growing(bound)), at);
      REQUIRE(forward.size() == reverse.size());
      for (std::size_t k = 0; k < forward.size(); ++k) CHECK(near(forward[k], reverse[k]));
    }
  }
  // Only x, and no example at all.
  same_function(vmap(growing(), 1, {"x"}), vmap(growing(20), 1, {"x"}),
                {scalar(1.5), check::tensor_of(Type(f64, {1, 3}), {1.0, 2.0, 3.0})});
  const Tensors nothing{Tensor(Type(f64, {0})), Tensor(Type(f64, {0, 3}))};
  CHECK(cpu().run(vmap(growing(), 0), nothing)[0].type() == Type(f64, {0, 3}));
}

TEST_CASE("while: fixed operands are no carries, and dead carries are removed") {
  const Linearization lin = linearize(counted(As::loop, 4), {.wrt = std::vector<std::size_t>{2}});  // a
  const std::vector<Operation> primal = operations_of(lin.augmented, "while"),
                               linear = operations_of(lin.linear, "while");
  REQUIRE(primal.size() == 1);
  REQUIRE(linear.size() == 1);
  CHECK(primal[0].op().integer("max_steps") == -1);
  // table, w and k are consts; carries are a, n, the tangents of a and b, and b, which a's tangent is times.
  CHECK(linear[0].op().integer("num_consts") == 3);
  CHECK(linear[0].num_outputs() == 5);
  // With w alone b depends through a; with k nothing depends.
  CHECK(jvp_parts(counted(As::loop, 4), {"k"}).present == std::vector<bool>{true, true, true, true});
  GraphBuilder g("f"), s("step"), c("cond");
  const Value k = s.input("k", v3), n = s.input("n", f64);
  (void)c.input("k", v3);
  const Value at = c.input("n", f64);
  const Graph body = s.build({k, n * n}), cond = c.build({ops::lt(at, ops::full_like(at, 9.0))});
  const Values results = ops::while_loop(cond, body, std::vector{g.input("k", v3), g.input("n", f64)});
  const Graph f = g.build({results[0], results[1]});
  CHECK(jvp_parts(f, {"k"}).present == std::vector<bool>{true, false});
  CHECK(operations_of(jvp(f, {"k"}), "while").size() == 1);
  // The gradient of an unchanged carry needs no bound.
  CHECK(near(run(vjp(with_outputs(f, std::vector<std::size_t>{0})),
                 {vector({1.0, 2.0, 3.0}), scalar(2.0), vector({4.0, 5.0, 6.0})})[1],
             vector({4.0, 5.0, 6.0})));
}

std::string refusal(const std::function<void()>& body, ErrorKind kind) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "nothing";
}
void says(const std::string& text, std::string_view part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("while: reverse mode without a bound is refused, with a message that suggests a bound") {
  const std::string text = refusal([] { vjp(growing()); }, ErrorKind::ad_rule);
  says(text, "[while] expected a loop with a bound for reverse mode, got one without in \"step\"");
  says(text, "Give it max_steps, or use scan, or fori_loop");
  says(text, "in the transpose rule of while, in operation ");
  says(text, "(derived from operation 0), ");
  says(text, "while_loops.cpp:");
  try {
    vjp(growing());
  } catch (const ADRuleError& error) {
    CHECK(error.operation().has_value());
    CHECK(error.primitive() == "while");
    CHECK(error.rule() == ADRuleError::Rule::transpose);
  }
  // The source location of the holding operation, too.
  const int line = __LINE__ + 2;
  const Graph outer = of_xy(f64, v3, [](Value w, Value x) {
    return ops::call(growing(), std::vector{w, x});
  });
  for (const auto& derive :
       {std::function<void()>([&] { vjp(outer); }), std::function<void()>([&] { jacrev(outer); }),
        std::function<void()>([&] { pullback(outer); })}) {
    const std::string nested = refusal(derive, ErrorKind::ad_rule);
    says(nested, "in the transpose rule of while, in operation 0 of ");
    says(nested, "in the transpose rule of call, in operation 0 of ");
    says(nested, detail::str("while_loops.cpp:", line));
  }
  CHECK_THROWS_AS(vjp(growing()), ADRuleError);
  CHECK_THROWS_AS(jacrev(jacfwd(growing())), ADRuleError);
}

TEST_CASE("while: a linear loop with a bound is transposed") {
  GraphBuilder s("step"), c("cond");
  const Value n = s.input("n", f64), t = s.input("t", v3), x = s.input("x", v3);
  const Graph body = s.build({n + ops::full_like(n, 1), t * ops::broadcast_scalar(ops::sin(n), {3}) + x, x});
  const Value at = c.input("n", f64);
  (void)c.input("t", v3);
  (void)c.input("x", v3);
  const Graph cond = c.build({ops::lt(at, ops::full_like(at, 3.5))});
  const auto linear = [&](Bound bound) {
    GraphBuilder g("linear");
    const std::vector<Value> operands{g.input("n", f64), g.input("t", v3), g.input("x", v3)};
    const Values results = ops::while_loop(cond, body, operands, {0, bound});
    return g.build({results[1], results[2]});
  };
  TransposeOptions options;
  options.linear_inputs = std::vector<std::size_t>{1, 2};
  for (const std::int64_t bound : {0, 2, 9}) {
    const Graph written = with_control_flow_unrolled(linear(bound));
    same_function(linear_transpose(linear(bound), options).graph, linear_transpose(written, options).graph);
  }
  CHECK_THROWS_AS(linear_transpose(linear({}), options), ADRuleError);
}

TEST_CASE("while: transposed, steps after the end give nothing, where they could not be taken either") {
  // t / n with n = 3, 2, 1, and 0 at the end.
  GraphBuilder s("step"), c("cond"), g("linear");
  const Value n = s.input("n", f64), t = s.input("t", v3), x = s.input("x", v3);
  const Graph body =
      s.build({n - ops::full_like(n, 1),
               t / ops::broadcast_scalar(n, {3}) + ops::broadcast_scalar(ops::log(n), {3}) * x, x});
  const Value at = c.input("n", f64);
  (void)c.input("t", v3);
  (void)c.input("x", v3);
  const Graph cond = c.build({ops::gt(at, ops::full_like(at, 0.5))});
  const std::vector<Value> operands{g.input("n", f64), g.input("t", v3), g.input("x", v3)};
  const Values results = ops::while_loop(cond, body, operands, {0, 5});
  const Graph linear = g.build({results[1]});
  TransposeOptions options;
  options.linear_inputs = std::vector<std::size_t>{1, 2};
  const Graph transposed = linear_transpose(linear, options).graph;
  const Tensors got = run(transposed, {scalar(3.0), vector({6.0, 12.0, -6.0})});
  CHECK(near(got.at(0), vector({1.0, 2.0, -1.0})));
  // x comes in by log 3, then log 2 (halved by the steps after), and log 1.
  const double by = std::log(3.0) / 2 + std::log(2.0);
  CHECK(near(got.at(1), vector({6.0 * by, 12.0 * by, -6.0 * by})));
  // The transpose, transposed, is the loop, here and with examples of different numbers of steps.
  options.linear_inputs = std::vector<std::size_t>{1};
  const Graph again = linear_transpose(transposed, options).graph;
  const Tensors forward = run(linear, {scalar(3.0), vector({1.0, 2.0, 3.0}), vector({0.5, 0.0, 2.0})});
  CHECK(
      near(run(again, {scalar(3.0), vector({1.0, 2.0, 3.0}), vector({0.5, 0.0, 2.0})}).at(0), forward.at(0)));
  const Graph mapped = vmap(transposed, 2, {"n"});
  const Tensors both = run(mapped, {vector({3.0, 1.0}), vector({6.0, 12.0, -6.0})});
  CHECK(near(both.at(0), check::tensor_of(Type(f64, {2, 3}), {1.0, 2.0, -1.0, 6.0, 12.0, -6.0})));
}

TEST_CASE("while: batched, one with unchanged carries is its inputs") {
  GraphBuilder s("step"), c("cond");
  (void)s.input("n", f64);
  const Graph body = s.build({s.input("k", v3)});
  const Value n = c.input("n", f64);
  (void)c.input("k", v3);
  const Graph cond = c.build({ops::gt(n, ops::full_like(n, 0.0))});
  for (const Bound bound : {Bound(), Bound(3)}) {
    const Graph f = of_xy(f64, v3, [&](Value x, Value k) {
      return Values{ops::while_loop(cond, body, std::vector{x, k}, {1, bound})[0]};
    });
    const Tensor rows = check::tensor_of(Type(f64, {2, 3}), {1, 2, 3, 4, 5, 6});
    CHECK(near(run(vmap(f, 2, {"y"}), {scalar(-1.0), rows}).at(0), rows));
    CHECK(near(run(vmap(f, 2), {vector({-1.0, 0.0}), rows}).at(0), rows));
    const Graph pushed = vmap(tangents_of(f, {"y"}), 2, {"y", "y.tangent"});
    CHECK(near(run(pushed, {scalar(-1.0), rows, rows}).at(0), rows));
  }
}

TEST_CASE("while: strong zeros reach into the body, and through carries") {
  GraphBuilder s("step"), c("cond"), g("f");
  const Value a = s.input("a", f64), b = s.input("b", f64), n = s.input("n", i32);
  const Value positive = ops::gt(a, ops::full_like(a, 0));
  const Graph body =
      s.build({a, ops::select_n(positive, b, b + a * ops::rsqrt(a)), n + ops::full_like(n, 1)});
  (void)c.input("a", f64);
  (void)c.input("b", f64);
  const Value at = c.input("n", i32);
  const Graph cond = c.build({ops::lt(at, ops::full_like(at, 3))});
  const std::vector<Value> operands{g.input("a", f64), ops::full(g, f64, 0.0), ops::full(g, i32, 0.0)};
  const Graph f = g.build({ops::while_loop(cond, body, operands)[1]});
  const auto slope = [&f](double x, const DerivativeOptions& how) {
    return real_number(jvp(f, {}, how), {scalar(x), scalar(1.0)}, 1);
  };
  CHECK(slope(4.0, {}) == doctest::Approx(0.75));
  CHECK(slope(4.0, {.linear_transform = strong_zeros}) == doctest::Approx(0.75));
  CHECK(slope(0.0, {.linear_transform = strong_zeros}) == 0.0);
}

TEST_CASE("while: in calls, checkpoints, scans and whiles, and these in it") {
  for (const Bound bound : {Bound(), Bound(6)}) {
    const Graph inner = counted(As::loop, 3, bound), expected = counted(As::scan, 3);
    const auto around = [](const Graph& held, int how) {
      GraphBuilder g("f");
      std::vector<Value> operands;
      for (std::size_t i = 0; i < held.inputs().size(); ++i)
        operands.push_back(g.input(held.input_name(i), held.type(held.inputs()[i])));
      if (how == 0) return g.build({ops::call(held, operands)[4]});
      if (how == 1) return g.build({ops::checkpoint(held, operands)[4]});
      // Twice: a is the result.
      GraphBuilder s("outer"), c("twice");
      std::vector<Value> in;
      for (std::size_t i = 0; i < operands.size(); ++i)
        in.push_back(s.input(detail::str('x', i), operands[i].type()));
      const Values r = ops::call(held, in);
      std::vector<Value> next = in;
      next[2] = r[0];
      const Value turn = s.input("turn", i32);
      next.push_back(turn + ops::full_like(turn, 1));
      for (std::size_t i = 0; i < operands.size(); ++i)
        (void)c.input(detail::str('x', i), operands[i].type());
      const Value at = c.input("turn", i32);
      const Graph body = s.build(next), cond = c.build({ops::lt(at, ops::full_like(at, 2))});
      operands.push_back(ops::full(g, i32, 0.0));
      const Values last = how == 2   ? ops::while_loop(cond, body, operands)
                          : how == 3 ? ops::while_loop(cond, body, operands, {0, 4})
                                     : ops::scan(body, operands, {2, false, 0, next.size()});
      return g.build({ops::reduce_sum(ops::square(last[2]), {0})});
    };
    for (int how = 0; how <= 4; ++how) {
      CAPTURE(how);
      const Graph f = around(inner, how), wanted = around(expected, how == 2 || how == 3 ? 4 : how);
      same_function(f, wanted);
      same_function(jvp(jvp(f)), jvp(jvp(wanted)));
      same_function(vmap(jvp(f), 2, {"a", "w"}), vmap(jvp(wanted), 2, {"a", "w"}));
      if (!bound || how == 2) continue;
      same_function(grad(f), grad(wanted));
      same_function(hvp(f), hvp(wanted));
      same_function(vmap(grad(f), 2, {"a"}), vmap(grad(wanted), 2, {"a"}));
    }
  }
}

TEST_CASE("while: dumps load and give the same bytes, pages are made") {
  const DerivativeOptions named{.named_inputs = true};
  const Graph f = counted(As::loop, 4), bounded = counted(As::loop, 4, 5);
  for (const Graph& graph : {f, jvp(f, {"a"}, named), vmap(growing(), 2), bounded, vjp(bounded, {}, named)}) {
    const std::string text = to_json(graph);
    const Graph loaded = graph_from_json(text);
    CHECK(to_json(loaded) == text);
    CHECK(structurally_equal(loaded, graph));
    verify(loaded);
    CHECK(to_dot(graph).find("body") != std::string::npos);
    CHECK(to_html(graph).find("body") != std::string::npos);
  }
  CHECK(to_text(f).find("while cond=") != std::string::npos);
  CHECK(to_text(Program::make(f)).find("while") != std::string::npos);
  CHECK(to_json(bounded).find("\"max_steps\": 5") != std::string::npos);
  CHECK(to_json(growing()).find("max_steps") == std::string::npos);
  // Attributes with their default are left out.
  GraphBuilder s("step"), c("cond"), g("plain");
  const Value x = s.input("x", f64), y = c.input("x", f64);
  const Graph body = s.build({x + x}), cond = c.build({ops::lt(y, ops::full_like(y, 9))});
  const Graph plain = g.build({ops::while_loop(cond, body, std::vector{g.input("x", f64)})[0]});
  CHECK(to_json(plain).find("num_consts") == std::string::npos);
  CHECK(to_json(graph_from_json(to_json(plain))) == to_json(plain));
  CHECK_FALSE(f.structural_key() == bounded.structural_key());
}

TEST_CASE("while: signatures that do not fit are refused by operand, input and output") {
  GraphBuilder s("step"), c("until"), g("f");
  const Value w = s.input("w", f64), x = s.input("x", v3);
  const Graph body = s.build({x * ops::broadcast_scalar(w, {3})});
  (void)c.input("w", f64);
  const Value at = c.input("x", v3), sum = ops::reduce_sum(at, {0});
  const Graph cond = c.build({ops::lt(sum, ops::full_like(sum, 9))});
  const Value number = g.input("n", f64), vector = g.input("v", v3);
  const std::vector<Value> right{number, vector};
  CHECK(ops::while_loop(cond, body, right, {1, {}}).size() == 1);
  const auto refused = [&](const Graph& until, const Graph& step, const std::vector<Value>& operands,
                           const WhileShape& shape) {
    return refusal([&] { ops::while_loop(until, step, operands, shape); }, ErrorKind::type);
  };
  const auto of = [](const char* name, const std::function<std::vector<Value>(Value, Value)>& outputs) {
    GraphBuilder b(name);
    const Value a = b.input("w", f64);
    return b.build(outputs(a, b.input("x", v3)));
  };
  says(refused(cond, body, right, {1, -1}), "[while] expected max_steps >= 0, or none, got -1");
  says(refused(cond, body, right, {2, {}}),
       "[while] expected num_consts to be at least 0 and less than 2, the number of operands, got 2");
  says(refused(cond, body, {vector}, {0, {}}), "[while] expected 2 operands for cond \"until\", got 1");
  says(refused(cond, body, {number, number}, {1, {}}),
       "[while] expected f64[3] for operand 1, carry 0 (input \"x\" of cond \"until\"), got f64[]");
  says(refused(cond, body, {vector, vector}, {1, {}}),
       "[while] expected f64[] for operand 0, const 0 (input \"w\" of cond \"until\"), got f64[3]");
  says(refused(of("odd", [](Value a, Value) { return std::vector{a}; }), body, right, {1, {}}),
       "[while] expected cond \"odd\" to give a bool[], got f64[]");
  says(refused(of("odd",
                  [](Value a, Value b) {
                    return std::vector{a, b};
                  }),
               body, right, {1, {}}),
       "[while] expected cond \"odd\" to give one bool[], got 2 outputs");
  says(refused(cond,
               of("odd",
                  [](Value a, Value b) {
                    return std::vector{a, b};
                  }),
               right, {1, {}}),
       "[while] expected body \"odd\" to give 1 carries, got 2");
  says(refused(cond, of("odd", [](Value a, Value) { return std::vector{a}; }), right, {1, {}}),
       "[while] expected body \"odd\" to give carry 0 as it came in, f64[3], got f64[]");
  static const Primitive draw{.name = "test.draw",
                              .traits = Trait::impure | Trait::no_tangent,
                              .infer = [](InferContext& context) { context.result(context.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&draw});
  GraphBuilder noisy("noisy", set), quiet("quiet", set), holder("f", set);
  const Graph effect = noisy.build({emit1(Op::make(draw), {noisy.input("a", bool_)})}),
              none = quiet.build({quiet.input("a", bool_)});
  const Value flag = holder.input("flag", bool_);
  says(refused(effect, none, {flag}, {}),
       "[while] expected a cond without effects, got test.draw in \"noisy\"");
  says(refused(none, effect, {flag}, {}),
       "[while] expected a body without effects, got test.draw in \"noisy\"");
  CHECK_THROWS_WITH_AS(with_control_flow_unrolled(growing(std::int64_t{1} << 40)),
                       doctest::Contains("operations"), Error);
  CHECK(operations_of(with_control_flow_unrolled(growing()), "while").size() == 1);
}

}  // namespace while_cases
}  // namespace
