// length_hessians.cpp - second derivatives of norm, vector_norm, stddev and hypot from the least subnormal to
// the greatest number of each dtype, also where one element exceeds all others by far, in every pair of
// modes; values and first derivatives at the ends of the range. Compared with closed forms in long double.
#include <limits>

#include "support.hpp"

namespace tidu::test::length_hessians_cases {
namespace {

using Real = long double;
using Reals = std::vector<Real>;

struct Derivatives {
  Real value;
  Reals slopes, seconds;
};

// With shares s = a / ‖a‖ of order p: slopes s^(p-1), seconds (p - 1) (s_i^(p-2) (i = j) - slope_i slope_j) /
// ‖a‖. The diagonal is a sum over the other elements.
Derivatives of_order(const Reals& x, Real p) {
  Real scale = 0, total = 0;
  for (const Real each : x) scale = std::max(scale, std::fabs(each));
  for (const Real each : x) total += std::pow(std::fabs(each) / scale, p);
  const Real length = scale * std::pow(total, 1 / p);
  Derivatives result{length, {}, {}};
  for (const Real each : x)
    result.slopes.push_back(std::copysign(std::pow(std::fabs(each) / length, p - 1), each));
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) {
      Real of_others = 0;
      for (std::size_t k = 0; k < x.size(); ++k)
        if (k != i) of_others += std::pow(std::fabs(x[k]) / length, p);
      const Real diagonal = std::pow(std::fabs(x[i]) / length, p - 2) * of_others;
      result.seconds.push_back((p - 1) * (i == j ? diagonal : -result.slopes[i] * result.slopes[j]) / length);
    }
  return result;
}

// Of the distances from the mean, by the number of elements.
Derivatives deviation(Reals x) {
  const auto n = static_cast<Real>(x.size());
  Real mean = 0;
  for (const Real each : x) mean += each / n;
  for (Real& each : x) each -= mean;
  Derivatives result = of_order(x, 2);
  const Real length = result.value, root = std::sqrt(n);
  const Reals u = result.slopes;
  result.seconds.clear();
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j)
      result.seconds.push_back(((i == j ? 1 : 0) - 1 / n - u[i] * u[j]) / length / root);
  result.value /= root;
  for (Real& slope : result.slopes) slope /= root;
  return result;
}

struct Precision {
  DType dtype;
  int least, greatest;  // powers of two: the least subnormal, and one that overflows
  Real epsilon;
};
const Precision precisions[] = {{f64, -1074, 1024, 0x1p-52L},
                                {f32, -149, 128, 0x1p-23L},
                                {bf16, -133, 128, 0x1p-7L},
                                {f16, -24, 16, 0x1p-10L}};

Real greatest_of(const Precision& p) { return std::ldexp(1 - p.epsilon / 2, p.greatest); }

// The greatest error in ulps; of `norm`, if positive, instead of those of each number.
Real error_of(const Array& got, const Reals& expected, const Precision& precision, Real norm) {
  const std::vector<double> numbers = elements(astype(got, f64));
  REQUIRE(numbers.size() == expected.size());
  Real greatest = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Real size = norm > 0 ? norm : std::fabs(expected[i]);
    const Real unit = size * precision.epsilon + std::ldexp(1.0L, precision.least);
    const Real error = std::fabs(numbers[i] - expected[i]) / unit;
    greatest = std::max(greatest, error <= std::numeric_limits<Real>::max() ? error : 1e300L);
  }
  return greatest;
}

Real largest(const Reals& numbers) {
  Real result = 0;
  for (const Real each : numbers) result = std::max(result, std::fabs(each));
  return result;
}

struct Case {
  std::string name;
  Function f;
  std::function<Derivatives(const Reals&)> expected;
  bool each;  // is each number right, or only relative to the largest one?
};

