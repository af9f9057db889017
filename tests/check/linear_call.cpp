// linear_call.cpp - linear_call beyond the table of primitives: it is the plain call in any mode and of any
// order, and reverse mode uses its own transpose.
#include <functional>
#include <vector>

#include "check/custom_support.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::test::custom_calls {
namespace {

// y = exp(r) x and the sum of x; the transpose is wrong by a factor.
Values scaled(double factor, std::span<const Value> operands) {
  GraphBuilder g("scaled"), t("transposed");
  const Value r = g.input("r", v3), x = g.input("x", v3);
  const Graph graph = g.build({ops::exp(r) * x, ops::reduce_sum(x, {0})});
  const Value s = t.input("r", v3), ct0 = t.input("ct0", v3), ct1 = t.input("ct1", f64);
  const Value right = ops::exp(s) * ct0 + ops::broadcast_scalar(ct1, {3});
  const Graph transpose = t.build({ops::full_like(s, factor) * right});
  return factor == 0 ? ops::call(graph, operands) : ops::linear_call(graph, transpose, 1, operands);
}
Graph with_scaled(double factor) {
  GraphBuilder g("around");
  const Value x = g.input("x", v3), z = g.input("z", v3);
  const Values y = scaled(factor, std::vector{ops::sin(x) * z, x * z});
  return g.build({y[0] * y[0] * z, y[1] * y[1]});
}

TEST_CASE("linear_call: in any mode and of any order it is the plain call when its transpose is right") {
  const Names both{"x", "z"};
  DerivativeOptions named;
  named.named_inputs = true;
  const auto derived = [&](const Graph& f, unsigned modes, int order) {
    Graph result = f;
    for (int i = 0; i < order; ++i)
      result = (modes >> i & 1U) != 0 ? jvp(result, both, named) : vjp(result, both, named);
    return result;
  };
  const Graph custom = with_scaled(1), expected = with_scaled(0);
  for (int order = 1; order <= 3; ++order) {
    for (unsigned modes = 0; modes < 1U << order; ++modes) {
      CAPTURE(order);
      CAPTURE(modes);
      check_same(derived(custom, modes, order), derived(expected, modes, order), 21, 1e-9);
    }
  }
  for (const Names& by : {Names{"x"}, Names{"z"}}) {
    check_same(vjp(custom, by), vjp(expected, by), 22);
    check_same(vmap(vjp(custom), 4, by), vmap(vjp(expected), 4, by), 23);
    check_same(vjp(vmap(custom, 4, by)), vjp(vmap(expected, 4, by)), 24);
  }
}

TEST_CASE("linear_call: reverse mode uses its own transpose, also for the call's derivatives") {
  const auto alone = [](double factor) {
    GraphBuilder g("alone");
    const std::vector<Value> operands{g.input("r", v3), g.input("x", v3)};
    return g.build({scaled(factor, operands)[0]});
  };
  // `many` is how often the right value comes out.
  const auto expect = [&](const std::function<Graph(const Graph&)>& derive, std::size_t output, double many) {
    const Graph wrong = derive(alone(3)), right = derive(alone(0));
    const Tensors inputs = inputs_of(wrong, 25);
    const Tensor got = run(wrong, inputs)[output], want = run(right, inputs)[output];
    for (std::int64_t i = 0; i < 3; ++i) CHECK(got.at(i).real() == doctest::Approx(many * want.at(i).real()));
  };
  DerivativeOptions named;
  named.named_inputs = true;
  const auto backward = [&](Names by) { return [=](const Graph& f) { return vjp(f, by, named); }; };
  const auto forward = [&](Names by) { return [=](const Graph& f) { return jvp(f, by, named); }; };
  const auto then = [](const auto& first, const auto& second) {
    return [=](const Graph& f) { return second(first(f)); };
  };
  // Outputs are those of the function, then tangents or cotangents.
  expect(backward({"x"}), 1, 3);
  expect(backward({"r"}), 1, 1);
  expect(forward({"x"}), 1, 1);
  // The tangent is linear in that of x, the cotangent in that of the result.
  expect(then(forward({"x"}), backward({"x.tangent"})), 2, 3);
  expect(then(backward({"x"}), forward({"cotangent.0"})), 3, 3);
  expect(then(backward({"x"}), backward({"cotangent.0"})), 2, 1);
}

}  // namespace
}  // namespace tidu::test::custom_calls
