// elementwise.cpp - workloads bound by memory and vector functions: the chain of ten operations, softmax and
// layer norm.
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <tidu/frontend/functions.hpp>
#include <tidu/frontend/trace.hpp>
#include <tidu/linearize/transforms.hpp>

#include "bounds.hpp"
#include "cpu/parallel.hpp"
#include "one_pass.hpp"
#include "workload.hpp"

namespace workloads {
namespace {

using namespace tidu;

Array chain(const Array& x) {
  const Array c = square(x);
  return sum(tanh(sin(x) * x + exp(-c)) * sqrt(c + 1));
}

void compare(const std::vector<Tensor>& expected, const std::vector<float>& sums, const Tensor& gradient) {
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  bool agrees = std::abs(sum - static_cast<double>(expected[0].data<float>()[0])) <= 1e-4 * std::abs(sum);
  for (std::size_t i = 0; i < static_cast<std::size_t>(gradient.size()); ++i)
    agrees = agrees && std::abs(gradient.data<float>()[i] - expected[1].data<float>()[i]) <= 1e-4F;
  if (!agrees) throw std::runtime_error("the chain by hand computes something else");
}

// The hand-fused pass over all elements, in each of its forms. The first run is compared with `expected`, the
// sum and its gradient: a pass with other results is no bound.
void add_one_pass(Workload& workload, const Tensor& x, int threads) {
  struct State {
    Tensor x, gradient;
    std::vector<float> sums;
    bool compared = false;
  };
  constexpr std::int64_t grain = 1 << 14;
  const auto count = x.size();
  for (const bench::OnePass pass : bench::one_passes()) {
    const auto state = std::make_shared<State>(
        State{x, Tensor(x.type()), std::vector<float>(static_cast<std::size_t>(count / grain))});
    workload.bounds.push_back([=, expected = workload.results] {
      const float* const from = state->x.data<float>();
      float* const to = state->gradient.mutable_data<float>();
      cpu_detail::parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
        state->sums[static_cast<std::size_t>(begin / grain)] =
            pass(from + begin, to + begin, end - begin, true);
      });
      if (!state->compared) compare(expected(), state->sums, state->gradient);
      state->compared = true;
    });
  }
}

Workload elementwise10(const Setting& setting) {
  InputFile file(setting, "elementwise10");
  const Tensor x = file.next({f32, {std::int64_t{1} << 20}});
  file.end();
  Workload workload = of_graph(value_and_grad(trace(chain, x.type())), {x}, setting);
  add_one_pass(workload, x, setting.threads);
  return workload;
}

constexpr std::int64_t rows = 4096, columns = 1024;
constexpr std::size_t bytes_of_array = static_cast<std::size_t>(rows * columns) * sizeof(float);

// Value, and gradients for a fixed cotangent.
Workload softmax_rows(const Setting& setting) {
  InputFile file(setting, "softmax");
  const Tensor x = file.next({f32, {rows, columns}}), cotangent = file.next({f32, {rows, columns}});
  file.end();
  const auto f = [](const Array& a) { return softmax(a); };
  Workload workload = of_graph(vjp(trace(f, x.type())), {x, cotangent}, setting);
  workload.bounds.push_back(memory_moved(2 * bytes_of_array, 2 * bytes_of_array, setting.threads));
  return workload;
}

Workload layer_norm(const Setting& setting) {
  InputFile file(setting, "layer_norm");
  const Tensor x = file.next({f32, {rows, columns}}), weight = file.next({f32, {columns}}),
               bias = file.next({f32, {columns}}), cotangent = file.next({f32, {rows, columns}});
  file.end();
  const auto f = [](const Array& a, const Array& w, const Array& b) {
    const Array centred = a - mean(a, -1, true);
    return centred * rsqrt(mean(square(centred), -1, true) + 1e-5) * w + b;
  };
  Workload workload =
      of_graph(vjp(trace(f, x.type(), weight.type(), bias.type())), {x, weight, bias, cotangent}, setting);
  workload.bounds.push_back(memory_moved(2 * bytes_of_array, 2 * bytes_of_array, setting.threads));
  return workload;
}

}  // namespace

void add_elementwise(Registry& registry) {
  registry["elementwise10"] = elementwise10;
  registry["softmax"] = softmax_rows;
  registry["layer_norm"] = layer_norm;
}

}  // namespace workloads
