// A chain of a million operations is linearized, transposed, differentiated twice, batched, run and destroyed
// on a small stack, and its derivatives are right.
#include <doctest/doctest.h>

#include <cmath>

#include "support/support.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu {
namespace {

Graph chain(std::size_t length) {
  GraphBuilder builder("chain");
  const Value x = builder.input("x", f64);
  Value y = x;
  for (std::size_t i = 0; i < length; i += 4) y = ops::tanh(ops::sin(y * x) + x);
  return builder.build({y});
}

// Value and derivative of the chain at x, by hand.
std::pair<double, double> by_hand(std::size_t length, double x) {
  double y = x, dy = 1.0;
  for (std::size_t i = 0; i < length; i += 4) {
    const double product = y * x;
    dy = std::cos(product) * (dy * x + y) + 1.0;
    y = std::tanh(std::sin(product) + x);
    dy *= 1.0 - y * y;
  }
  return {y, dy};
}

TEST_CASE("a chain of a million operations is differentiated without recursion") {
  const std::size_t length = test::scaled(1'000'000) / 4 * 4;
  const Graph graph = chain(length);
  REQUIRE(graph.num_operations() == length);
  const auto [value, slope] = by_hand(length, 0.7);

  const Linearization linearization = linearize(graph);
  CHECK(linearization.linear.num_operations() == length / 2 * 3);
  const Transposition transposition = linear_transpose(linearization.linear);
  const Transposition back = linear_transpose(transposition.graph);
  CHECK(back.graph.num_operations() <= linearization.linear.num_operations());

  const std::vector<Tensor> forward = cpu().run(jvp(graph), {Tensor::scalar(0.7), Tensor::scalar(1.0)});
  CHECK(forward[0].item<double>() == doctest::Approx(value));
  CHECK(forward[1].item<double>() == doctest::Approx(slope).epsilon(1e-10));
  const std::vector<Tensor> reverse = cpu().run(value_and_grad(graph), {Tensor::scalar(0.7)});
  CHECK(reverse[1].item<double>() == doctest::Approx(slope).epsilon(1e-10));

  const Graph mapped = vmap(graph, 2);
  const std::vector<Tensor> both = cpu().run(mapped, {Tensor::from<double>({2}, {0.7, 0.9})});
  CHECK(both[0].at(0).real() == doctest::Approx(value));
  CHECK(both[0].at(1).real() == doctest::Approx(by_hand(length, 0.9).first));

  const Graph second = grad(grad(chain(length / 4)));
  const double step = 1e-5;
  const double curvature =
      (by_hand(length / 4, 0.7 + step).second - by_hand(length / 4, 0.7 - step).second) / (2.0 * step);
  CHECK(cpu().run(second, {Tensor::scalar(0.7)})[0].item<double>() ==
        doctest::Approx(curvature).epsilon(1e-6));
}

// Frames of the address sanitizer are several times as large.
#ifdef TIDU_ASAN
constexpr std::uint32_t deepest = max_graph_depth / 8;
#else
constexpr std::uint32_t deepest = max_graph_depth;
#endif

TEST_CASE("graphs nested as deep as they may be are differentiated on a small stack") {
  GraphBuilder innermost("f");
  const Value x = innermost.input("x", f64);
  Graph graph = innermost.build({ops::sin(x)});
  for (std::uint32_t depth = 1; depth <= deepest; ++depth) {
    GraphBuilder builder("f");
    const Value y = builder.input("x", f64);
    graph = builder.build({ops::call(graph, std::vector{y})[0] * y});
  }
  double value = std::sin(1.1), slope = std::cos(1.1);
  for (std::uint32_t depth = 1; depth <= deepest; ++depth) {
    slope = slope * 1.1 + value;
    value *= 1.1;
  }
  const Graph derivative = value_and_grad(graph);
  for (const Executor* executor :
       {static_cast<const Executor*>(&reference()), static_cast<const Executor*>(&cpu())}) {
    const std::vector<Tensor> results = executor->run(derivative, {Tensor::scalar(1.1)});
    CHECK(results[0].item<double>() == doctest::Approx(value));
    CHECK(results[1].item<double>() == doctest::Approx(slope));
  }
  CHECK(graph_from_json(to_json(graph)).num_operations() == 2);
  CHECK(vmap(derivative, 3).outputs().size() == 2);
}

TEST_CASE("squaring 64 times stays linear in size, also compared between two graphs made separately") {
  const auto squared = [] {
    GraphBuilder builder("squares");
    Value x = builder.input("x", f64);
    for (int i = 0; i < 64; ++i) x = x * x;
    return builder.build({x});
  };
  const Graph a = squared(), b = squared();
  CHECK(a.num_operations() == 64);
  CHECK(a.key(a.outputs()[0]) == b.key(b.outputs()[0]));
  CHECK(structurally_equal(a, b));
  Graph derivative = a;
  std::size_t before = 64;
  for (int order = 1; order <= 3; ++order) {
    derivative = grad(derivative);
    CHECK(derivative.num_operations() < 6 * before);
    before = derivative.num_operations();
  }
}

}  // namespace
}  // namespace tidu
