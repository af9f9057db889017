// transpose_by_rows.cpp - forward mode of a custom_vjp_call whose backward is linear and holds a while
// without a bound, which no rule transposes: it is the transpose of backward all the same, as for a backward
// that computes the same without a loop, and not the derivative of graph, which is 0 here.
#include <array>
#include <functional>

#include "check/custom_support.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::test::custom_calls {
namespace {

using Pair = std::array<Value, 2>;
// A linear map of both cotangents, by a residual.
using Map = std::function<Pair(Value r, Value c0, Value c1)>;

constexpr double steps = 3.0;
Value times(Value x, double factor) { return x * ops::full_like(x, factor); }

// The sum of `steps` times the map, by a loop or at once. `bend`: with tanh of a cotangent.
Graph backward(const std::array<Type, 5>& types, const Map& map, bool loop, bool bend = false) {
  const Type r_type = types[0], c0_type = types[1], c1_type = types[2], x_type = types[3], y_type = types[4];
  GraphBuilder g("backward");
  const Value r = g.input("r", r_type), c0 = g.input("c0", c0_type), c1 = g.input("c1", c1_type);
  if (!loop) {
    const Pair made = map(r, c0, c1);
    const Value first = times(made[0], steps);
    return g.build({first, times(made[1], steps)});
  }
  const auto inputs = [&](GraphBuilder& b) {
    std::vector<Value> values{b.input("r", r_type), b.input("c0", c0_type), b.input("c1", c1_type)};
    values.push_back(b.input("k", i64));
    values.push_back(b.input("a", x_type));
    values.push_back(b.input("b", y_type));
    return values;
  };
  GraphBuilder test("test"), body("body");
  const Value k = inputs(test)[3];
  const Graph condition = test.build({ops::lt(k, ops::full_like(k, steps))});
  const std::vector<Value> in = inputs(body);
  const Pair made = map(in[0], bend ? ops::tanh(in[1]) : in[1], in[2]);
  const Value next = in[3] + ops::full_like(in[3], 1.0), a = in[4] + made[0];
  const Graph step = body.build({next, a, in[5] + made[1]});
  const Value zero = ops::full(g, i64, 0.0), a0 = ops::full(g, x_type, 0.0), b0 = ops::full(g, y_type, 0.0);
  const Values found = ops::while_loop(condition, step, std::array{r, c0, c1, zero, a0, b0}, {3});
  return g.build({found[1], found[2]});
}

// Results of x and y, without a derivative.
Graph plain(const std::array<Type, 5>& types) {
  GraphBuilder g("plain");
  const Value x = g.input("x", types[3]), y = g.input("y", types[4]);
  const Value first = ops::stop_gradient(ops::sin(x));
  return g.build({first, ops::stop_gradient(ops::reduce_sum(y, {0}))});
}
Graph forward(const std::array<Type, 5>& types) {
  GraphBuilder g("forward");
  const Value x = g.input("x", types[3]), y = g.input("y", types[4]);
  const Value first = ops::stop_gradient(ops::sin(x));
  const Value second = ops::stop_gradient(ops::reduce_sum(y, {0}));
  return g.build({first, second, ops::cos(x)});
}

// In a function of x and y, through which tangents and cotangents pass.
Graph around(const std::array<Type, 5>& types, const Graph& rule) {
  GraphBuilder g("around");
  const Value x = g.input("x", types[3]), y = g.input("y", types[4]);
  const Value square = x * x;
  const Values results = ops::custom_vjp_call(plain(types), forward(types), rule, std::array{square, y});
  const Value first = results[0] * results[0];
  return g.build({first, ops::sin(results[1])});
}

struct Case {
  std::string name;
  std::array<Type, 5> types;  // of the residual, the cotangents and the inputs
  Map map;
  double tolerance;
};
std::vector<Case> cases() {
  const Type v2{f64, {2}}, c2{c128, {2}};
  const auto spread = [](Value x, std::int64_t n) { return ops::broadcast_in_dim(x, {n}, {}); };
  const Map real = [=](Value r, Value c0, Value c1) {
    const Value first = r * c0;
    const Value second = spread(ops::reduce_sum(ops::rev(c0, {0}), {0}), 3);
    return Pair{first + spread(c1, 2), second + times(spread(c1, 3), 0.5)};
  };
  const Map mixed = [=](Value r, Value c0, Value c1) {
    const Value first = r * c0;
    const Value sum = ops::convert_element_type(ops::reduce_sum(c0, {0}), f32);
    return Pair{first + spread(ops::convert_element_type(c1, f64), 2), spread(sum + c1, 3)};
  };
  const Map complex = [=](Value r, Value c0, Value c1) {
    const Value first = ops::conj(r) * c0;
    const Value second = times(spread(ops::real(ops::reduce_sum(c0, {0})), 3), 2.0);
    return Pair{first, second + spread(c1, 3)};
  };
  return {{"f64", {v2, v2, f64, v2, Type(f64, {3})}, real, 1e-11},
          {"f64 and f32", {v2, v2, f32, v2, Type(f32, {3})}, mixed, 1e-5},
          {"c128 and f64", {c2, c2, f64, c2, Type(f64, {3})}, complex, 1e-11}};
}

TEST_CASE("custom_vjp_call: forward mode is the transpose of a backward that no rule transposes") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Graph looped = around(c.types, backward(c.types, c.map, true));
    const Graph direct = around(c.types, backward(c.types, c.map, false));
    check_same(jvp(looped), jvp(direct), 1, c.tolerance);
    check_same(vjp(looped), vjp(direct), 2, c.tolerance);
    DerivativeOptions named;
    named.named_inputs = true;
    const Names both{"x", "y"};
    const auto forward_over = [&](const Graph& once) { return jvp(once, both, named); };
    check_same(forward_over(jvp(looped, both, named)), forward_over(jvp(direct, both, named)), 3,
               c.tolerance);
    check_same(forward_over(vjp(looped, both, named)), forward_over(vjp(direct, both, named)), 4,
               c.tolerance);
    const Graph over_batch = batch(jvp(looped), 2).graph, direct_over_batch = batch(jvp(direct), 2).graph;
    check_same(over_batch, direct_over_batch, 5, c.tolerance);
  }
}

TEST_CASE("custom_vjp_call: reverse mode through a loop in a backward stays an error") {
  const Case c = cases()[0];
  const Graph looped = around(c.types, backward(c.types, c.map, true));
  DerivativeOptions named;
  named.named_inputs = true;
  CHECK_THROWS_AS(vjp(vjp(looped, {"x"}, named), {"x"}), ADRuleError);
  CHECK_THROWS_AS(vjp(jvp(looped, {"x"}, named), {"x"}), ADRuleError);
}

// A custom_vjp_call in which a tangent without a rule is zero.
TEST_CASE("custom_vjp_call: a loop that is not linear in a cotangent leaves forward mode to the graph") {
  const Case c = cases()[0];
  const Graph bent = around(c.types, backward(c.types, c.map, true, true));
  const Tensors got = run(tangents_of(bent), inputs_of(jvp(bent), 6));
  for (const Tensor& tangent : got) CHECK(near(tangent, Tensor::zeros(tangent.type())));
}

}  // namespace
}  // namespace tidu::test::custom_calls
