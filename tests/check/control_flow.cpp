// control_flow.cpp - scan beyond the table of primitives: derivatives and batches compared with the unrolled
// loop, the sets of carries and residuals, linear scans that users make, strong zeros, dumps, errors.
#include "tidu/primitives/control_flow.hpp"

#include <algorithm>

#include "check/same_function.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/dot.hpp"
#include "tidu/graph/html.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/strong_zeros.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

namespace control_flow_cases {

const Type v3{f64, {3}};

std::vector<Operation> scans_of(const Graph& graph) { return operations_of(graph, "scan"); }

// Consts w (active or not) and table, carries a, b (active through a alone), n (counts), xs.
Graph counted(std::int64_t length, bool reverse) {
  GraphBuilder s("step");
  const Value table = s.input("table", Type(f64, {4, 3})), w = s.input("w", v3), a = s.input("a", v3),
              b = s.input("b", v3), n = s.input("n", i32), x = s.input("x", v3);
  const Value row =
      ops::reshape(ops::dynamic_slice(table, std::vector{n, ops::full_like(n, 0)}, {1, 3}), {3});
  const Value next = ops::sin(w * a) + x * row;
  const Graph body = s.build({next, b * a + row, n + ops::full_like(n, 1), ops::exp(w) * b, n,
                              ops::reduce_sum(ops::cos(next), {0})});
  GraphBuilder g("counted");
  std::vector<Value> operands{g.input("table", Type(f64, {4, 3})), g.input("w", v3), g.input("a", v3),
                              g.input("n", i32), g.input("x", Type(f64, {length, 3}))};
  operands.insert(operands.begin() + 3, ops::full(g, v3, 0.5));
  const Values results = ops::scan(body, operands, {length, reverse, 2, 3});
  return g.build(std::span<const Value>(results.data(), results.size()));
}

TEST_CASE("scan: every derivative is that of the unrolled loop") {
  for (const std::int64_t length : {0, 1, 4}) {
    for (const bool reverse : {false, true}) {
      const Graph f = counted(length, reverse), written = with_control_flow_unrolled(f);
      CAPTURE(length);
      CHECK(scans_of(written).empty());
      same_function(f, written);
      for (const Names& wrt : {Names{}, Names{"a"}, Names{"w", "x"}, Names{"table"}}) {
        same_function(jvp(f, wrt), jvp(written, wrt));
        same_function(vjp(f, wrt), vjp(written, wrt));
        same_function(jvp(vjp(f, wrt), wrt), jvp(vjp(written, wrt), wrt));
        same_function(vjp(vjp(f, wrt), wrt), vjp(vjp(written, wrt), wrt));
        same_function(vjp(jvp(f, wrt), wrt), vjp(jvp(written, wrt), wrt));
        same_function(jacfwd(f, wrt), jacfwd(written, wrt));
        same_function(jacrev(f, wrt), jacrev(written, wrt));
      }
      for (const Names& batched : {Names{}, Names{"a"}, Names{"x"}, Names{"table"}, Names{"w", "n"}}) {
        same_function(vmap(f, 2, batched), vmap(written, 2, batched));
        same_function(vjp(vmap(f, 2, batched)), vjp(vmap(written, 2, batched)));
        same_function(vmap(vjp(f), 2, batched), vmap(vjp(written), 2, batched));
        same_function(vmap(vmap(f, 2, batched), 3, batched), vmap(vmap(written, 2, batched), 3, batched));
      }
    }
  }
}

TEST_CASE("scan: absent tangents stay absent, residuals are kept where they are") {
  const Graph f = counted(4, false);
  // b does not depend on a's tangent in the first step: it has a tangent in the others.
  CHECK(jvp_parts(f, {"a"}).present == std::vector<bool>{true, true, true, true});
  CHECK(jvp_parts(f, {"table"}).present == std::vector<bool>{true, true, true, true});
  GraphBuilder s("step");
  const Value w = s.input("w", v3), a = s.input("a", v3), b = s.input("b", v3), x = s.input("x", v3);
  const Graph body =
      s.build({ops::tanh(ops::exp(w) * a) * x, ops::stop_gradient(b) + x, b * x, ops::sign(a)});
  GraphBuilder g("f");
  const std::vector<Value> operands{g.input("w", v3), g.input("a", v3), g.input("b", v3),
                                    g.input("x", Type(f64, {5, 3}))};
  const Values results = ops::scan(body, operands, {5, false, 1, 2});
  const Graph graph = g.build(std::span<const Value>(results.data(), results.size()));
  CHECK(jvp_parts(graph, {"a"}).present == std::vector<bool>{true, false, false, false});
  // The second carry forgets its tangent, whose first one ys read.
  CHECK(jvp_parts(graph, {"b"}).present == std::vector<bool>{false, false, true, false});
  same_function(vjp(graph), vjp(with_control_flow_unrolled(graph)));

  // The residuals of a step are tanh and its operand; exp(w) is computed before the loop, x is read directly.
  const Linearization lin = linearize(graph, {.wrt = std::vector<std::size_t>{1}});
  const std::vector<Operation> primal = scans_of(lin.augmented), linear = scans_of(lin.linear);
  REQUIRE(primal.size() == 1);
  REQUIRE(linear.size() == 1);
  CHECK(primal[0].num_outputs() <= 4 + 2);
  CHECK(linear[0].op().integer("num_carry") == 1);
  CHECK(linear[0].op().integer("num_consts") == 1);
  CHECK_FALSE(linear[0].op().boolean("reverse"));
  const Graph backward = vjp(graph, {"a", "w"});
  const std::vector<Operation> both = scans_of(backward);
  REQUIRE(both.size() == 2);
  CHECK(both[1].op().boolean("reverse"));
  CHECK(both[1].op().integer("num_carry") == 2);  // a, and the sum for the tangents of w
}

TEST_CASE("scan: a linear scan with a carry that is not linear is transposed") {
  GraphBuilder s("step");
  const Value n = s.input("n", f64), t = s.input("t", v3), x = s.input("x", v3);
  const Value factor = ops::broadcast_scalar(ops::sin(n), {3});
  const Graph body = s.build({n + ops::full_like(n, 1), t * factor + x, t * factor, n});
  GraphBuilder g("linear");
  const std::vector<Value> operands{g.input("n", f64), g.input("t", v3), g.input("x", Type(f64, {4, 3}))};
  const Values results = ops::scan(body, operands, {4, false, 0, 2});
  const Graph linear = g.build({results[1], results[2]});
  TransposeOptions options;
  options.linear_inputs = std::vector<std::size_t>{1, 2};
  const Graph transposed = linear_transpose(linear, options).graph;
  const Graph written = linear_transpose(with_control_flow_unrolled(linear), options).graph;
  same_function(transposed, written);
  CHECK(scans_of(transposed).size() == 2);
}

TEST_CASE("scan: values that are not batched stay so") {
  const Graph f = vmap(counted(4, false), 6, {"x"});
  const std::vector<Operation> scans = scans_of(f);
  REQUIRE(scans.size() == 1);
  const Graph body = scans[0].op().graph("body");
  CHECK(body.type(body.outputs()[0]) == Type(f64, {6, 3}));
  CHECK(body.type(body.outputs()[2]) == Type(i32));  // the counter
  bool slices = false;
  for (std::size_t i = 0; i < body.num_operations(); ++i)
    slices = slices || body.operation(i).name() == "dynamic_slice";
  CHECK(slices);
}

TEST_CASE("scan: strong zeros reach into the body, and through carries") {
  GraphBuilder s("step");
  const Value a = s.input("a", f64), b = s.input("b", f64);
  // The square root of 0, as a product with an infinity, in the branch that is not taken.
  const Value positive = ops::gt(a, ops::full_like(a, 0));
  const Graph body = s.build({a, ops::select_n(positive, b, b + a * ops::rsqrt(a))});
  GraphBuilder g("f");
  const std::vector<Value> operands{g.input("a", f64), ops::full(g, f64, 0.0)};
  const Graph f = g.build({ops::scan(body, operands, {3, false, 0, 2})[1]});
  CHECK(real_number(grad(f), {scalar(4.0)}) == doctest::Approx(0.75));
  CHECK(std::isnan(real_number(grad(f), {scalar(0.0)})));
  CHECK(real_number(grad(f, {}, {.linear_transform = strong_zeros}), {scalar(0.0)}) == 0.0);
  CHECK(real_number(grad(f, {}, {.linear_transform = strong_zeros}), {scalar(4.0)}) == doctest::Approx(0.75));
}

TEST_CASE("scan: in calls and checkpoints, and these in it") {
  const Graph inner = counted(3, true);
  for (const bool kept : {false, true}) {
    GraphBuilder g("f");
    std::vector<Value> operands;
    for (std::size_t i = 0; i < inner.inputs().size(); ++i)
      operands.push_back(g.input(inner.input_name(i), inner.type(inner.inputs()[i])));
    const Values results = kept ? ops::checkpoint(inner, operands) : ops::call(inner, operands);
    const Graph f =
        g.build({ops::reduce_sum(ops::square(results[0]), {0}) + ops::reduce_sum(results[3], {0, 1})});
    const Graph written = with_control_flow_unrolled(f);
    CHECK(scans_of(Program::make(written).graph()).empty());
    same_function(grad(f), grad(written));
    same_function(hvp(f), hvp(written));

    GraphBuilder s("step");
    const Value c = s.input("c", v3), x = s.input("x", v3);
    const Graph cell = of_xy(v3, v3, [](Value y, Value z) { return Values{ops::sin(y * z), ops::exp(z)}; });
    const std::vector<Value> given{c, x};
    const Values of_cell = kept ? ops::checkpoint(cell, given) : ops::call(cell, given);
    const Graph body = s.build({of_cell[0], of_cell[1]});
    GraphBuilder h("h");
    const Values stepped =
        ops::scan(body, std::vector{h.input("c", v3), h.input("x", Type(f64, {4, 3}))}, {4, false, 0, 1});
    const Graph loop = h.build({ops::reduce_sum(stepped[0], {0}) + ops::reduce_sum(stepped[1], {0, 1})});
    same_function(grad(loop), grad(with_control_flow_unrolled(loop)));
    same_function(hvp(loop), hvp(with_control_flow_unrolled(loop)));
  }
}

TEST_CASE("scan: in a custom rule, by itself, and with values and tangents in one loop") {
  const Graph inner = counted(3, true);
  GraphBuilder g("f");
  std::vector<Value> operands;
  for (std::size_t i = 0; i < inner.inputs().size(); ++i)
    operands.push_back(g.input(inner.input_name(i), inner.type(inner.inputs()[i])));
  const Values results = ops::custom_jvp_call(inner, jvp(inner), operands);
  const Graph f = g.build({ops::reduce_sum(ops::sin(results[0]) * results[1], {0})});
  const Graph plain = [&inner] {
    GraphBuilder p("plain");
    std::vector<Value> given;
    for (std::size_t i = 0; i < inner.inputs().size(); ++i)
      given.push_back(p.input(inner.input_name(i), inner.type(inner.inputs()[i])));
    const Values of_inner = ops::call(inner, given);
    return p.build({ops::reduce_sum(ops::sin(of_inner[0]) * of_inner[1], {0})});
  }();
  for (const Names& wrt : {Names{}, Names{"a"}, Names{"w", "x"}}) {
    same_function(grad(f, wrt), grad(plain, wrt));
    same_function(jvp(f, wrt), jvp(plain, wrt));
    same_function(hvp(f, wrt), hvp(plain, wrt));
  }

  // c -> 2 sin c, with tangents that are three times those of it.
  GraphBuilder s("step", standard_primitives()), b("both", standard_primitives());
  const Value c = s.input("c", v3), at = b.input("c", v3), t = b.input("t", v3);
  const Graph step = s.build({ops::sin(c) * ops::full_like(c, 2.0)});
  const Graph both =
      b.build({ops::sin(at) * ops::full_like(at, 2.0), ops::cos(at) * t * ops::full_like(at, 6.0), at});
  const auto loop = [&](Value x) { return ops::scan(step, std::vector{x}, {2, false, 0, 1})[0]; };
  GraphBuilder q("q"), r("rule", standard_primitives()), h("h");
  const Graph once = q.build({loop(q.input("x", v3))});
  const Value x = r.input("x", v3), dx = r.input("dx", v3);
  const Values of_both = ops::scan(both, std::vector{x, dx}, {2, false, 0, 2});
  const Graph rule = r.build({of_both[0], of_both[1]});
  const Graph ruled = h.build({ops::custom_jvp_call(once, rule, std::vector{h.input("x", v3)})[0]});
  const Tensor point = vector({0.3, -0.2, 1.1}), one = vector({1.0, 1.0, 1.0});
  const Tensor own = run(vjp(ruled), {point, one}).back(), expected = run(vjp(once), {point, one}).back();
  for (std::int64_t i = 0; i < 3; ++i) CHECK(near(own.at(i), 9.0 * expected.at(i)));
  CHECK(near(run(jvp(ruled), {point, one}).back(), own));
}

TEST_CASE("scan: dumps load and give the same bytes, pages are made") {
  const DerivativeOptions named{.named_inputs = true};
  const Graph f = counted(4, true);
  for (const Graph& graph : {f, vjp(f, {}, named), jvp(vjp(f, {"a"}, named), {"a"}, named), vmap(f, 2)}) {
    const std::string text = to_json(graph);
    const Graph loaded = graph_from_json(text);
    CHECK(to_json(loaded) == text);
    CHECK(structurally_equal(loaded, graph));
    verify(loaded);
    CHECK(to_text(graph).find("scan body=") != std::string::npos);
    CHECK(to_dot(graph).find("body") != std::string::npos);
    CHECK(to_html(graph).find("scan") != std::string::npos);
    CHECK(to_text(Program::make(graph)).find("scan") != std::string::npos);
  }
  CHECK(f.structural_key() == counted(4, true).structural_key());
  CHECK_FALSE(f.structural_key() == counted(4, false).structural_key());
}

TEST_CASE("scan: signatures that do not fit are refused by operand, input and output") {
  GraphBuilder s("step");
  const Value w = s.input("w", v3), c = s.input("c", v3), x = s.input("x", f64);
  const Graph body = s.build({c + w, x});
  GraphBuilder g("f");
  const Value vector = g.input("v", v3), numbers = g.input("n", Type(f64, {4}));
  const std::vector<Value> right{vector, vector, numbers};
  CHECK(ops::scan(body, right, {4, false, 1, 1}).size() == 2);
  const auto refused = [&](const std::vector<Value>& operands, const ScanShape& shape, const Graph& graph) {
    try {
      ops::scan(graph, operands, shape);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::type);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto says = [](const std::string& text, std::string_view part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  says(refused(right, {-1, false, 1, 1}, body), "[scan] expected length >= 0, got -1");
  says(refused(right, {4, false, 2, 2}, body),
       "[scan] expected num_consts and num_carry to be at least 0 and at most 3 together, the inputs of body "
       "\"step\", "
       "got 2 and 2");
  says(refused({vector, vector}, {4, false, 1, 1}, body),
       "[scan] expected 3 operands for body \"step\", got 2");
  says(refused(right, {5, false, 1, 1}, body),
       "[scan] expected f64[5] for operand 2, x 0 (input \"x\" of body \"step\"), got f64[4]");
  says(refused({numbers, vector, numbers}, {4, false, 1, 1}, body),
       "[scan] expected f64[3] for operand 0, const 0");
  says(refused({vector, numbers, numbers}, {4, false, 1, 1}, body),
       "[scan] expected f64[3] for operand 1, carry 0");
  says(refused({vector, vector, numbers}, {4, false, 0, 3}, body),
       "with 3 outputs or more, got \"step\" with 2");
  GraphBuilder other("other");
  const Value a = other.input("a", v3);
  const Graph grows = other.build({ops::reduce_sum(a, {0})});
  says(refused({vector}, {4, false, 0, 1}, grows),
       "[scan] expected body \"other\" to give carry 0 as it came in, f64[3], got f64[]");
  static const Primitive draw{.name = "test.draw",
                              .traits = Trait::impure | Trait::no_tangent,
                              .infer = [](InferContext& context) { context.result(context.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&draw});
  GraphBuilder noisy("noisy", set), outer("step", set), holder("f", set);
  const Graph inner = noisy.build({emit1(Op::make(draw), {noisy.input("a", v3)})});
  const Graph effect = outer.build({ops::call(inner, std::vector{outer.input("a", v3)})[0]});
  says(refused({holder.input("v", v3)}, {4, false, 0, 1}, effect),
       "[scan] expected a body without effects, got test.draw in \"noisy\"");
  CHECK_THROWS_WITH_AS(with_control_flow_unrolled(counted(4, false), 20),
                       doctest::Contains("at most 20 operations"), Error);
  // Steps with equal operations count too, and nothing is allocated for a graph that is too large.
  for (const std::int64_t length : {std::int64_t{20'000'000}, std::int64_t{2'000'000'000'000'000'000}}) {
    GraphBuilder same("same", standard_primitives()), many("many", standard_primitives());
    (void)same.input("c", Type(f64));
    const Graph step = same.build({ops::full(same, Type(f64), 1.0)});
    const Graph loop = many.build(
        {ops::scan(many, step, std::vector{many.input("x", Type(f64))}, {length, false, 0, 1})[0]});
    CHECK_THROWS_WITH_AS(with_control_flow_unrolled(loop), doctest::Contains("expected at most"), Error);
  }
}

}  // namespace control_flow_cases
}  // namespace
