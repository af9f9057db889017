// saturated_softmax.cpp - softmax, log_softmax, logsumexp, cumlogsumexp and cross entropy where one element
// exceeds all others by far: values and derivatives of first and second order in every mode are as exact as
// the sum over the other elements, which may be far below an ulp of 1. Compared with formulas in long double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "support.hpp"

namespace tidu::test::saturated_softmax_cases {
namespace {

using Real = long double;

// Softmax of elements of which one, at `greatest`, is the greatest.
struct Softmax {
  std::vector<Real> p;
  std::size_t greatest;
  Real others;  // sum of the p but that of the greatest
  Real log_sum;

  explicit Softmax(const std::vector<double>& x)
      : p(x.size()), greatest(static_cast<std::size_t>(std::ranges::max_element(x) - x.begin())) {
    const Real m = x[greatest];
    Real sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      p[i] = std::exp(x[i] - m);
      if (i != greatest) sum += p[i];
    }
    for (Real& weight : p) weight /= 1 + sum;
    others = sum / (1 + sum);
    log_sum = std::log1p(sum);
  }
  // (i = j) - p[j]
  Real above(std::size_t i, std::size_t j) const {
    if (i != j) return -p[j];
    return i == greatest ? others : 1 - p[j];
  }
  // dp[i] / dx[j]
  Real slope(std::size_t i, std::size_t j) const { return p[i] * above(i, j); }
  // dp[k] / dx[i] dx[j]
  Real second(std::size_t k, std::size_t i, std::size_t j) const {
    return p[k] * (above(k, i) * above(k, j) - slope(i, j));
  }
};

using Function = std::function<Array(const Array&)>;
// A function of x with one result, and its value, gradient and Hessian.
struct Case {
  std::string name;
  Function f;
  std::function<Real(const Softmax&)> value;
  std::function<Real(const Softmax&, std::size_t)> slope;
  std::function<Real(const Softmax&, std::size_t, std::size_t)> second;
};

// f is the logsumexp of `part`, which is x from `begin` on.
Case cumulative(std::string name, const std::vector<double>& part, std::size_t begin, Function f) {
  const Softmax of(part);
  const std::size_t n = part.size();
  const auto within = [=](std::size_t i) { return i >= begin && i < begin + n; };
  return {std::move(name), std::move(f),
          [=, greatest = part[of.greatest]](const Softmax&) { return greatest + of.log_sum; },
          [=](const Softmax&, std::size_t i) { return within(i) ? of.p[i - begin] : 0; },
          [=](const Softmax&, std::size_t i, std::size_t j) {
            return within(i) && within(j) ? of.slope(i - begin, j - begin) : 0;
          }};
}

std::vector<Case> cases(const std::vector<double>& x) {
  const std::size_t n = x.size();
  std::vector<Case> all;
  const auto largest = [x](const Softmax& s) { return Real(x[s.greatest]); };
  all.push_back({"logsumexp", [](const Array& a) { return logsumexp(a); },
                 [=](const Softmax& s) { return largest(s) + s.log_sum; },
                 [](const Softmax& s, std::size_t i) { return s.p[i]; }, &Softmax::slope});
  for (std::size_t k = 0; k < n; ++k) {
    const std::string at = "[" + std::to_string(k) + "]";
    const auto index = static_cast<std::int64_t>(k);
    const auto log_p = [=](const Softmax& s) { return Real(x[k]) - largest(s) - s.log_sum; };
    all.push_back({"softmax" + at, [=](const Array& a) { return softmax(a)[index]; },
                   [=](const Softmax& s) { return s.p[k]; },
                   [=](const Softmax& s, std::size_t i) { return s.slope(k, i); },
                   [=](const Softmax& s, std::size_t i, std::size_t j) { return s.second(k, i, j); }});
    all.push_back({"log_softmax" + at, [=](const Array& a) { return log_softmax(a)[index]; }, log_p,
                   [=](const Softmax& s, std::size_t i) { return s.above(k, i); },
                   [](const Softmax& s, std::size_t i, std::size_t j) { return -s.slope(i, j); }});
    all.push_back({"cross entropy" + at,
                   [=](const Array& a) {
                     return softmax_cross_entropy_with_integer_labels(a, array(static_cast<double>(k), i32));
                   },
                   [=](const Softmax& s) { return -log_p(s); },
                   [=](const Softmax& s, std::size_t i) { return -s.above(k, i); }, &Softmax::slope});
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(k);
    all.push_back(cumulative("cumlogsumexp" + at, {x.begin(), first + 1}, 0,
                             [=](const Array& a) { return cumlogsumexp(a)[index]; }));
    all.push_back(cumulative("reverse cumlogsumexp" + at, {first, x.end()}, k,
                             [=](const Array& a) { return cumlogsumexp(a, 0, true)[index]; }));
  }
  return all;
}

// The greatest error, relative to each expected number, in ulps of the dtype.
double error_of(const Array& got, const std::vector<Real>& expected) {
  const double ulp = got.dtype() == f64 ? 0x1p-52 : 0x1p-23;
  const Real least = got.dtype() == f64 ? 0x1p-1070 : 0x1p-145;
  const std::vector<double> numbers = elements(astype(got, f64));
  REQUIRE(numbers.size() == expected.size());
  double greatest = 0.0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Real bound = std::fabs(expected[i]) * ulp + least, difference = std::fabs(numbers[i] - expected[i]);
    // A NaN is infinitely wrong.
    const Real error = difference <= std::numeric_limits<Real>::max() ? difference / bound : 1e300L;
    greatest = std::max(greatest, static_cast<double>(error));
  }
  return greatest;
}

