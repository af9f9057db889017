// level.hpp - the tests of one graph at one point, of one order of derivative.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "check/derived.hpp"
#include "check/difference_function.hpp"
#include "check/subject.hpp"
#include "tidu/check/check_gradients.hpp"

namespace tidu::check {

using Kinds = std::array<bool, num_check_kinds>;
inline constexpr Kinds all_kinds{true, true, true, true, true};
constexpr std::size_t index(CheckKind kind) { return static_cast<std::size_t>(kind); }

/// The worst disagreement of one kind.
struct Disagreement {
  double error;
  std::size_t direction;
  std::optional<std::size_t> input;  ///< position; nothing when all inputs together show it
};

struct LevelResult {
  std::array<double, num_check_kinds> worst{};
  std::array<std::size_t, num_check_kinds> comparisons{};
  std::array<std::optional<Disagreement>, num_check_kinds> failed{};
  /// Did sides differ that agree only relative to their terms?
  bool cancelled = false;
  /// Outputs of whose elements none could be compared with differences, though they are finite.
  std::vector<std::size_t> without_differences;
  /// Is any value, tangent or cotangent not finite?
  bool not_finite = false;
  std::string no_reverse;  ///< why there is no reverse mode, if so
  std::vector<std::string> notes;
  bool ok() const;
};

/// Positions of the floating and complex inputs.
std::vector<std::size_t> inexact_inputs(const Graph& graph);

LevelResult check_level(const Subject& subject, const DifferenceFunction& function, const Executor& executor,
                        const CheckOptions& options, const Kinds& kinds = all_kinds);

/// The graphs of jvp and vjp of `subject` at random tangents and cotangents, by all their inexact inputs that
/// derive from wrt, with their difference functions. One that cannot be made for want of words of the set, or
/// because there is no reverse mode, is left out, with a note.
struct Level {
  Subject subject;
  DifferenceFunction function;
};
std::vector<Level> next_order(const Level& level, std::uint64_t seed, std::vector<std::string>& notes);

/// The least precise of the inexact dtypes of the graph and of those that it holds: distance from 1 to the
/// next number.
double coarsest_epsilon(const Graph& graph);

/// Relative errors that pass for this graph; `iterates`: see DifferenceFunction.
double difference_tolerance(const Graph& graph, const CheckOptions& options, bool iterates);
double rounding_tolerance(const Graph& graph, const CheckOptions& options, bool iterates);

}  // namespace tidu::check
