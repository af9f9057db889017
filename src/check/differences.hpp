// differences.hpp - compares tangents of a graph with differences of the values of its DifferenceFunction.
// Elements with unreliable differences get no verdict: those at kinks and poles, and those whose digits are
// lost to rounding or the steps of a search. The more expensive tests for these run only if the two sides
// disagree.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "check/difference_function.hpp"
#include "check/numeric.hpp"
#include "check/perturb.hpp"

namespace tidu::check {

/// An error, and the certain part of it.
struct Judged {
  double error = 0.0;
  double certain = 0.0;
  std::size_t comparisons = 1;
  std::vector<std::size_t> compared{}, doubted{};  ///< of differences: elements, by output
  std::vector<double> certain_of{};                ///< the certain part of the same
  bool cancelled = false;  ///< is it right only relative to the terms that it is the sum of?
};

class DifferenceTest {
 public:
  /// `outputs`: of the graph at this point; `terms`: the terms of a tangent (see Terms).
  DifferenceTest(const DifferenceFunction& function, const Tensors& outputs, const Executor& executor,
                 double epsilon, double tolerance, std::uint64_t seed,
                 std::function<double(std::size_t output, const Tensors& tangents)> terms);
  /// The tangents `ju` of the outputs along `u`. Kinks that were found stay known.
  Judged judge(const Tensors& u, const MaybeTensors& ju, bool looks_for_kinks = true);
  /// Outputs with an element that is finite and has no derivative: its slopes along some directions jump, or
  /// do not add up.
  std::vector<std::size_t> outputs_with_kinks();

 private:
  using Differences = std::vector<Difference>;
  Tensors moved(const Tensors& u, double step) const;
  Differences along(const Tensors& u) const;
  Differences shaken_along(const Tensors& u);
  bool shake();
  void find_kinks(const Differences& expected, const Tensors& u);
  void mark_kinks(Differences& expected) const;
  void look_from_afar(Differences& expected, const Tensors& u) const;
  Judged compare(const Differences& expected, const MaybeTensors& ju, const std::vector<double>& terms) const;

  const DifferenceFunction& function_;
  const Tensors& outputs_;
  const Executor& executor_;
  double epsilon_, tolerance_;
  std::uint64_t seed_;
  Random random_;
  std::vector<std::pair<std::size_t, std::size_t>> kinks_;  // output, element
  std::function<double(std::size_t, const Tensors&)> terms_;
  std::optional<Shaken> shaken_;  // function_.graph, once it is needed
  bool cannot_shake_ = false;
};

}  // namespace tidu::check
