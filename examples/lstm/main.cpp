// main.cpp - the program lstm: reads a problem of ADBench, computes objective and gradient eagerly, and holds
// the whole gradient against reference values.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tidu/tidu.hpp>
#include <vector>

#include "model.hpp"
#include "problem.hpp"

namespace {

using tidu::Array;

constexpr const char* usage =
    "usage: lstm FILE [--reference REF.json] [--repeat N]\n"
    "Objective and gradient of the D-LSTM that FILE, in ADBench's format, describes, operation by "
    "operation.\n"
    "Exit status: 0; 2 for wrong arguments or files; 3 when a value is further than 1e-8, relatively, from "
    "that in\nREF.json.\n";

struct Arguments {
  std::string file, reference;
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
    else if (word == "--repeat")
      arguments.repeat = std::atoi(argv[i]);
    else
      throw std::runtime_error("unknown option " + word);
  }
  if (arguments.file.empty()) throw std::runtime_error("expected a FILE");
  if (arguments.repeat < 1) throw std::runtime_error("--repeat: expected a positive number");
  return arguments;
}

// The shortest of `repeat` times in milliseconds.
template <class F>
double best_time(const F& run, int repeat) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeat; ++i) {
    const auto from = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - from;
    best = std::min(best, passed.count());
  }
  return best;
}

// The nodes that f records.
template <class F>
std::size_t count_nodes(const F& f) {
  tidu::eager::Profile profile;
  const tidu::ProfileGuard guard(profile);
  f();
  const auto events = profile.events();
  return static_cast<std::size_t>(std::ranges::count_if(
      events, [](const auto& event) { return event.phase == tidu::eager::ProfilePhase::record; }));
}

// How far apart two values are, relative to the second; what is zero has to be exactly that.
double distance(double a, double b) { return a == b ? 0.0 : std::abs(a - b) / std::abs(b); }

bool agrees(double objective, const std::vector<double>& gradient, const lstm::Expected& expected) {
  double worst = distance(objective, expected.objective);
  bool all = worst <= 1e-8;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double apart = distance(gradient[i], expected.gradient[i]);
    all = all && apart <= 1e-8;  // false for NaN too
    worst = std::max(worst, apart);
  }
  std::printf("  reference   %s: objective and %zu gradient entries, largest relative distance %.1e\n",
              all ? "agrees" : "DISAGREES", gradient.size(), worst);
  return all;
}

// Objective and gradient once for the comparison, then for the clock.
bool evaluate(lstm::Problem& problem, const lstm::Expected* expected, bool compiled, int repeat) {
  const lstm::Model model(compiled);
  const auto objective = [&] { return model.loss(problem.main, problem.extra, problem); };
  const auto unrecorded = [&] { tidu::no_grad(objective); };
  const auto gradient = [&] {
    problem.main.zero_grad();
    problem.extra.zero_grad();
    const Array value = objective();
    value.backward();
    return value.item();
  };

  const double value = gradient();
  std::vector<double> entries;
  for (const Array& parameter : {problem.main, problem.extra}) {
    const Array slope = parameter.grad().value();
    const auto part = slope.tensor().elements<double>();
    entries.insert(entries.end(), part.begin(), part.end());
  }
  double squares = 0;
  for (const double entry : entries) squares += entry * entry;

  std::printf("%s: %zu nodes on the tape\n", compiled ? "cell by cell, compiled" : "operation by operation",
              count_nodes(objective));
  std::printf("  objective   %.15g\n", value);
  std::printf("  gradient    norm %.15g\n", std::sqrt(squares));
  std::printf(
      "  best time   %.2f ms objective, %.2f ms objective and tape, %.2f ms objective and gradient (%d "
      "runs)\n",
      best_time(unrecorded, repeat), best_time(objective, repeat), best_time(gradient, repeat), repeat);
  return expected == nullptr || agrees(value, entries, *expected);
}

int run(const Arguments& arguments) {
  lstm::Problem problem = lstm::read_problem(arguments.file);
  std::optional<lstm::Expected> expected;
  if (!arguments.reference.empty()) expected = lstm::read_expected(arguments.reference, problem);
  problem.main.set_requires_grad(true, "main");
  problem.extra.set_requires_grad(true, "extra");

  std::printf("%s: %ld layers, %ld characters of %ld bits, %ld parameters\n", arguments.file.c_str(),
              static_cast<long>(problem.layers), static_cast<long>(problem.characters),
              static_cast<long>(problem.bits), static_cast<long>(problem.main.size() + problem.extra.size()));
  bool good = true;
  for (const bool compiled : {false, true})
    good = evaluate(problem, expected ? &*expected : nullptr, compiled, arguments.repeat) && good;
  return good ? 0 : 3;
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
    std::fprintf(stderr, "lstm: %s\n", error.what());
    return 2;
  }
}
