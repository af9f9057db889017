// Conds in conds, as deep as graphs may nest, with their derivatives on a small stack.
#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;

TEST_CASE("conds in conds, as deep as graphs may nest") {
  GraphBuilder b("branch"), o("other", standard_primitives());
  const auto inputs = [](GraphBuilder& builder) {
    return std::vector{builder.input("index", bool_), builder.input("w", f64), builder.input("x", f64)};
  };
  const std::vector<Value> first = inputs(b), second = inputs(o);
  Graph branch = b.build({ops::mul(ops::sin(first[2]), first[1])});
  const Graph other = o.build({ops::add(second[1], second[2])});
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  const std::uint32_t deepest = 10;  // frames are several times as large
#else
  const std::uint32_t deepest = 50;
#endif
  for (std::uint32_t depth = 1; depth < deepest; ++depth) {
    GraphBuilder outer("branch");
    const std::vector<Value> operands = inputs(outer);
    branch = outer.build({ops::cond(operands[0], std::vector{other, branch}, operands)[0]});
  }
  const Tensor at = Tensor::scalar(0.7), weight = Tensor::scalar(0.9);
  for (const bool taken : {true, false}) {
    const Tensor index = Tensor::scalar(bool_, taken ? 1 : 0);
    CHECK(cpu().run(branch, {index, weight, at})[0].item<double>() ==
          (taken ? std::sin(0.7) * 0.9 : 0.9 + 0.7));
    const std::vector<Tensor> gradients = cpu().run(grad(branch), {index, weight, at});
    CHECK(gradients[0].item<double>() == (taken ? std::sin(0.7) : 1.0));
    CHECK(gradients[1].item<double>() == (taken ? std::cos(0.7) * 0.9 : 1.0));
    CHECK(reference().run(grad(branch), {index, weight, at})[0].item<double>() ==
          gradients[0].item<double>());
  }
}

TEST_CASE(
    "cond: branches that keep many values of several types hand out as many of each as one of them needs") {
  const auto count = static_cast<std::size_t>(test::scaled(20000));
  // So many scalars and vectors of three, each of which its sine keeps.
  const auto branch_of = [](std::size_t scalars, std::size_t vectors) {
    GraphBuilder b("branch");
    Value x = b.input("x", f64);
    Value v = ops::broadcast_scalar(x, {3});
    for (std::size_t i = 0; i < std::max(scalars, vectors); ++i) {
      if (i < scalars) x = ops::sin(ops::add(x, ops::full_like(x, 0.01)));
      if (i < vectors) v = ops::sin(ops::add(v, ops::full_like(v, 0.01)));
    }
    return b.build({ops::add(x, ops::reduce_sum(v, {0}))});
  };
  GraphBuilder g("chosen");
  const Value index = g.input("index", bool_), x = g.input("x", f64);
  const std::vector<Graph> branches{branch_of(count, 2), branch_of(count / 2, 5)};
  const Graph chosen = g.build({ops::cond(index, branches, std::vector{x})[0]});
  const Graph derivative = jvp(chosen, {"x"});
  std::size_t most = 0;
  for (std::size_t i = 0; i < derivative.num_operations(); ++i) {
    if (derivative.operation(i).name() == prim::cond.name)
      most = std::max(most, derivative.operation(i).num_outputs());
  }
  CHECK(most >= count);
  CHECK(most <= count + 16);
  for (const bool second : {false, true}) {
    double value = 0.7, slope = 1.0, vector = 0.7, of_vector = 3.0;
    for (std::size_t i = 0; i < (second ? count / 2 : count); ++i) {
      slope *= std::cos(value + 0.01);
      value = std::sin(value + 0.01);
    }
    for (std::size_t i = 0; i < (second ? 5 : 2); ++i) {
      of_vector *= std::cos(vector + 0.01);
      vector = std::sin(vector + 0.01);
    }
    const Tensor flag = Tensor::scalar(bool_, second ? 1 : 0), at = Tensor::scalar(0.7);
    const std::vector<Tensor> results = cpu().run(derivative, {flag, at, Tensor::scalar(1.0)});
    CHECK(results[0].item<double>() == doctest::Approx(value + 3.0 * vector).epsilon(1e-12));
    CHECK(results[1].item<double>() == doctest::Approx(slope + of_vector).epsilon(1e-12));
  }
}
