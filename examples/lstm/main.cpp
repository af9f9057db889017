// main.cpp - the program lstm: reads a problem of ADBench, computes objective and gradient eagerly, and
// compares the whole gradient with reference values.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <tidu/tidu.hpp>
#include <vector>

#include "common/arguments.hpp"
#include "common/program.hpp"
#include "common/reference.hpp"
#include "model.hpp"
#include "problem.hpp"

namespace {

using tidu::Array;

constexpr const char* usage =
    "usage: lstm FILE [--reference REF.json] [--repeat N]\n"
    "Objective and gradient of the D-LSTM that FILE, in ADBench's format, describes, operation by "
    "operation.\n"
    "Exit status: 0; 2 for wrong arguments or files; 3 when a value is further than 1e-8 from that in "
    "REF.json.\n";

// The shortest of `repeat` times in milliseconds.
template <class F>
double best_ms(const F& run, std::int64_t repeat) {
  return examples::times_in_ms(run, repeat).front();
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

bool agrees(double objective, const std::vector<double>& gradient, const examples::Reference& reference) {
  const double distance =
      std::max(reference.distance("objective", {&objective, 1}), reference.distance("gradient", gradient));
  const bool all = distance <= examples::tolerance;
  std::printf("  reference   %s: objective and %zu gradient entries, largest distance %.1e\n",
              all ? "agrees" : "DISAGREES", gradient.size(), distance);
  return all;
}

// Objective and gradient once for the comparison, then for the clock.
bool evaluate(lstm::Problem& problem, const examples::Reference* reference, bool compiled,
              std::int64_t repeat) {
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
      "  best time   %.2f ms objective, %.2f ms objective and tape, %.2f ms objective and gradient (%lld "
      "runs)\n",
      best_ms(unrecorded, repeat), best_ms(objective, repeat), best_ms(gradient, repeat),
      static_cast<long long>(repeat));
  return reference == nullptr || agrees(value, entries, *reference);
}

int run(const examples::Arguments& arguments) {
  if (arguments.words().size() != 1) throw std::runtime_error("expected one FILE");
  const std::string& file = arguments.words()[0];
  const std::int64_t repeat = arguments.integer("--repeat", 10, 1, 1'000'000);
  lstm::Problem problem = lstm::read_problem(file);
  std::optional<examples::Reference> reference;
  if (arguments.has("--reference")) reference.emplace(arguments.text("--reference"), problem.dims());
  problem.main.set_requires_grad(true, "main");
  problem.extra.set_requires_grad(true, "extra");

  std::printf("%s: %ld layers, %ld characters of %ld bits, %ld parameters\n", file.c_str(),
              static_cast<long>(problem.layers), static_cast<long>(problem.characters),
              static_cast<long>(problem.bits), static_cast<long>(problem.main.size() + problem.extra.size()));
  bool good = true;
  for (const bool compiled : {false, true})
    good = evaluate(problem, reference ? &*reference : nullptr, compiled, repeat) && good;
  return good ? examples::exit_good : examples::exit_disagrees;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("lstm", usage, argc, argv, [&] {
    return run(examples::Arguments(argc, argv, {"--repeat", "--reference"}));
  });
}
