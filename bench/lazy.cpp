// lazy.cpp - the cost of lazy mode and compile(f) beyond running a program: lazy/record is the time to record
// one operation; cache_hit/N that to find and call the program of a chain of N operations, beyond running it
// (`beyond_ns`; `run_ns` is the program alone); call that of a small compiled function. hot_loop/N is a loop
// that differentiates a chain of element-wise operations on N elements: plain, with hot paths, and with a
// compiled function (0, 1, 2).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/frontend/creation.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/hot_paths.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/frontend/transforms.hpp"

namespace {

using tidu::Array;
using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

Array chain(const Array& x, std::int64_t operations) {
  Array y = x;
  for (std::int64_t i = 0; i < operations; ++i) {
    switch (i % 4) {
      case 0: y = y * x; break;
      case 1: y = -y; break;
      case 2: y = y + x; break;
      default: y = y - 0.5; break;
    }
  }
  return y;
}

void record(benchmark::State& state) {
  const Array x(0.7);
  double best = 1e18;
  for (auto _ : state) {
    const tidu::Lazy lazy;
    const Clock::time_point start = Clock::now();
    Array y = chain(x, 100);
    best = std::min(best, ns_since(start));
    y = Array();
  }
  state.counters["best_ns_per_op"] = best / 100;
}

void cache_hit(benchmark::State& state) {
  const std::int64_t operations = state.range(0);
  const Array x(0.7);
  const auto graph = tidu::trace([&](const Array& v) { return chain(v, operations); }, tidu::f64);
  const tidu::Executable executable = tidu::cpu().compile(graph);
  const tidu::Tensor* inputs[] = {&x.tensor()};
  tidu::Tensor out;
  double hit = 1e18, run = 1e18;
  for (auto _ : state) {
    {
      const tidu::Lazy lazy;
      const Array y = chain(x, operations);
      const Clock::time_point start = Clock::now();
      benchmark::DoNotOptimize(y.tensor());
      hit = std::min(hit, ns_since(start));
    }
    const Clock::time_point start = Clock::now();
    executable.run_into(inputs, std::span(&out, 1));
    run = std::min(run, ns_since(start));
  }
  state.counters["run_ns"] = run;
  state.counters["beyond_ns"] = hit - run;
}

void call(benchmark::State& state) {
  const auto f = tidu::compile([](const Array& x, const Array& y) { return sin(x) * y + x; });
  Array x(0.7);
  if (state.range(0) != 0) x.set_requires_grad();
  const Array y(0.3);
  (void)f(x, y);
  double best = 1e18;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < 100; ++i) benchmark::DoNotOptimize(f(x, y));
    best = std::min(best, ns_since(start));
  }
  state.counters["best_ns_per_call"] = best / 100;
}

Array loss(const Array& x) {
  const Array y = tanh(x * 0.5 + 0.1);
  const Array z = exp(-y * y) * x + y;
  return sum(z * z - sin(z));
}

void hot_loop(benchmark::State& state) {
  Array x = tidu::linspace(-1.0, 1.0, state.range(0));
  const auto compiled = tidu::compile(tidu::value_and_grad(loss));
  std::optional<tidu::HotPaths> hot;
  if (state.range(1) == 1) hot.emplace();
  if (state.range(1) != 2) x.set_requires_grad();
  const auto step = [&] {
    if (state.range(1) == 2) return compiled(x).first.item();
    const Array value = loss(x);
    x.zero_grad();
    value.backward();
    return value.item();
  };
  for (int i = 0; i < 50; ++i) step();
  double best = 1e18;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < 10; ++i) benchmark::DoNotOptimize(step());
    best = std::min(best, ns_since(start));
  }
  state.counters["best_us_per_step"] = best / 10000;
}

}  // namespace

BENCHMARK(record)->Name("lazy/record");
BENCHMARK(cache_hit)->Name("cache_hit")->Arg(10)->Arg(100)->Arg(1000);
BENCHMARK(call)->Name("call")->ArgName("recorded")->Arg(0)->Arg(1);
BENCHMARK(hot_loop)->Name("hot_loop")->ArgNames({"n", "form"})->ArgsProduct({{10, 1000, 100000}, {0, 1, 2}});