void compare(const Case& c, const std::vector<double>& x, DType dtype) {
  const Array a = astype(array(x, {static_cast<std::int64_t>(x.size())}), dtype);
  const Softmax of(elements(astype(a, f64)));
  const std::size_t n = x.size();
  std::vector<Real> slopes, seconds;
  for (std::size_t i = 0; i < n; ++i) slopes.push_back(c.slope(of, i));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) seconds.push_back(c.second(of, i, j));
  CAPTURE(c.name);
  CAPTURE(a);
  CHECK(error_of(c.f(a), {c.value(of)}) <= 8);
  CHECK(error_of(grad(c.f)(a), slopes) <= 8);
  CHECK(error_of(compile(grad(c.f))(a), slopes) <= 8);
  CHECK(error_of(jacfwd(c.f)(a), slopes) <= 8);
  CHECK(error_of(hessian(c.f)(a), seconds) <= 64);
  CHECK(error_of(jacfwd(jacfwd(c.f))(a), seconds) <= 64);
  CHECK(error_of(jacrev(jacrev(c.f))(a), seconds) <= 64);
  CHECK(error_of(jacrev(jacfwd(c.f))(a), seconds) <= 64);
}

TEST_CASE("[saturated] softmax and its kind are exact where one element exceeds all others") {
  // Differences that f32 holds, too.
  for (const double gap : {0.25, 1.5, 9.0, 20.0, 36.0, 60.0, 88.0, 300.0, 700.0}) {
    for (const double greatest : {0.0, 3.0, -40.0, 1024.0}) {
      const std::vector<double> rows[] = {{greatest, greatest - gap},
                                          {greatest - gap - 0.5, greatest, greatest - gap - 2.0},
                                          {greatest - 2 * gap, greatest - gap, greatest - gap, greatest}};
      for (const std::vector<double>& x : rows)
        for (const Case& c : cases(x)) {
          compare(c, x, f64);
          if (gap < 80) compare(c, x, f32);
        }
    }
  }
}

TEST_CASE("the primitives logsumexp and cumlogsumexp, by each executor") {
  for (const std::int64_t n : {2, 3, 70, 5000}) {
    for (const double gap : {1.0, 20.0, 40.0, 300.0}) {
      const Array x = where(arange(n) == n / 2, 0.0, -gap);
      const double expected = std::log1p(static_cast<double>(n - 1) * std::exp(-gap));
      GraphBuilder builder("sums");
      const Value v = builder.input("x", x.type());
      const Graph graph = builder.build({ops::logsumexp(v, {0}), ops::cumlogsumexp(v, 0)});
      const std::vector<Tensor> inputs{x.tensor()};
      for (const std::vector<Tensor>& results : {reference().run(graph, inputs), cpu().run(graph, inputs)}) {
        CHECK(elements(Array(results[0]))[0] == doctest::Approx(expected).epsilon(1e-13));
        CHECK(elements(Array(results[1])).back() == doctest::Approx(expected).epsilon(1e-12));
      }
      const auto sums = [](const Array& a) { return logsumexp(a); };
      const Array slopes = grad(sums)(x);
      CHECK(elements(slopes)[0] == doctest::Approx(std::exp(-gap - expected)).epsilon(1e-13));
    }
  }
}

TEST_CASE("several equal greatest elements share") {
  const Array x = array({2.0, 2.0, -50.0});
  CHECK(logsumexp(x).item() == doctest::Approx(2.0 + std::log(2.0)).epsilon(1e-15));
  CHECK(distance(grad([](const Array& a) { return logsumexp(a); })(x),
                 array({0.5, 0.5, std::exp(-52.0) / 2})) < 1e-16);
  CHECK(distance(log_softmax(x), array({-std::log(2.0), -std::log(2.0), -52.0 - std::log(2.0)})) < 1e-15);
}

TEST_CASE("long and batched rows, along any axis") {
  constexpr std::int64_t n = 3000;
  const Array x = random_array({4, n, 3}, 5, 3.0);
  const Array picked =
      array({0.0, 60.0, 0.0, 60.0}, {4, 1, 1}) * where(arange(n).reshape({1, n, 1}) == 7.0, 1.0, 0.0);
  const Array rows = x + picked, weights = random_array({4, n, 3}, 6);
  const auto f = [&](const Array& a) { return sum(weights * softmax(a, 1) + log_softmax(a, 1)); };
  const auto g = [&](const Array& a) { return sum(logsumexp(a, 1)); };
  check_gradient("softmax", f, rows, 1e-6);
  check_gradient("logsumexp", g, rows, 1e-6);
  CHECK(distance(compile(grad(f))(rows), grad(f)(rows)) < 1e-13);
  const Array transposed = swapaxes(rows, 1, 2);
  CHECK(distance(swapaxes(log_softmax(transposed, 2), 1, 2), log_softmax(rows, 1)) < 1e-13);
}

}  // namespace
}  // namespace tidu::test::saturated_softmax_cases
