// value_and_grad of graphs with outputs after the one that is differentiated.
#include <doctest/doctest.h>

#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace {

TEST_CASE("outputs after the first are returned unchanged if they are declared") {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {3}}), n = g.input("n", i32);
  const Graph f = g.build({ops::reduce_sum(ops::square(x), {0}), ops::exp(x), ops::neg(n)});
  const Derivative both = value_and_grad_parts(f, {"x"}, {.has_aux = true});
  CHECK(both.first == 3);
  REQUIRE(both.graph.outputs().size() == 4);
  const Tensor at = Tensor::from<double>({3}, {1, 2, 3});
  const std::vector<Tensor> results = cpu().run(both.graph, {at, Tensor::scalar(std::int32_t{7})});
  CHECK(results[0].item<double>() == 14);
  CHECK(results[1].data<double>()[0] == doctest::Approx(2.718281828459045));
  CHECK(results[2].item<std::int32_t>() == -7);
  for (std::size_t i = 0; i < 3; ++i) CHECK(results[3].data<double>()[i] == 2.0 * static_cast<double>(i + 1));
  CHECK(grad(f, {"x"}, {.has_aux = true}).outputs().size() == 1);

  // No cotangent goes through them, where the linear graph is transformed, either.
  GraphBuilder r("roots");
  const Value y = r.input("y", {f64, {3}}), z = r.input("z", {f64, {3}});
  const Graph roots = r.build({ops::reduce_sum(y, {0}), ops::add(ops::sqrt(y), z)});
  const Derivative changed = value_and_grad_parts(
      roots, {}, {.linear_transform = [](const Graph& linear) { return linear; }, .has_aux = true});
  CHECK(changed.present == std::vector<bool>{true, false});
  const Tensor zeros = Tensor::zeros(Type(f64, {3}));
  CHECK(cpu().run(changed.graph, {zeros, zeros})[2].data<double>()[0] == 1);

  CHECK_THROWS_WITH_AS(value_and_grad(f, {"x"}),
                       "grad: expected \"f\" to have one floating scalar output, got 3 outputs", Error);
  GraphBuilder h("h");
  const Value v = h.input("v", {f64, {3}});
  CHECK_THROWS_WITH_AS(value_and_grad(h.build({v, ops::reduce_sum(v, {0})}), {"v"}, {.has_aux = true}),
                       "grad: expected \"h\" to have a floating scalar as its first output, got f64[3]",
                       Error);
}

}  // namespace
}  // namespace tidu
