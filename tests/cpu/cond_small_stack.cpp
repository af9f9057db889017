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
