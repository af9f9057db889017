// One Executable in several threads at once, with loops that are themselves split over threads.
#include <thread>

#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

namespace run_threads_cases {
namespace {

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

// Sums of so many elements, small ones and such as threads share.
void same_sums(std::int64_t rows, std::int64_t columns, int repeats) {
  GraphBuilder builder("sums");
  const Value x = builder.input("x", Type(f64, {1003, rows})),
              w = builder.input("w", Type(f64, {rows, columns}));
  const Value hidden = ops::tanh(ops::matmul(x, w));
  const Value product = ops::dot_general(x, hidden, {.lhs_contracting = {0}, .rhs_contracting = {0}});
  const Graph graph = builder.build({product, ops::reduce_sum(hidden, {0}), ops::reduce_max(hidden, {1})});
  ProgramOptions options;
  options.loop_bytes = 0;
  options.block_bytes = 680 * static_cast<std::size_t>(rows);
  const Program program = Program::make(graph, options);
  REQUIRE(program.schedule().loops.size() == 1);
  const BlockedLoop& loop = program.schedule().loops[0];
  CHECK(loop.extent / loop.block >= 8);
  std::mt19937_64 random(2);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  const std::vector<Tensor> expected = CpuExecutor(CpuOptions{.threads = 1}).compile(program).run(inputs);
  for (const int threads : {2, 3, 5}) {
    const Executable executable = CpuExecutor(CpuOptions{.threads = threads}).compile(program);
    int wrong = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const std::vector<Tensor> got = executable.run(inputs);
      for (std::size_t i = 0; i < got.size(); ++i)
        wrong += std::memcmp(got[i].bytes(), expected[i].bytes(), got[i].num_bytes()) == 0 ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads that add up sums of chunks give the bits of one") {
  same_sums(12, 20, 200);
  same_sums(90, 100, 3);
}

}  // namespace
}  // namespace run_threads_cases
