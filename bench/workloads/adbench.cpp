// adbench.cpp - ADBench's bundle adjustment, hand tracking and D-LSTM, as examples/adbench writes them.
#include "adbench/problem.hpp"
#include "bounds.hpp"
#include "workload.hpp"

namespace workloads {
namespace {

using tidu::cpu_detail::GemmType;
using Bound =
    std::function<std::function<void()>(const adbench::Problem& problem, bool derivative, int threads)>;

// What is read and what is written of every observation, once.
std::function<void()> bound_of_ba(const adbench::Problem& problem, bool derivative, int threads) {
  const auto p = static_cast<std::size_t>(problem.dims[2].second);
  const std::size_t columns = derivative ? 31 : 3;
  return memory_moved(p * (11 + 3 + 1 + 2 + 1) * sizeof(double), p * columns * sizeof(double), threads);
}

// The surface, and its derivatives in all directions, each one product.
std::function<void()> bound_of_hand(const adbench::Problem& problem, bool derivative, int threads) {
  constexpr std::int64_t bones = 22, angles = 26;
  const std::int64_t vertices = problem.dims[2].second;
  const std::int64_t rows = 3 * (derivative ? 1 + angles : 1);
  return products_alone(GemmType::f64, {{.m = rows, .n = vertices, .k = 4 * bones}}, threads);
}

void add(Registry& registry, const std::string& name,
         const std::function<adbench::Problem(const std::filesystem::path& file)>& read, const Bound& bound) {
  for (const bool derivative : {false, true}) {
    registry[name + (derivative ? "/derivative" : "/objective")] = [=](const Setting& setting) {
      const adbench::Problem problem = read(setting.inputs / (name + ".txt"));
      Workload workload =
          of_graph(derivative ? problem.derivative : problem.objective, problem.inputs, setting);
      if (bound) workload.bounds.push_back(bound(problem, derivative, setting.threads));
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
