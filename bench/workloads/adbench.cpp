// adbench.cpp - ADBench's bundle adjustment, hand tracking and D-LSTM, as examples/adbench writes them.
#include <cmath>
#include <memory>
#include <set>
#include <stdexcept>

#include "adbench/problem.hpp"
#include "bounds.hpp"
#include "lstm_bound.hpp"
#include "workload.hpp"

namespace workloads {
namespace {

using tidu::cpu_detail::GemmType;
using Bound = std::function<Bounds(const adbench::Problem& problem, bool derivative, int threads)>;

// The inputs, read once, and the results written for every observation.
Bounds bound_of_ba(const adbench::Problem& problem, bool derivative, int threads) {
  const auto p = static_cast<std::size_t>(problem.dims[2].second);
  const std::size_t columns = derivative ? 31 : 3;
  std::size_t inputs = 0;
  for (const tidu::Tensor& input : problem.inputs) inputs += input.num_bytes();
  return {memory_moved(inputs, p * columns * sizeof(double), threads)};
}

// The surface where it is wanted, and its derivatives in all directions that move it otherwise than as a
// whole, each one matmul.
Bounds bound_of_hand(const adbench::Problem& problem, bool derivative, int threads) {
  constexpr std::int64_t bones = 22, turning = 23;  // of 26 directions
  const bool complicated = problem.name != "HAND";
  const auto vertices = problem.inputs.back().elements<std::int32_t>();
  const auto columns =
      static_cast<std::int64_t>(std::set<std::int32_t>(vertices.begin(), vertices.end()).size());
  const std::int64_t rows = 3 * (!derivative ? 1 : complicated ? 1 + turning : turning);
  return matmuls_alone(GemmType::f64, {{.m = rows, .n = columns, .k = 4 * bones}}, threads);
}

using Rows = std::vector<double>;

// Rows of a tensor, each filled up to lstm_width numbers.
Rows rows_of(const tidu::Tensor& tensor, double filling) {
  const auto bits = static_cast<std::size_t>(tensor.shape().back()),
             width = static_cast<std::size_t>(lstm_width);
  Rows rows(static_cast<std::size_t>(tensor.size()) / bits * width, filling);
  const auto elements = tensor.elements<double>();
  for (std::size_t i = 0; i < elements.size(); ++i) rows[i / bits * width + i % bits] = elements[i];
  return rows;
}

// Compared with the values in `expected` first: a wrong gradient is no bound.
std::function<void()> bound_of_lstm(const adbench::Problem& problem, bool derivative,
                                    const std::vector<tidu::Tensor>& expected) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) return {};
#endif
  struct State {
    LstmByHand p{};
    Rows main, extra, state, sequence, kept, outputs, main_gradient, extra_gradient;
  };
  const auto s = std::make_shared<State>();
  const std::int64_t layers = problem.dims[0].second, steps = problem.dims[1].second - 1,
                     bits = problem.dims[2].second;
  if (layers > 8 || bits > lstm_width) return {};
  s->main = rows_of(problem.inputs[0], 0);
  s->extra = rows_of(problem.inputs[1], 0);
  for (std::size_t j = static_cast<std::size_t>(bits); j < lstm_width; ++j)
    s->extra[2 * lstm_width + j] = -1000;
  s->state = rows_of(problem.inputs[2], 0);
  s->sequence = rows_of(problem.inputs[3], 0);
  s->kept.resize(static_cast<std::size_t>((steps + 1) * layers * 7 * lstm_width));
  s->outputs.resize(static_cast<std::size_t>(steps * lstm_width));
  s->main_gradient.resize(s->main.size());
  s->extra_gradient.resize(s->extra.size());
  s->p = {layers,
          steps,
          bits,
          s->main.data(),
          s->extra.data(),
          s->state.data(),
          s->sequence.data(),
          s->kept.data(),
          s->outputs.data(),
          s->main_gradient.data(),
          s->extra_gradient.data()};

  const double loss = lstm_by_hand(s->p, derivative);
  const auto compare = [](double got, double wanted) {
    if (!(std::abs(got - wanted) <= 1e-9))
      throw std::runtime_error("the D-LSTM by hand computes something else");
  };
  if (!derivative) {
    compare(loss, expected[0].data<double>()[0]);
  } else {
    for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
      const Rows wanted = rows_of(expected[which], 0),
                 &got = which == 0 ? s->main_gradient : s->extra_gradient;
      for (std::size_t i = 0; i < got.size(); ++i) compare(got[i], wanted[i]);
    }
  }
  return [s, derivative] { lstm_by_hand(s->p, derivative); };
}

void add(Registry& registry, const std::string& name,
         const std::function<adbench::Problem(const std::filesystem::path& file)>& read, const Bound& bound) {
  for (const bool derivative : {false, true}) {
    registry[name + (derivative ? "/derivative" : "/objective")] = [=](const Setting& setting) {
      const adbench::Problem problem = read(setting.inputs / (name + ".txt"));
      const tidu::Graph& graph = derivative ? problem.derivative : problem.objective;
      Workload workload = of_graph(graph, problem.inputs, setting);
      if (bound) workload.bounds = bound(problem, derivative, setting.threads);
      if (problem.name == "LSTM") {
        Setting apart = setting;  // its growth in the first run is to be measured
        apart.own_memory = true;
        const std::function<void()> by_hand =
            bound_of_lstm(problem, derivative, of_graph(graph, problem.inputs, apart).results());
        if (by_hand) workload.bounds.push_back(by_hand);
      }
      return workload;
    };
  }
}

}  // namespace

void add_adbench(Registry& registry) {
  for (const char* name : {"ba1", "ba2", "ba3"}) add(registry, name, adbench::read_ba, bound_of_ba);
  for (const bool complicated : {false, true}) {
    for (const char* count : {"c100", "c800"}) {
      add(
          registry, std::string(complicated ? "hand_complicated_small_" : "hand_simple_small_") + count,
          [complicated](const std::filesystem::path& file) {
            return adbench::read_hand(file, file.parent_path() / "model", complicated);
          },
          bound_of_hand);
    }
  }
  for (const char* name : {"lstm_l2_c1024", "lstm_l4_c1024"}) {
    add(registry, name,
        [](const std::filesystem::path& file) { return adbench::read_lstm(file, adbench::LstmForm::flat); },
        {});
  }
}

}  // namespace workloads
