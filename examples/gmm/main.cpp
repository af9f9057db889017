// main.cpp - the program gmm: reads a problem of ADBench, differentiates the objective, runs both, and holds
// the whole gradient against reference values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <tidu/tidu.hpp>
#include <vector>

#include "objective.hpp"
#include "problem.hpp"

namespace {

using tidu::Graph;
using tidu::Tensor;
using Run = std::function<std::vector<Tensor>()>;

constexpr const char* usage =
    "usage: gmm FILE [--reference REF.json] [--repeat N] [--backend cpu|reference]\n"
    "Objective and gradient of the Gaussian mixture that FILE, in ADBench's format, describes.\n"
    "Exit status: 0; 2 for wrong arguments or files; 3 when a value is further than 1e-8 from that in "
    "REF.json.\n";

struct Arguments {
  std::string file, reference, backend = "cpu";
  int repeat = 10;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      if (!arguments.file.empty()) throw std::runtime_error("expected one FILE, got also " + word);
      arguments.file = word;
      continue;
    }
    if (++i == argc) throw std::runtime_error("expected a value after " + word);
    if (word == "--reference")
      arguments.reference = argv[i];
    else if (word == "--backend")
      arguments.backend = argv[i];
    else if (word == "--repeat")
      arguments.repeat = std::atoi(argv[i]);
    else
      throw std::runtime_error("unknown option " + word);
  }
  if (arguments.file.empty()) throw std::runtime_error("expected a FILE");
  if (arguments.repeat < 1) throw std::runtime_error("--repeat: expected a positive number");
  if (arguments.backend != "cpu" && arguments.backend != "reference")
    throw std::runtime_error("--backend: expected cpu or reference, got " + arguments.backend);
  return arguments;
}

// What runs `graph` on `inputs`: compiled once on the CPU, or interpreted.
Run runner(const Graph& graph, const std::vector<Tensor>& inputs, const std::string& backend) {
  if (backend == "reference") return [=] { return tidu::reference().run(graph, inputs); };
  return [executable = tidu::cpu().compile(graph), inputs] { return executable.run(inputs); };
}

// Median time in milliseconds of `repeat` calls.
double median_time(const Run& run, int repeat) {
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) {
    const auto from = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - from;
    times.push_back(passed.count());
  }
  std::nth_element(times.begin(), times.begin() + repeat / 2, times.end());
  return times[static_cast<std::size_t>(repeat / 2)];
}

// ADBench's measure of how far two values are apart; 1e-8 passes.
double distance(double a, double b) { return std::abs(a - b) / std::max(1.0, std::abs(a) + std::abs(b)); }

bool agrees(double objective, const std::vector<double>& gradient, const gmm::Expected& expected) {
  double worst = distance(objective, expected.objective);
  bool all = worst < 1e-8;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double apart = distance(gradient[i], expected.gradient[i]);
    all = all && apart < 1e-8;  // false for NaN too
    worst = std::max(worst, apart);
  }
  std::printf("  reference   %s: objective and %zu gradient entries, largest distance %.1e\n",
              all ? "agrees" : "DISAGREES", gradient.size(), worst);
  return all;
}

int run(const Arguments& arguments) {
  const gmm::Problem problem = gmm::read_problem(arguments.file);

  const Graph objective = gmm::objective(problem.D, problem.K, problem.N);
  const Graph derivative = tidu::value_and_grad(objective, {"alpha", "mu", "icf"});
  const Run run_objective = runner(objective, problem.inputs(), arguments.backend);
  const Run run_derivative = runner(derivative, problem.inputs(), arguments.backend);

  const std::vector<Tensor> results = run_derivative();  // the value, then the gradients
  const double value = results[0].item<double>();
  std::vector<double> gradient;
  for (std::size_t k = 1; k < results.size(); ++k) {
    const auto part = results[k].elements<double>();
    gradient.insert(gradient.end(), part.begin(), part.end());
  }
  double squares = 0;
  for (const double entry : gradient) squares += entry * entry;

  std::printf("%s: D = %ld, K = %ld, N = %ld, %zu parameters\n", arguments.file.c_str(),
              static_cast<long>(problem.D), static_cast<long>(problem.K), static_cast<long>(problem.N),
              gradient.size());
  std::printf("  objective   %.15g  (graph of %zu operations)\n", value, objective.num_operations());
  std::printf("  gradient    norm %.15g  (graph of %zu operations)\n", std::sqrt(squares),
              derivative.num_operations());
  std::printf("  median time %.3f ms objective, %.3f ms objective and gradient (%d runs, %s)\n",
              median_time(run_objective, arguments.repeat), median_time(run_derivative, arguments.repeat),
              arguments.repeat, arguments.backend.c_str());
  if (arguments.reference.empty()) return 0;
  return agrees(value, gradient, gmm::read_expected(arguments.reference, problem)) ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string(argv[1]) == "--help") {
      std::fputs(usage, stdout);
      return 0;
    }
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gmm: %s\n", error.what());
    return 2;
  }
}
