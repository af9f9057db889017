// eager.cpp - eager/record, eager/forward, eager/backward and eager/mlp_tiny through Array, in one thread;
// the names and the computations are those of bench/libtorch. The chain repeats y x; sin y; y + x; tanh y
// from x = 0.7, in f64 scalars. Inputs are made, and results destroyed, outside the timed part. ns_per_op is
// time by N, for eager/mlp_tiny time by training step.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/modes.hpp"

namespace {

using tidu::Array;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void report(benchmark::State& state, double seconds, std::int64_t operations) {
  state.counters["ns_per_op"] =
      seconds * 1e9 / (static_cast<double>(state.iterations()) * static_cast<double>(operations));
}

Array chain(const Array& x, std::int64_t operations) {
  Array y = x;
  for (std::int64_t i = 0; i < operations; ++i) {
    switch (i % 4) {
      case 0: y = y * x; break;
      case 1: y = sin(y); break;
      case 2: y = y + x; break;
      default: y = tanh(y); break;
    }
  }
  return y;
}

// The value and the derivative of the chain at 0.7, by plain loops.
std::pair<double, double> expected(std::int64_t operations) {
  const double x = 0.7;
  double y = x, dy = 1.0;
  for (std::int64_t i = 0; i < operations; ++i) {
    switch (i % 4) {
      case 0: dy = dy * x + y, y *= x; break;
      case 1: dy *= std::cos(y), y = std::sin(y); break;
      case 2: dy += 1.0, y += x; break;
      default: y = std::tanh(y), dy *= 1.0 - y * y; break;
    }
  }
  return {y, dy};
}

void check(benchmark::State& state, const Array& got, double wanted) {
  if (!(std::abs(got.item() - wanted) <= 1e-12 * std::abs(wanted))) state.SkipWithError("wrong result");
}

void time_chain(benchmark::State& state, bool recording) {
  const std::int64_t operations = state.range(0);
  const tidu::GradMode mode(recording);
  Array x(0.7);
  x.set_requires_grad();
  for (int round = 0; round < 2; ++round) check(state, chain(x, operations), expected(operations).first);
  double total = 0.0;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    std::optional<Array> result(chain(x, operations));
    total += seconds_since(start);
    benchmark::DoNotOptimize(result);
    state.PauseTiming();
    result.reset();
    state.ResumeTiming();
  }
  report(state, total, operations);
}

void record(benchmark::State& state) { time_chain(state, true); }
void forward(benchmark::State& state) { time_chain(state, false); }

void backward(benchmark::State& state) {
  const std::int64_t operations = state.range(0);
  Array x(0.7);
  x.set_requires_grad();
  const Array y = chain(x, operations), seed(1.0);
  tidu::BackwardOptions options;
  options.keep_graph = true;
  y.backward(seed, options);
  check(state, *x.grad(), expected(operations).second);
  double total = 0.0;
  for (auto _ : state) {
    state.PauseTiming();
    x.zero_grad();
    state.ResumeTiming();
    const Clock::time_point start = Clock::now();
    y.backward(seed, options);
    total += seconds_since(start);
  }
  report(state, total, operations);
}

// A multilayer perceptron 2-16-16-1 with tanh, the mean of squared errors and plain gradient descent, in f32.
class Mlp {
 public:
  Mlp() : inputs_(random({32, 2}, 1.0)), targets_(sin(inputs_.sum(1, true))) {
    const std::int64_t widths[] = {2, 16, 16, 1};
    for (std::size_t layer = 0; layer < 3; ++layer) {
      parameters_.push_back(
          random({widths[layer], widths[layer + 1]}, 1.0 / std::sqrt(static_cast<double>(widths[layer]))));
      parameters_.push_back(tidu::zeros({widths[layer + 1]}, tidu::f32));
    }
    for (Array& parameter : parameters_) parameter.set_requires_grad();
  }

  Array loss() const {
    const std::vector<Array>& p = parameters_;
    const Array hidden1 = tanh(matmul(inputs_, p[0]) + p[1]);
    const Array hidden2 = tanh(matmul(hidden1, p[2]) + p[3]);
    return mean(square(matmul(hidden2, p[4]) + p[5] - targets_));
  }

  void step() {
    loss().backward();
    const tidu::NoGrad guard;
    for (Array& parameter : parameters_) {
      parameter -= 0.05 * *parameter.grad();
      parameter.zero_grad();
    }
  }

 private:
  Array random(const tidu::Shape& shape, double scale) {
    std::normal_distribution<float> normal(0.0F, static_cast<float>(scale));
    std::vector<float> numbers(static_cast<std::size_t>(tidu::num_elements(shape)));
    for (float& number : numbers) number = normal(engine_);
    return tidu::array(numbers, shape);
  }

  std::mt19937 engine_{1};
  Array inputs_, targets_;
  std::vector<Array> parameters_;
};

void mlp_tiny(benchmark::State& state) {
  Mlp mlp;
  const double before = mlp.loss().item();
  for (int i = 0; i < 200; ++i) mlp.step();
  if (!(mlp.loss().item() < 0.5 * before)) state.SkipWithError("the loss does not fall");
  double total = 0.0;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    mlp.step();
    total += seconds_since(start);
  }
  report(state, total, 1);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(10000)->Arg(1000000)->Unit(benchmark::kMicrosecond);
}

BENCHMARK(record)->Name("eager/record")->Apply(sizes);
BENCHMARK(forward)->Name("eager/forward")->Apply(sizes);
BENCHMARK(backward)->Name("eager/backward")->Apply(sizes);
BENCHMARK(mlp_tiny)->Name("eager/mlp_tiny")->Unit(benchmark::kMicrosecond);

}  // namespace
