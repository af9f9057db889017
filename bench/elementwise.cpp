// elementwise.cpp - the chain of ten operations c = x^2, y = tanh(sin(x) x + e^-c) sqrt(c + 1) and its sum
// over 1,048,576 elements in f32: elementwise10/objective and elementwise10/derivative (value and gradient),
// by tidu and, with the suffix /bound, as one pass written by hand with the same vector functions. The last
// number is the number of threads; the bound has one.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "one_pass.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace {

using namespace tidu;

constexpr std::int64_t count = std::int64_t{1} << 20;

std::vector<float> elements() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-3, 3);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

Graph chain() {
  GraphBuilder builder("elementwise10");
  const Value x = builder.input("x", Type(f32, {count}));
  const Value c = ops::square(x);
  const Value inner = ops::add(ops::mul(ops::sin(x), x), ops::exp(ops::neg(c)));
  const Value y = ops::mul(ops::tanh(inner), ops::sqrt(ops::add(c, ops::full_like(c, 1.0))));
  return builder.build({ops::reduce_sum(y, {0})});
}

void run(benchmark::State& state, bool derivative, int threads) {
  CpuOptions options;
  options.threads = threads;
  const Graph graph = derivative ? value_and_grad(chain()) : chain();
  const Executable executable = cpu().with_options(options).compile(graph);
  const std::vector<Tensor> inputs = {Tensor::from<float>({count}, elements())};
  for (auto _ : state) benchmark::DoNotOptimize(executable.run(inputs));
  state.counters["peak_bytes"] = static_cast<double>(executable.program().peak_bytes());
}

void bound(benchmark::State& state, bool derivative) {
  const std::vector<float> x = elements();
  std::vector<float> gradient(count);
  const bench::OnePass pass = bench::one_passes().front();
  for (auto _ : state) {
    benchmark::DoNotOptimize(pass(x.data(), gradient.data(), count, derivative));
    benchmark::ClobberMemory();
  }
}

const bool registered = [] {
  for (const bool derivative : {false, true}) {
    const std::string name = std::string("elementwise10/") + (derivative ? "derivative" : "objective");
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark(
          (name + "/" + std::to_string(threads)).c_str(),
          [derivative, threads](benchmark::State& state) { run(state, derivative, threads); })
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    }
    if (bench::one_passes().empty()) continue;
    benchmark::RegisterBenchmark((name + "/bound").c_str(),
                                 [derivative](benchmark::State& state) { bound(state, derivative); })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
