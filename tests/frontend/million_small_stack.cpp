// million_small_stack.cpp - a chain of a million operations of Arrays, recorded, run backward, traced and
// destroyed on a stack of 512 KiB.
#include "support.hpp"

namespace tidu::test {
namespace {

Array chain(const Array& x, std::size_t operations) {
  Array y = x;
  for (std::size_t i = 0; i < operations; i += 2) {
    y = y * x;
    y = sin(y) + x;
  }
  return y;
}

double derivative(double x, std::size_t operations) {
  double y = x, dy = 1.0;
  for (std::size_t i = 0; i < operations; i += 2) {
    dy = dy * x + y, y *= x;
    dy = dy * std::cos(y) + 1.0, y = std::sin(y) + x;
  }
  return dy;
}

TEST_CASE("a million operations on the tape") {
  const std::size_t operations = scaled(1000000);
  Array x(0.7);
  x.set_requires_grad();
  chain(x, operations).backward();
  CHECK(x.grad()->item() == doctest::Approx(derivative(0.7, operations)).epsilon(1e-12));
  const Array dropped = chain(x, operations);  // destroyed without backward
  CHECK(dropped.requires_grad());
}

TEST_CASE("a hundred thousand operations traced") {
  const std::size_t operations = scaled(100000);
  const Graph graph = trace([&](const Array& x) { return chain(x, operations); }, f64);
  CHECK(graph.num_operations() == operations / 2 * 3);
  CHECK(call_graph(grad(graph), {Array(0.7)})[0].item() ==
        doctest::Approx(derivative(0.7, operations)).epsilon(1e-12));
}

}  // namespace
}  // namespace tidu::test
