// Long loops, and deep ones, with their derivatives on a small stack.
#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;

namespace {

using Bound = std::optional<std::int64_t>;

// x -> sin(x) w, `steps` times; w, x and the number of the step.
Graph chain(double steps, Bound bound) {
  GraphBuilder s("step"), c("until"), g("chain");
  const Value w = s.input("w", f64), x = s.input("x", f64), n = s.input("n", f64);
  const Graph body = s.build({ops::mul(ops::sin(x), w), ops::add(n, ops::full_like(n, 1))});
  (void)c.input("w", f64);
  (void)c.input("x", f64);
  const Value at = c.input("n", f64);
  const Graph cond = c.build({ops::lt(at, ops::full_like(at, steps))});
  const std::vector<Value> operands{g.input("w", f64), g.input("x", f64), ops::full(g, f64, 0.0)};
  return g.build({ops::while_loop(cond, body, operands, {1, bound})[0]});
}

}  // namespace

TEST_CASE("a while of many steps and its derivatives") {
  const auto steps = static_cast<std::int64_t>(test::scaled(100000));
  double x = 0.3, by_x = 1.0;
  for (std::int64_t i = 0; i < steps; ++i) {
    by_x *= 1.01 * std::cos(x);
    x = std::sin(x) * 1.01;
  }
  const Tensor w = Tensor::scalar(1.01), at = Tensor::scalar(0.3), one = Tensor::scalar(1.0);
  for (const Bound bound : {Bound(), Bound(steps + 7)}) {
    const Graph f = chain(static_cast<double>(steps), bound);
    CHECK(cpu().run(f, {w, at})[0].item<double>() == doctest::Approx(x).epsilon(1e-12));
    CHECK(cpu().run(jvp(f, {"x"}), {w, at, one})[1].item<double>() == doctest::Approx(by_x).epsilon(1e-9));
    if (bound)
      CHECK(cpu().run(grad(f, {"x"}), {w, at})[0].item<double>() == doctest::Approx(by_x).epsilon(1e-9));
  }
}

TEST_CASE("whiles in whiles, as deep as graphs may nest") {
  GraphBuilder s("step");
  const Value first = s.input("x", f64);
  Graph body = s.build({ops::sin(first)});
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  const std::uint32_t deepest = 8;  // frames are several times as large
#else
  const std::uint32_t deepest = 30;
#endif
  for (std::uint32_t depth = 1; depth < deepest; ++depth) {
    GraphBuilder outer("step"), until("until");
    const Value at = until.input("x", f64);
    const Graph cond = until.build({ops::gt(at, ops::full_like(at, 0.0))});
    const WhileShape shape{0, 1};
    body = outer.build({ops::while_loop(cond, body, std::vector{outer.input("x", f64)}, shape)[0]});
  }
  CHECK(cpu().run(body, {Tensor::scalar(0.7)})[0].item<double>() == std::sin(0.7));
  CHECK(cpu().run(body, {Tensor::scalar(-0.7)})[0].item<double>() == -0.7);
  // With the derivative each is a cond in a scan.
  const Tensor gradient = cpu().run(grad(body), {Tensor::scalar(0.7)})[0];
  CHECK(gradient.item<double>() == std::cos(0.7));
}
