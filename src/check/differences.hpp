// differences.hpp - tangents of a graph against differences of the values of its DifferenceFunction. A
// verdict is only for elements whose differences can be relied on: not at kinks and poles, not where rounding
// or the steps of a search take the digits. The more expensive tests of that are made where the two sides
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

/// An error and what of it is beyond doubt.
struct Judged {
  double error = 0.0;
  double certain = 0.0;
  std::size_t comparisons = 1;
  std::vector<std::size_t> compared{}, doubted{};  ///< of differences: elements, by output
  std::vector<double> certain_of{};                ///< likewise: what is beyond doubt
  bool cancelled = false;  ///< is it right only in relation to what it is summed from?
};

class DifferenceTest {
 public:
  /// `outputs`: of the graph at this point; `terms`: what a tangent is summed from (see Terms).
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
