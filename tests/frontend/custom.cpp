// Functions of Arrays with rules of their own, and checkpoints of them: eager, traced, compiled, twice
// differentiated.
#include "tidu/frontend/custom.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/transforms.hpp"

namespace {

using namespace tidu;

// log(1 + e^x), for which plain rules overflow.
const auto softplus = [](const Array& x) { return log(1.0 + exp(x)); };
const auto softplus_jvp = [](const Array& x, const Array& dx) {
  return std::pair(log(1.0 + exp(x)), dx / (1.0 + exp(-x)));
};

TEST_CASE("custom_jvp: the rule is used in both modes and at second order, eager, compiled and traced") {
  const auto f = custom_jvp(softplus, softplus_jvp);
  const Array large(800.0), one(1.0);
  CHECK(std::isnan(grad(softplus)(large).item<double>()));
  CHECK(grad(f)(large).item<double>() == 1.0);
  CHECK(grad(compile(f))(large).item<double>() == 1.0);
  CHECK(jvp(f, large, one).second.item<double>() == 1.0);
  const double s = 1.0 / (1.0 + std::exp(-1.0));
  CHECK(grad(grad(f))(one).item<double>() == doctest::Approx(s * (1.0 - s)));
  CHECK(hessian(f)(one).item<double>() == doctest::Approx(s * (1.0 - s)));
  const Graph graph = trace([&](const Array& x) { return f(x) * x; }, Type(f64));
  CHECK(graph.operation(0).name() == "custom_jvp_call");
}

TEST_CASE("custom_vjp: two arguments and a residual of more than one Array") {
  const auto f = custom_vjp(
      [](const Array& x, const Array& y) { return sin(x) * y; },
      [](const Array& x, const Array& y) { return std::pair(sin(x) * y, std::pair(cos(x) * y, sin(x))); },
      [](const std::pair<Array, Array>& kept, const Array& ct) {
        return std::pair(kept.first * ct * 10.0, kept.second * ct);
      });
  const Array x(0.7), y(1.3);
  CHECK(f(x, y).item<double>() == doctest::Approx(std::sin(0.7) * 1.3));
  const auto gradients = grad(f, {0, 1})(x, y);
  CHECK(gradients[0].item<double>() == doctest::Approx(13.0 * std::cos(0.7)));
  CHECK(gradients[1].item<double>() == doctest::Approx(std::sin(0.7)));
  CHECK(jacfwd(f)(x, y).item<double>() == doctest::Approx(13.0 * std::cos(0.7)));
  CHECK(grad(grad(f))(x, y).item<double>() == doctest::Approx(-13.0 * std::sin(0.7)));
}

TEST_CASE("custom rules that read what the function returned alone have second derivatives on the tape too") {
  const auto root = [](const Array& a) {  // y of y³ + y = a, by Newton's method
    Array y = ones_like(a);
    for (int i = 0; i < 20; ++i) y = y - (y * y * y + y - a) / (3.0 * y * y + 1.0);
    return y;
  };
  const auto by_jvp = custom_jvp(root, [root](const Array& a, const Array& da) {
    const Array y = root(a);
    return std::pair(y, da / (3.0 * y * y + 1.0));
  });
  const auto by_vjp = custom_vjp(
      root,
      [root](const Array& a) {
        const Array y = root(a);
        return std::pair(y, y);
      },
      [](const Array& y, const Array& ct) { return ct / (3.0 * y * y + 1.0); });
  const auto compiled = compile([by_vjp](const Array& a) { return exp(by_vjp(a)) * a; });
  const Array a = array({0.5, 2.0, 10.0}), v = array({1.0, -2.0, 0.5}), y = root(a);
  const Array slope = 3.0 * y * y + 1.0;
  const auto check = [&](const Array& got, const Array& expected) {
    for (std::int64_t i = 0; i < 3; ++i)
      CHECK(got[i].item<double>() == doctest::Approx(expected[i].item<double>()));
  };
  const auto sum_of = [](const auto& f) { return [f](const Array& x) { return sum(f(x)); }; };
  const Array curvature = -6.0 * y / (slope * slope * slope);
  check(hvp(sum_of(by_jvp), a, v), curvature * v);
  check(hvp(sum_of(by_vjp), a, v), curvature * v);
  check(hvp(sum_of(compiled), a, v), exp(y) * v * (2.0 / slope + a / (slope * slope) + a * curvature));
  Array leaf = a.copy();  // to third order
  leaf.set_requires_grad();
  BackwardOptions again;
  again.create_graph = true;
  const Array first = *grad_of(sum(by_vjp(leaf)), {leaf}, again)[0];
  const Array second = *grad_of(sum(first), {leaf}, again)[0];
  check(second, curvature);
  const Array third = *grad_of(sum(second), {leaf})[0];
  check(third, (108.0 * y * y - 6.0 * slope) / (slope * slope * slope * slope * slope));
}

TEST_CASE("checkpoint: the same gradients, of any order") {
  const auto layer = [](const Array& x) { return tanh(sin(x) * x); };
  for (const auto& policy : {CheckpointPolicy::nothing(), CheckpointPolicy::everything()}) {
    const auto f = checkpoint(layer, policy);
    const Array x(0.4);
    CHECK(f(x).item<double>() == layer(x).item<double>());
    CHECK(grad(f)(x).item<double>() == doctest::Approx(grad(layer)(x).item<double>()));
    CHECK(grad(grad(f))(x).item<double>() == doctest::Approx(grad(grad(layer))(x).item<double>()));
    CHECK(hessian(f)(x).item<double>() == doctest::Approx(hessian(layer)(x).item<double>()));
  }
}

TEST_CASE("custom rules: one that does not fit is refused with the place of the call") {
  const auto f = custom_jvp(softplus, [](const Array& x, const Array&) { return std::pair(x, sum(x)); });
  const Array x = array({1.0, 2.0});
  try {
    f(x);
    FAIL("expected an error");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(
        text.find("expected f64[2] for output 1 of graph jvp (\"jvp\"), the tangent of output 0, got f64") !=
        std::string::npos);
    CHECK(text.find("custom.cpp") != std::string::npos);
  }
}

}  // namespace
