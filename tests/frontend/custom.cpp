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
