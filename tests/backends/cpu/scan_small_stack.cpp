// Long scans, and deep ones, with their derivatives on a small stack.
#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;

namespace {

// c -> sin(c) w + x
Graph step_of_chain() {
  GraphBuilder b("step");
  const Value w = b.input("w", f64), c = b.input("c", f64), x = b.input("x", f64);
  const Value next = ops::add(ops::mul(ops::sin(c), w), x);
  return b.build({next, next});
}

#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
constexpr std::uint32_t deepest_scans = 10;  // frames are several times as large
#else
constexpr std::uint32_t deepest_scans = 50;
#endif

}  // namespace

TEST_CASE("a scan of many steps and its derivatives") {
  const auto steps = static_cast<std::int64_t>(test::scaled(100000));
  GraphBuilder g("f");
  const std::vector<Value> operands{g.input("w", f64), g.input("c", f64), g.input("x", Type(f64, {steps}))};
  const Values results = ops::scan(step_of_chain(), operands, {steps, false, 1, 1});
  const Graph f = g.build({ops::add(results[0], ops::reduce_sum(results[1], {0}))});
  std::mt19937_64 random(5);
  const Tensor w = Tensor::scalar(0.9), c = Tensor::scalar(0.3);
  const Tensor xs = test::random_tensor(Type(f64, {steps}), {-1, 1}, random);
  const auto size = static_cast<std::size_t>(steps);
  std::vector<double> at{0.3};
  double value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    at.push_back(std::sin(at[i]) * 0.9 + xs.data<double>()[i]);
    value += at.back();
  }
  value += at.back();
  CHECK(cpu().run(f, {w, c, xs})[0].item<double>() == doctest::Approx(value).epsilon(1e-12));

  double ct = 1, of_w = 0;
  std::vector<double> of_x(size);
  for (std::size_t i = size; i-- > 0;) {
    ct += 1;
    of_x[i] = ct;
    of_w += ct * std::sin(at[i]);
    ct *= 0.9 * std::cos(at[i]);
  }
  const std::vector<Tensor> gradients = cpu().run(grad(f), {w, c, xs});
  CHECK(gradients[0].item<double>() == doctest::Approx(of_w).epsilon(1e-10));
  CHECK(gradients[1].item<double>() == doctest::Approx(ct).epsilon(1e-10));
  double worst = 0;
  for (std::size_t i = 0; i < size; ++i)
    worst = std::max(worst, std::abs(gradients[2].data<double>()[i] - of_x[i]));
  CHECK(worst < 1e-11);
  // Forward over reverse against reverse over reverse.
  const std::vector<Tensor> both = cpu().run(hvp(f, {"c"}), {w, c, xs, Tensor::scalar(1.0)});
  const Graph again = grad(grad(f, {"c"}), {"c"});
  CHECK(both.back().item<double>() == doctest::Approx(cpu().run(again, {w, c, xs})[0].item<double>()));
}

TEST_CASE("scans in scans, as deep as graphs may nest") {
  GraphBuilder b("step");
  const Value w = b.input("w", f64), c = b.input("c", f64);
  Graph body = b.build({ops::mul(ops::sin(c), w)});
  for (std::uint32_t depth = 1; depth < deepest_scans; ++depth) {
    GraphBuilder outer("step");
    const std::vector<Value> operands{outer.input("w", f64), outer.input("c", f64)};
    body = outer.build({ops::scan(body, operands, {1, depth % 2 == 0, 1, 1})[0]});
  }
  const Tensor at = Tensor::scalar(0.7), weight = Tensor::scalar(0.9);
  CHECK(cpu().run(body, {weight, at})[0].item<double>() == std::sin(0.7) * 0.9);
  const std::vector<Tensor> gradients = cpu().run(grad(body), {weight, at});
  CHECK(gradients[0].item<double>() == std::sin(0.7));
  CHECK(gradients[1].item<double>() == std::cos(0.7) * 0.9);
}

TEST_CASE("scans in scans, of which the innermost has a dead result") {
  GraphBuilder b("step");
  const Value w = b.input("w", f64), c = b.input("c", f64), d = b.input("d", f64);
  Graph body = b.build({ops::mul(ops::sin(c), w), ops::exp(d)});
  for (std::uint32_t depth = 1; depth < deepest_scans; ++depth) {
    GraphBuilder outer("step");
    const std::vector<Value> operands{outer.input("w", f64), outer.input("c", f64), outer.input("d", f64)};
    const Values results = ops::scan(body, operands, {1, depth % 2 == 0, 1, 2});
    body = outer.build({results[0], results[1]});
  }
  const std::size_t read[] = {0};
  const Graph f = with_outputs(body, read);
  const std::vector<Tensor> inputs{Tensor::scalar(0.9), Tensor::scalar(0.7), Tensor::scalar(0.5)};
  CHECK(cpu().run(f, inputs)[0].item<double>() == std::sin(0.7) * 0.9);
  CHECK(cpu().run(grad(f), inputs)[1].item<double>() == std::cos(0.7) * 0.9);
  Graph at = eliminate_dead_code(f);
  for (std::uint32_t depth = 1; depth < deepest_scans; ++depth) {
    REQUIRE(at.num_operations() == 1);
    CHECK(at.operation(0).num_inputs() == 2);
    at = at.operation(0).op().graph("body");
  }
  CHECK(at.num_operations() == 2);
}
