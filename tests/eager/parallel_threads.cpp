// parallel_threads.cpp - gradients do not depend on the number of threads, to the last bit.
#include <random>

#include "support/support.hpp"

#include "support.hpp"

namespace tidu::test {
namespace {

// Layers of matmuls of random pairs, all summed: wide fan-in, and many nodes ready at once.
Var wide_program(Tape& tape, const std::vector<Var>& leaves, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Var> layer = leaves;
  for (int depth = 0; depth < 4; ++depth) {
    std::vector<Var> next;
    for (int i = 0; i < 24; ++i) {
      const Var& a = layer[random() % layer.size()];
      const Var& b = leaves[random() % leaves.size()];
      next.push_back(tape.apply<prim::sin>({tape.apply<prim::mul>({a, b})}));
    }
    layer = std::move(next);
  }
  Var sum = layer[0];
  for (std::size_t i = 1; i < layer.size(); ++i) sum = tape.apply<prim::add>({sum, layer[i]});
  return sum;
}

TEST_CASE("[P10] 1, 2 and 8 workers give the same bits") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-2, 2);
  for (std::size_t round = 0; round < scaled(20); ++round) {
    Tape tape;
    std::vector<Var> leaves;
    for (int i = 0; i < 5; ++i) leaves.push_back(tape.leaf(uniform(random)));
    const Var root = wide_program(tape, leaves, static_cast<std::uint32_t>(round));
    std::vector<double> expected;
    for (const int workers : {1, 2, 8, 2, 8}) {
      eager::BackwardOptions options;
      options.keep_graph = true;
      options.workers = workers;
      const Gradients<Tensor> gradients = backward(root, scalar(0.75), options);
      std::vector<double> got;
      for (const Var& leaf : leaves) got.push_back(item(gradients, leaf));
      if (expected.empty()) expected = got;
      CHECK(got == expected);
    }
  }
}

}  // namespace
}  // namespace tidu::test
