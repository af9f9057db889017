// chain.cpp - chain/build, chain/linearize, chain/transpose and chain/run: the cost of a graph by operation.
// The chain repeats y x; sin y; y + x; tanh y from an input x, in f64 scalars, so that no two of its
// operations are equal. Each benchmark times its own step alone: inputs are made, and results destroyed,
// outside the timed part. ns_per_op is time by N.
#include <benchmark/benchmark.h>

#include <chrono>
#include <optional>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/linearize.hpp"
#include "tidu/linearize/transpose.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace {

using Clock = std::chrono::steady_clock;

// Runs `step` once per iteration; its result is destroyed outside the time.
template <class Step>
void time_step(benchmark::State& state, Step&& step) {
  const auto operations = static_cast<double>(state.range(0));
  double total = 0.0;
  { const auto warm_up = step(); }  // the first touch of fresh pages is the system's time
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    std::optional result(step());
    total += std::chrono::duration<double>(Clock::now() - start).count();
    benchmark::DoNotOptimize(result);
    state.PauseTiming();
    result.reset();
    state.ResumeTiming();
  }
  state.counters["ns_per_op"] = total * 1e9 / (static_cast<double>(state.iterations()) * operations);
}

tidu::Graph chain(std::int64_t operations) {
  tidu::GraphBuilder builder("chain");
  const tidu::Value x = builder.input("x", tidu::f64);
  tidu::Value y = x;
  for (std::int64_t i = 0; i < operations; ++i) {
    switch (i % 4) {
      case 0: y = y * x; break;
      case 1: y = tidu::ops::sin(y); break;
      case 2: y = y + x; break;
      default: y = tidu::ops::tanh(y); break;
    }
  }
  return builder.build({y});
}

void build(benchmark::State& state) {
  time_step(state, [&state] { return chain(state.range(0)); });
}

void linearize(benchmark::State& state) {
  const tidu::Graph graph = chain(state.range(0));
  time_step(state, [&graph] { return tidu::linearize(graph); });
}

void transpose(benchmark::State& state) {
  const tidu::Linearization linearization = tidu::linearize(chain(state.range(0)));
  time_step(state, [&linearization] { return tidu::linear_transpose(linearization.linear); });
}

void run(benchmark::State& state) {
  tidu::CpuOptions options;
  options.threads = 1;
  const tidu::Executable executable = tidu::CpuExecutor(options).compile(chain(state.range(0)));
  const std::vector<tidu::Tensor> inputs{tidu::Tensor::scalar(0.7)};
  time_step(state, [&] { return executable.run(inputs); });
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(10000)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMicrosecond);
}

BENCHMARK(build)->Name("chain/build")->Apply(sizes);
BENCHMARK(linearize)->Name("chain/linearize")->Apply(sizes);
BENCHMARK(transpose)->Name("chain/transpose")->Apply(sizes);
BENCHMARK(run)->Name("chain/run")->Apply(sizes);

}  // namespace
