// differences.cpp - see differences.hpp.
#include "check/differences.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tidu/graph/error.hpp"

namespace tidu::check {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

// Is a slope that is not finite wrong there? A function that has none, as sqrt at 0, has differences that
// grow as steps shrink.
bool is_steady(std::complex<double> value, double uncertainty, double scale, double tolerance) {
  const double doubt = 10.0 * uncertainty;
  return doubt <= tolerance * scale &&
         (doubt <= 0.1 * std::abs(value) || std::abs(value) <= tolerance * scale);
}

// Each finds an element of which the slopes of half of all pairs of directions do not add up.
constexpr int draws_for_kinks = 12;

bool some_are_doubted(const Judged& judged) {
  return std::ranges::any_of(judged.doubted, [](std::size_t count) { return count > 0; });
}

}  // namespace

DifferenceTest::DifferenceTest(const DifferenceFunction& function, const Tensors& outputs,
                               const Executor& executor, double epsilon, double tolerance, std::uint64_t seed,
                               std::function<double(std::size_t, const Tensors&)> terms)
    : function_(function),
      outputs_(outputs),
      executor_(executor),
      epsilon_(epsilon),
      tolerance_(tolerance),
      seed_(seed),
      random_(seed + 1),
      terms_(std::move(terms)) {}

Tensors DifferenceTest::moved(const Tensors& u, double step) const {
  Tensors inputs = function_.inputs;
  for (std::size_t k = 0; k < u.size(); ++k)
    inputs[function_.wrt[k]] = combine(1.0, inputs[function_.wrt[k]], step, u[k]);
  return inputs;
}

DifferenceTest::Differences DifferenceTest::along(const Tensors& u) const {
  return differentiate([&](double s) { return executor_.run(function_.graph, moved(u, s)); }, epsilon_);
}

DifferenceTest::Differences DifferenceTest::shaken_along(const Tensors& u) {
  return differentiate([&](double s) { return executor_.run(function_.graph, moved(u, s)); }, epsilon_,
                       [&](double s) { return shaken_->run(moved(u, s)); });
}

// Returns false if this executor cannot run the perturbed graph.
bool DifferenceTest::shake() {
  if (!shaken_ && !cannot_shake_) {
    try {
      shaken_.emplace(function_.graph, function_.wrt, function_.inputs, executor_, seed_);
    } catch (const Error&) {
      cannot_shake_ = true;
    }
  }
  return shaken_.has_value();
}

Judged DifferenceTest::judge(const Tensors& u, const MaybeTensors& ju, bool looks_for_kinks) {
  Differences expected = along(u);
  mark_kinks(expected);
  const std::vector<double> no_terms(ju.size(), 0.0);
  Judged judged = compare(expected, ju, no_terms);
  // How far rounding in f goes takes as long to find as the differences did: only where they disagree.
  if (judged.certain > tolerance_ && !std::isinf(judged.certain) && shake()) {
    expected = shaken_along(u);
    mark_kinks(expected);
    judged = compare(expected, ju, no_terms);
    judged.cancelled = judged.certain <= tolerance_;
    if (judged.cancelled) return judged;
  }
  for (int draw = 0; looks_for_kinks && draw < draws_for_kinks && judged.certain > tolerance_; ++draw) {
    find_kinks(expected, u);
    mark_kinks(expected);
    judged = compare(expected, ju, no_terms);
  }
  if (function_.iterates && (judged.certain > tolerance_ || some_are_doubted(judged))) {
    look_from_afar(expected, u);
    judged = compare(expected, ju, no_terms);
  }
  if (std::isinf(judged.certain)) return judged;
  // A result with cancellation disagrees with differences, or is too small to be compared with them.
  bool again = false;
  std::vector<double> terms(ju.size(), 0.0);
  for (std::size_t k = 0; k < ju.size(); ++k) {
    const bool none = judged.doubted[k] > 0 && judged.compared[k] == 0;
    if (!ju[k] || (judged.certain_of[k] <= tolerance_ && !none)) continue;
    terms[k] = terms_(k, u);
    again = true;
  }
  if (!again) return judged;
  Judged second = compare(expected, ju, terms);
  second.cancelled = judged.certain > tolerance_ && second.certain <= tolerance_;
  return second;
}

std::vector<std::size_t> DifferenceTest::outputs_with_kinks() {
  constexpr int draws = 3;
  for (int draw = 0; draw < draws; ++draw) {
    Tensors u;
    for (const std::size_t i : function_.wrt)
      u.push_back(random_tensor(random_, function_.graph.type(function_.graph.inputs()[i])));
    const Differences expected = shake() ? shaken_along(u) : along(u);
    find_kinks(expected, u);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      for (std::size_t i = 0; i < expected[k].value.size(); ++i) {
        const bool finite = std::isfinite(std::abs(outputs_[k].at(static_cast<std::int64_t>(i))));
        if (finite && !std::isfinite(expected[k].uncertainty[i])) kinks_.emplace_back(k, i);
      }
    }
  }
  std::vector<std::size_t> outputs;
  for (const auto& kink : kinks_) outputs.push_back(kink.first);
  std::ranges::sort(outputs);
  outputs.erase(std::unique(outputs.begin(), outputs.end()), outputs.end());
  return outputs;
}

