// eager.cpp - eager/record, eager/forward, eager/backward and eager/mlp_tiny of libtorch, in one thread. The
// chain repeats y x; sin y; y + x; tanh y from x = 0.7, in f64 scalars, as bench/chain.cpp does; inputs are
// made, and results destroyed, outside the timed part. ns_per_op is time by N, for eager/mlp_tiny time by
// training step. Every result is compared with that of plain loops, outside the time.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kStart = 0.7;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void report(benchmark::State& state, double seconds, std::int64_t operations) {
  state.counters["ns_per_op"] =
      seconds * 1e9 / (static_cast<double>(state.iterations()) * static_cast<double>(operations));
}

at::Tensor input() { return at::scalar_tensor(kStart, at::kDouble).set_requires_grad(true); }

at::Tensor chain(const at::Tensor& x, std::int64_t operations) {
  at::Tensor y = x;
  for (std::int64_t i = 0; i < operations; ++i) {
    switch (i % 4) {
      case 0: y = at::mul(y, x); break;
      case 1: y = at::sin(y); break;
      case 2: y = at::add(y, x); break;
      default: y = at::tanh(y); break;
    }
  }
  return y;
}

struct Expected {
  double value;
  double derivative;
};

Expected expected(std::int64_t operations) {
  const double x = kStart;
  double y = x;
  double dy = 1.0;
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

void check(benchmark::State& state, const at::Tensor& got, double wanted) {
  if (!(std::abs(got.item<double>() - wanted) <= 1e-12 * std::abs(wanted)))
    state.SkipWithError("wrong result");
}

// Runs the chain once per iteration; its result, with all that was recorded, is destroyed outside the time.
void time_chain(benchmark::State& state, std::int64_t operations, bool recording) {
  const c10::AutoGradMode mode(recording);
  const at::Tensor x = input();
  // Several rounds, since at 1,000,000 operations the C library's malloc takes two to sort the freed blocks.
  for (int round = 0; round < 3; ++round) check(state, chain(x, operations), expected(operations).value);
  double total = 0.0;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    std::optional result(chain(x, operations));
    total += seconds_since(start);
    benchmark::DoNotOptimize(result);
    state.PauseTiming();
    result.reset();
    state.ResumeTiming();
  }
  report(state, total, operations);
}

void backward(benchmark::State& state, std::int64_t operations) {
  at::Tensor x = input();
  const at::Tensor y = chain(x, operations);
  const at::Tensor seed = at::ones_like(y);
  y.backward(seed, /*retain_graph=*/true);
  check(state, x.grad(), expected(operations).derivative);
  double total = 0.0;
  for (auto _ : state) {
    state.PauseTiming();
    x.mutable_grad().reset();
    state.ResumeTiming();
    const Clock::time_point start = Clock::now();
    y.backward(seed, /*retain_graph=*/true);
    total += seconds_since(start);
  }
  report(state, total, operations);
}

// A multilayer perceptron 2-16-16-1 with tanh, the mean of squared errors and plain gradient descent, in f32.
class Mlp {
 public:
  Mlp() {
    at::manual_seed(1);
    constexpr std::array<std::int64_t, 4> widths{2, 16, 16, 1};
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
      const double scale = 1.0 / std::sqrt(static_cast<double>(widths[layer]));
      parameters_[2 * layer] =
          at::randn({widths[layer], widths[layer + 1]}).mul_(scale).set_requires_grad(true);
      parameters_[2 * layer + 1] = at::zeros({widths[layer + 1]}).set_requires_grad(true);
    }
    inputs_ = at::randn({32, 2});
    targets_ = at::sin(inputs_.sum(1, /*keepdim=*/true));
  }

  at::Tensor loss() const {
    const auto& [w1, b1, w2, b2, w3, b3] = parameters_;
    const at::Tensor hidden1 = at::addmm(b1, inputs_, w1).tanh_();
    const at::Tensor hidden2 = at::addmm(b2, hidden1, w2).tanh_();
    return at::mse_loss(at::addmm(b3, hidden2, w3), targets_);
  }

  void step() {
    loss().backward();
    const c10::NoGradGuard guard;
    for (at::Tensor& parameter : parameters_) {
      parameter.sub_(parameter.grad(), 0.05);
      parameter.mutable_grad().reset();
    }
  }

 private:
  std::array<at::Tensor, 6> parameters_;
  at::Tensor inputs_;
  at::Tensor targets_;
};

void mlp_tiny(benchmark::State& state) {
  Mlp mlp;
  const double before = mlp.loss().item<double>();
  for (int i = 0; i < 100; ++i) mlp.step();
  if (!(mlp.loss().item<double>() < 0.5 * before)) state.SkipWithError("the loss does not fall");
  const Clock::time_point start = Clock::now();
  for (auto _ : state) mlp.step();
  report(state, seconds_since(start), 1);
}

template <class Function>
void add(const std::string& name, Function&& function) {
  benchmark::RegisterBenchmark(name.c_str(), function)->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  for (const std::int64_t n : {10000, 1000000}) {
    const std::string suffix = std::to_string(n) + "/libtorch";
    add("eager/record/" + suffix, [n](benchmark::State& state) { time_chain(state, n, true); });
    add("eager/forward/" + suffix, [n](benchmark::State& state) { time_chain(state, n, false); });
    add("eager/backward/" + suffix, [n](benchmark::State& state) { backward(state, n); });
  }
  add("eager/mlp_tiny/libtorch", mlp_tiny);
  benchmark::AddCustomContext("torch", TORCH_VERSION);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
