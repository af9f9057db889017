// Custom rules that call the function that they are the rule of, of which derivatives of every order come
// from the one rule: by the function itself, by each other, by a new function in each call, and in dumps.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/frontend/custom.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/frontend/transforms.hpp"
#include "tidu/frontend/vmap.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"

namespace {

using namespace tidu;
using Scalar = std::function<Array(const Array&)>;

// f', f'' and f''' at a, on the tape, in graphs, compiled and over a batch.
void check_orders(const Scalar& f, double at, const std::vector<double>& expected) {
  const Array a(at), one(1.0);
  const auto is = [](const Array& got, double want) {
    CHECK(got.item<double>() == doctest::Approx(want).epsilon(1e-12));
  };
  is(grad(f)(a), expected[0]);
  is(jvp(f, a, one).second, expected[0]);
  is(compile(grad(f))(a), expected[0]);
  is(grad(grad(f))(a), expected[1]);
  is(hessian(f)(a), expected[1]);
  is(hvp(f, a, one), expected[1]);
  is(jacfwd(jacfwd(f))(a), expected[1]);
  is(compile([&](const Array& x) { return hvp(f, x, one); })(a), expected[1]);
  is(vmap(grad(grad(f)))(reshape(a, {1}))[0], expected[1]);
  is(grad([&](const Array& x) { return sum(vmap(grad(f))(x)); })(reshape(a, {1}))[0], expected[1]);
  is(grad(grad(grad(f)))(a), expected[2]);
  const Graph graph = trace(f, Type(f64));
  const auto of_graph = [&](const Graph& g) { return cpu().run(g, {a.tensor()})[0].at(0).real(); };
  CHECK(of_graph(grad(grad(graph))) == doctest::Approx(expected[1]).epsilon(1e-12));
  CHECK(of_graph(grad(grad(grad(graph)))) == doctest::Approx(expected[2]).epsilon(1e-12));
  // The dump holds each rule once, and has the same derivatives.
  const std::string dump = to_json(graph);
  const Graph loaded = graph_from_json(dump);
  CHECK(to_json(loaded).size() == dump.size());
  CHECK(of_graph(grad(grad(loaded))) == doctest::Approx(expected[1]).epsilon(1e-12));
  CHECK(of_graph(grad(graph_from_json(to_json(grad(grad(loaded)))))) ==
        doctest::Approx(expected[2]).epsilon(1e-12));
}

std::vector<double> root_orders(double a) {
  return {0.5 / std::sqrt(a), -0.25 * std::pow(a, -1.5), 0.375 * std::pow(a, -2.5)};
}
const Scalar rootless = [](const Array& a) { return stop_gradient(sqrt(a)); };

TEST_CASE("custom rules that call their own function: of a root, whose graph has no derivative") {
  Scalar by_jvp, by_vjp;
  by_jvp = custom_jvp(rootless, [&](const Array& a, const Array& da) {
    const Array y = by_jvp(a);
    return std::pair(y, da / (2.0 * y));
  });
  by_vjp = custom_vjp(
      rootless,
      [&](const Array& a) {
        const Array y = by_vjp(a);
        return std::pair(y, y);
      },
      [](const Array& y, const Array& ct) { return ct / (2.0 * y); });
  check_orders(by_jvp, 2.0, root_orders(2.0));
  check_orders(by_vjp, 2.0, root_orders(2.0));
}

TEST_CASE("custom rules that call their own function: exp' = exp, and two functions by each other") {
  Scalar exponential, sine, cosine;
  exponential =
      custom_vjp([](const Array& a) { return exp(a); }, [](const Array& a) { return std::pair(exp(a), a); },
                 [&](const Array& a, const Array& ct) { return ct * exponential(a); });
  check_orders(exponential, 0.5, std::vector<double>(3, std::exp(0.5)));
  sine = custom_jvp([](const Array& a) { return stop_gradient(sin(a)); },
                    [&](const Array& a, const Array& da) { return std::pair(sine(a), cosine(a) * da); });
  cosine = custom_jvp([](const Array& a) { return stop_gradient(cos(a)); },
                      [&](const Array& a, const Array& da) { return std::pair(cosine(a), -sine(a) * da); });
  check_orders(sine, 2.0, {std::cos(2.0), -std::sin(2.0), -std::cos(2.0)});
}

// k x = b for x, elementwise, whose adjoint is the solver; a new function in each call.
Array solve(const Array& k, const Array& b) {
  return custom_vjp([](const Array& a, const Array& c) { return c / stop_gradient(a); },
                    [](const Array& a, const Array& c) {
                      const Array x = c / a;
                      return std::pair(x, std::tuple(a, x));
                    },
                    [](const std::tuple<Array, Array>& kept, const Array& ct) {
                      const auto& [a, x] = kept;
                      const Array w = solve(a, ct);
                      return std::tuple(-w * x, w);
                    })(k, b);
}
// The same, with functions that hold something: no one call is the same as another.
Array scaled_solve(const Array& k, const Array& b, double scale) {
  return custom_vjp([scale](const Array& a, const Array& c) { return c / stop_gradient(a * scale); },
                    [scale](const Array& a, const Array&, const Array& x, const Array& ct) {
                      const Array w = scaled_solve(a, ct, scale);
                      return std::tuple(-w * x * scale, w);
                    })(k, b);
}

TEST_CASE("custom rules that call their own function, which is a new one in each call") {
  const double k = 2.0;
  check_orders([](const Array& a) { return solve(a, Array(3.0)); }, k,
               {-3.0 / (k * k), 6.0 / (k * k * k), -18.0 / (k * k * k * k)});
  const auto by_two = [](const Array& a) { return scaled_solve(a, a * a * a, 2.0); };  // a² / 2
  CHECK(grad(by_two)(Array(k)).item<double>() == doctest::Approx(k));
  CHECK(grad(grad(by_two))(Array(k)).item<double>() == doctest::Approx(1.0));
  CHECK(hessian(by_two)(Array(k)).item<double>() == doctest::Approx(1.0));
  CHECK(grad(grad(grad(by_two)))(Array(k)).item<double>() == doctest::Approx(0.0));
}

TEST_CASE("custom rules may be given the result, or all arguments and the result") {
  const auto by_jvp =
      custom_jvp(rootless, [](const Array&, const Array& y, const Array& da) { return da / (2.0 * y); });
  const auto by_vjp =
      custom_vjp(rootless, [](const Array&, const Array& y, const Array& ct) { return ct / (2.0 * y); });
  check_orders([&](const Array& a) { return by_jvp(a); }, 2.0, root_orders(2.0));
  check_orders([&](const Array& a) { return by_vjp(a); }, 2.0, root_orders(2.0));
  const auto two = custom_vjp([](const Array& a, const Array& b) { return stop_gradient(a / b); },
                              [](const Array&, const Array& b, const Array& y, const Array& ct) {
                                return std::tuple(ct / b, -ct * y / b);
                              });
  check_orders([&](const Array& a) { return two(a * a, a); }, 2.0, {1.0, 0.0, 0.0});
}

TEST_CASE("custom rules: a function that calls itself without end is refused, and the next call works") {
  Scalar endless;
  endless = checkpoint([&](const Array& a) { return endless(a) * 2.0; });
  CHECK_THROWS_WITH_AS(endless(Array(1.0)), doctest::Contains("does a function call itself without end?"),
                       Error);
  Scalar custom;
  custom = custom_jvp([&](const Array& a) { return custom(a); },
                      [](const Array& a, const Array& da) { return std::pair(a, da); });
  CHECK_THROWS_WITH_AS(custom(Array(1.0)), doctest::Contains("does a function call itself without end?"),
                       Error);
  CHECK(grad([](const Array& a) { return sin(a); })(Array(0.0)).item<double>() == 1.0);
}

TEST_CASE("custom rules: one that does not fit is refused when it is asked for, too") {
  Scalar f;
  bool wrong = false;
  f = custom_jvp([](const Array& a) { return exp(a); },
                 [&](const Array& a, const Array& da) {
                   const Array change = f(a) * da;
                   return std::pair(exp(a), wrong ? broadcast_to(change, {2}) : change);
                 });
  const Graph first = grad(trace(f, Type(f64)));
  wrong = true;
  CHECK_THROWS_WITH_AS(grad(first), doctest::Contains("expected f64[] for output 1 of graph jvp"), Error);
  wrong = false;
  CHECK(cpu().run(grad(first), {Tensor::scalar(2.0)})[0].at(0).real() == doctest::Approx(std::exp(2.0)));
}

}  // namespace