void DifferenceTest::mark_kinks(Differences& expected) const {
  for (const auto& [output, element] : kinks_) expected[output].uncertainty[element] = unlimited;
}

// A function has a derivative where its slopes along directions add up. At a kink (the middle of three equal
// elements) slopes along a line may agree with each other and be those of no derivative.
void DifferenceTest::find_kinks(const Differences& expected, const Tensors& u) {
  Tensors there, back;
  for (const Tensor& direction : u) {
    const Tensor other = random_tensor(random_, direction.type());
    there.push_back(combine(0.5, direction, 1.0, other));
    back.push_back(combine(0.5, direction, -1.0, other));
  }
  // As exactly as `expected` is known.
  const Differences a = shaken_ ? shaken_along(there) : along(there);
  const Differences b = shaken_ ? shaken_along(back) : along(back);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    for (std::size_t i = 0; i < expected[k].value.size(); ++i) {
      if (!std::isfinite(expected[k].uncertainty[i])) continue;
      const std::complex<double> sum = a[k].value[i] + b[k].value[i];
      const double gap = std::abs(sum - expected[k].value[i]);
      const double doubt = a[k].uncertainty[i] + b[k].uncertainty[i] + expected[k].uncertainty[i];
      const double size = std::abs(a[k].value[i]) + std::abs(b[k].value[i]) + std::abs(expected[k].value[i]);
      if (!std::isfinite(doubt) || gap > 2.0 * doubt + 0.1 * tolerance_ * size) kinks_.emplace_back(k, i);
    }
  }
}

// The result of a search (bisection, a sum until it changes little) changes in steps: it is constant between
// them, and only differences that are wide compared with the steps show its derivative.
void DifferenceTest::look_from_afar(Differences& expected, const Tensors& u) const {
  const auto f = [&](double s) { return executor_.run(function_.graph, moved(u, s)); };
  const Differences near = along(u), wide = differentiate_at(f, 16.0 * largest_step(epsilon_)),
                    wider = differentiate_at(f, 64.0 * largest_step(epsilon_));
  for (std::size_t k = 0; k < expected.size(); ++k) {
    for (std::size_t i = 0; i < expected[k].value.size(); ++i) {
      const Differences& best = wider[k].uncertainty[i] < wide[k].uncertainty[i] ? wider : wide;
      const double doubt =
          0.5 * std::max(best[k].uncertainty[i], std::abs(wide[k].value[i] - wider[k].value[i]));
      if (!std::isfinite(wide[k].uncertainty[i]) || !std::isfinite(wider[k].uncertainty[i])) continue;
      const double gap = std::abs(best[k].value[i] - near[k].value[i]);
      if (std::isfinite(near[k].uncertainty[i]) && gap <= doubt + near[k].uncertainty[i]) continue;
      expected[k].value[i] = best[k].value[i];
      expected[k].uncertainty[i] = doubt;
    }
  }
}

// Relative to the largest element, or to `terms` where they are larger.
Judged DifferenceTest::compare(const Differences& expected, const MaybeTensors& ju,
                               const std::vector<double>& terms) const {
  Judged worst{.comparisons = 0};
  worst.compared = worst.doubted = std::vector<std::size_t>(ju.size());
  worst.certain_of.resize(ju.size());
  for (std::size_t k = 0; k < ju.size(); ++k) {
    if (!is_inexact(outputs_[k].dtype())) continue;
    double scale = terms[k];
    for (std::size_t i = 0; i < expected[k].value.size(); ++i) {
      if (std::isfinite(expected[k].uncertainty[i])) scale = std::max(scale, std::abs(expected[k].value[i]));
      const std::complex<double> got = ju[k] ? ju[k]->at(static_cast<std::int64_t>(i)) : 0.0;
      if (std::isfinite(std::abs(got))) scale = std::max(scale, std::abs(got));
    }
    for (std::size_t i = 0; i < expected[k].value.size(); ++i) {
      const auto element = static_cast<std::int64_t>(i);
      const std::complex<double> got = ju[k] ? ju[k]->at(element) : 0.0;
      const double error = relative_error(got, expected[k].value[i], scale);
      const double doubt = scale > 0.0 ? 10.0 * expected[k].uncertainty[i] / scale : 0.0;
      bool known = std::isfinite(expected[k].uncertainty[i]);
      if (std::isinf(error))
        known = known && is_steady(expected[k].value[i], expected[k].uncertainty[i], scale, tolerance_);
      if (known) worst.certain_of[k] = std::max(worst.certain_of[k], error - doubt);
      // If the differences are too inexact for a verdict, it counts as neither right nor wrong.
      if (!known || doubt >= tolerance_ || (error > tolerance_ && error - doubt <= tolerance_)) {
        if (std::isfinite(std::abs(outputs_[k].at(element)))) ++worst.doubted[k];
        continue;
      }
      worst.error = std::max(worst.error, error);
      ++worst.comparisons;
      ++worst.compared[k];
    }
    worst.certain = std::max(worst.certain, worst.certain_of[k]);
  }
  return worst;
}

}  // namespace tidu::check
