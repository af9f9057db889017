// program.hpp - functions that the main functions of the examples share: exit statuses, and the clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace examples {

/// The exit statuses that the examples agree on.
constexpr int exit_good = 0, exit_wrong_input = 2, exit_disagrees = 3;

/// Prints `usage` when the only argument is --help, else runs `body`. An exception of it is printed after the
/// program's name, and ends the program with exit_wrong_input.
int run_program(const char* name, const char* usage, int argc, char** argv, const std::function<int()>& body);

/// Times in milliseconds of `repeat` calls, sorted.
template <class F>
std::vector<double> times_in_ms(const F& run, std::int64_t repeat) {
  std::vector<double> times;
  for (std::int64_t i = 0; i < repeat; ++i) {
    const auto from = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - from;
    times.push_back(passed.count());
  }
  std::ranges::sort(times);
  return times;
}

/// The median of them, the upper one of two.
template <class F>
double median_ms(const F& run, std::int64_t repeat) {
  const std::vector<double> times = times_in_ms(run, repeat);
  return times[times.size() / 2];
}

}  // namespace examples
