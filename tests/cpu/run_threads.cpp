// One Executable in several threads at once, with loops that are themselves cut over threads.
#include <thread>

#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

TEST_CASE("four threads run one executable") {
  GraphBuilder builder("shared");
  const Value x = builder.input("x", Type(f64, {200, 300}));
  const Value s = builder.input("s", f64);
  const Value y = ops::tanh(ops::mul(x, ops::broadcast_scalar(ops::sin(s), {200, 300})));
  const Value z = ops::dot_general(y, y, {{1}, {1}, {}, {}});
  const Graph graph = builder.build({ops::reduce_sum(z, {0, 1}), ops::transpose(y, {1, 0}), s});
  CpuOptions options;
  options.threads = 2;
  const Executable executable = CpuExecutor(options).compile(graph);
  std::mt19937_64 random(1);
  const Tensor in = random_tensor(graph.type(graph.inputs()[0]), {}, random);
  std::vector<std::vector<Tensor>> expected;
  for (int k = 0; k < 4; ++k) expected.push_back(executable.run({in, Tensor::scalar(0.1 * k)}));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      const auto at = static_cast<std::size_t>(k);
      for (int repeat = 0; repeat < 30; ++repeat) {
        const std::vector<Tensor> got = executable.run({in, Tensor::scalar(0.1 * k)});
        for (std::size_t i = 0; i < got.size(); ++i) {
          wrong[at] += std::memcmp(got[i].bytes(), expected[at][i].bytes(), got[i].num_bytes()) == 0 ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK(count == 0);
}
