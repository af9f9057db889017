// while on a device: with a bound it is written out, with its gradient; without one it is refused.
#include <doctest/doctest.h>

#include "cpu/compare.hpp"
#include "cuda/machine.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::test {
namespace {

// x -> sin(w x) + x while |x|^2 < most.
Graph growing(std::optional<std::int64_t> bound) {
  const Type v40{f64, {40}};
  GraphBuilder s("step"), c("until"), g("f");
  const Value w = s.input("w", v40), x = s.input("x", v40);
  const Graph body = s.build({ops::add(ops::sin(ops::mul(w, x)), x)});
  (void)c.input("w", v40);
  const Value at = c.input("x", v40), norm = ops::reduce_sum(ops::mul(at, at), {0});
  const Graph cond = c.build({ops::lt(norm, ops::full_like(norm, 40))});
  const std::vector<Value> operands{g.input("w", v40), g.input("x", v40)};
  return g.build({ops::reduce_sum(ops::while_loop(cond, body, operands, {1, bound})[0], {0})});
}

TEST_CASE("A while with a bound and its gradient run on a device") {
  Machine machine;
  std::mt19937_64 random(3);
  const std::vector<Tensor> inputs{random_tensor(Type(f64, {40}), {0.5, 1}, random),
                                   random_tensor(Type(f64, {40}), {0.1, 0.3}, random)};
  for (const std::int64_t bound : {0, 2, 6}) {
    for (const Graph& graph : {growing(bound), grad(growing(bound))}) {
      const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
      const std::vector<Tensor> got = machine.cuda.compile(graph).run(std::span<const Tensor>(inputs));
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i], 100) == "");
    }
  }
}

TEST_CASE("A while without a bound is refused by a device, and says what to do") {
  Machine machine;
  const auto result = machine.cuda.try_compile(growing({}));
  REQUIRE(!result);
  CHECK(result.error().kind() == ErrorKind::execution);
  const std::string text = result.error().what();
  CHECK_MESSAGE(text.find("[while] expected a kernel for the device, got none for") != std::string::npos,
                text);
  CHECK_MESSAGE(text.find("Give this one max_steps") != std::string::npos, text);
}

}  // namespace
}  // namespace tidu::test