void compare(const Case& c, const std::vector<double>& numbers, const Precision& precision) {
  const Array x = astype(array(numbers, {static_cast<std::int64_t>(numbers.size())}), precision.dtype);
  CAPTURE(c.name);
  CAPTURE(x);
  Reals rounded;
  for (const double each : elements(astype(x, f64))) rounded.push_back(each);
  const Derivatives expected = c.expected(rounded);
  // The length 0 has derivatives 0.
  if (expected.value == 0) return;
  const Real limit = greatest_of(precision);
  const auto check = [&](const Array& got, const Reals& right, Real bound) {
    const Real norm = largest(right);
    if (norm > limit) return;
    CHECK(error_of(got, right, precision, c.each ? 0 : norm) <= bound);
  };
  check(c.f(x), {expected.value}, 8);
  check(grad(c.f)(x), expected.slopes, 16);
  check(jacfwd(c.f)(x), expected.slopes, 16);
  check(hessian(c.f)(x), expected.seconds, 64);
  check(jacfwd(jacfwd(c.f))(x), expected.seconds, 64);
  check(jacrev(jacrev(c.f))(x), expected.seconds, 64);
  check(jacrev(jacfwd(c.f))(x), expected.seconds, 64);
}

std::vector<Case> cases() {
  std::vector<Case> all{{"norm", [](const Array& a) { return linalg::norm(a); },
                         [](const Reals& x) { return of_order(x, 2); }, true},
                        {"stddev", [](const Array& a) { return stddev(a); }, deviation, false}};
  for (const double p : {3.0, 1.5, 0.5, -2.0})
    all.push_back({"norm of order " + std::to_string(p),
                   [p](const Array& a) { return linalg::vector_norm(a, p); },
                   [p](const Reals& x) { return of_order(x, p); }, false});
  return all;
}

const std::vector<std::vector<double>> directions = {
    {0.9, -0.7, 0.6}, {-0.99, -0.99, 0.98}, {0.5, 0.5, 0.5, 0.25, -0.99}, {0.75, -0x1p-9, 0x1p-8}};

TEST_CASE("[lengths] second derivatives of lengths at any size") {
  for (const Precision& precision : precisions) {
    for (int part = 0; part <= 12; ++part) {
      const int room = precision.greatest - precision.least - 6;
      for (const std::vector<double>& direction : directions) {
        std::vector<double> x = direction;
        for (double& each : x) each = std::ldexp(each, precision.least + 6 + room * part / 12);
        for (const Case& c : cases()) compare(c, x, precision);
      }
    }
  }
}

TEST_CASE("[lengths] second derivatives of lengths where one element exceeds the others") {
  const Case norm = cases()[0];
  for (const Precision& precision : precisions) {
    if (precision.dtype == f16) continue;
    for (const int size : {precision.least / 2, 0, precision.greatest - 1})
      for (const int below : {5, 11, 20, 30, 60}) {
        compare(norm, {std::ldexp(0.9, size), std::ldexp(-0.6, size - below), std::ldexp(0.7, size - below)},
                precision);
        compare(norm, {std::ldexp(0.7, size), std::ldexp(0.7, size), std::ldexp(0.7, size - below)},
                precision);
      }
  }
}

TEST_CASE("[lengths] second derivatives of hypot, where other ones overflow, too") {
  const Function f = [](const Array& a) { return hypot(a[0], a[1]); };
  for (const Precision& precision : precisions) {
    for (int size = precision.least + 1; size <= precision.greatest; size += precision.greatest / 8)
      for (const int below : {0, 1, 3, 10, 70, 170, 600}) {
        if (size - below <= precision.least) continue;
        const Array x =
            astype(array({std::ldexp(0.9, size), std::ldexp(-0.6, size - below)}), precision.dtype);
        CAPTURE(x);
        const std::vector<double> rounded = elements(astype(x, f64));
        if (rounded[1] == 0) continue;
        const Derivatives expected = of_order({rounded[0], rounded[1]}, 2);
        for (const Array& got :
             {hessian(f)(x), jacfwd(jacfwd(f))(x), jacrev(jacrev(f))(x), jacrev(jacfwd(f))(x)})
          for (std::int64_t i = 0; i < 4; ++i) {
            const Real right = expected.seconds[static_cast<std::size_t>(i)];
            if (std::fabs(right) <= greatest_of(precision))
              CHECK(error_of(got[i / 2][i % 2], {right}, precision, 0) <= 64);
          }
      }
  }
}

}  // namespace
}  // namespace tidu::test::length_hessians_cases
