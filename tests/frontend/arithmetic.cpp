// arithmetic.cpp - mod, floor_divide, hypot, logaddexp and other functions that are made of several
// primitives, against the C++ library and against plain loops; gradients against differences, of second order
// also where the two sides of a function meet.
#include <cmath>
#include <limits>

#include "support.hpp"

namespace tidu::test {
namespace arithmetic_cases {
namespace {

const double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

template <class Oracle>
Array each(const Array& x, const Array& y, const Oracle& oracle) {
  std::vector<double> result;
  const std::vector<double> a = elements(x), b = elements(y);
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(oracle(a[i], b[i]));
  return array(result, x.shape()).to(promote(x.dtype(), y.dtype()));
}

double floored(double x, double y) { return std::floor(x / y); }
double modulo(double x, double y) { return x - y * std::floor(x / y); }

TEST_CASE("remainders and whole quotients have the sign of the divisor") {
  for (const DType dtype : {i32, i64, f32, f64}) {
    const auto [x, y] = [&] {
      const auto grid = meshgrid({arange(-7.0, 8.0), array({-3.0, -2.0, 2.0, 3.0})});
      return std::pair(grid[0].to(dtype), grid[1].to(dtype));
    }();
    const auto f = [](const Array& a, const Array& b) { return mod(a, b); };
    const auto g = [](const Array& a, const Array& b) { return floor_divide(a, b); };
    for (const Array& r : {f(x, y), compile(f)(x, y), vmap(f)(x, y)})
      CHECK(array_equal(r, each(x, y, modulo)));
    for (const Array& q : {g(x, y), compile(g)(x, y), vmap(g)(x, y)})
      CHECK(array_equal(q, each(x, y, floored)));
    CHECK(mod(x, y).dtype() == dtype);
    CHECK(floor_divide(x, y).dtype() == dtype);
    CHECK(array_equal(fmod(x, y), each(x, y, [](double a, double b) { return std::fmod(a, b); })));
  }
  const Array a = array({5.5, -5.5, 1.0, -1.0, 0.0});
  CHECK(elements(mod(a, 2.0)) == std::vector<double>{1.5, 0.5, 1.0, 1.0, 0.0});
  CHECK(elements(mod(a, -2)) == std::vector<double>{-0.5, -1.5, -1.0, -1.0, 0.0});
  CHECK(elements(floor_divide(7, array({2, -2}))) == std::vector<double>{3, -4});
  CHECK(elements(floor_divide(array({1.0, -1.0}), inf)) == std::vector<double>{0, -1});
  const Array x = 3.0 * random_array({12}, 1), y = random_array({12}, 2);
  check_gradient(
      "mod by x", [&](const Array& v) { return mod(v, y); }, x);
  check_gradient(
      "mod by y", [&](const Array& v) { return mod(x, v); }, y, 1e-5);
  CHECK_FALSE(floor_divide(leaf(x), y).requires_grad());
  CHECK(elements(trunc(array({-1.7, -0.2, 0.2, 1.7}))) == std::vector<double>{-1, -0.0, 0, 1});
  CHECK(trunc(arange(3)).dtype() == i64);
}

TEST_CASE("whole quotients by 0 are quotients") {
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(floor_divide(array({1.0, -1.0}), array({0.0, 0.0})).tensor().at(0).real() == infinite);
  CHECK(floor_divide(array({1.0, -1.0}), array({0.0, 0.0})).tensor().at(1).real() == -infinite);
  CHECK(floor_divide(array({5, -5}), array({0, 0})).tensor().at(0).real() == -1);
  CHECK(floor_divide(array({5, -5}), array({0, 0})).tensor().at(1).real() == -1);
}

TEST_CASE("logarithms, lengths and sums of exponentials: values and gradients") {
  const Array x = random_array({4, 5}, 3), y = random_array({4, 5}, 4), positive = exp(x);
  const auto close = [](const Array& a, const Array& b) { return distance(a, b) < 1e-14; };
  CHECK(close(log2(positive), each(positive, y, [](double a, double) { return std::log2(a); })));
  CHECK(close(log10(positive), each(positive, y, [](double a, double) { return std::log10(a); })));
  CHECK(close(hypot(x, y), each(x, y, [](double a, double b) { return std::hypot(a, b); })));
  CHECK(close(logaddexp(x, y),
              each(x, y, [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); })));
  CHECK(log2(arange(3)).dtype() == f64);
  CHECK(hypot(x.to(f32), 1.0).dtype() == f32);
  check_gradient(
      "log2", [](const Array& v) { return log2(v); }, positive, 1e-5);
  check_gradient(
      "log10", [](const Array& v) { return log10(v); }, positive, 1e-5);
  using Two = Array (*)(const ArrayLike&, const ArrayLike&);
  for (const Two f : {Two(hypot), Two(logaddexp)}) {
    check_gradient(
        "by x", [&](const Array& v) { return f(v, y); }, x, 1e-5);
    check_gradient(
        "by y", [&](const Array& v) { return f(x, v); }, y, 1e-5);
    const auto slope = [&](const Array& v) { return grad([&](const Array& u) { return sum(f(u, y)); })(v); };
    check_gradient("second order", slope, x, 1e-5);
    // Also where the two are equal, and their magnitudes.
    check_gradient("second order", slope, y, 1e-5);
    check_gradient("second order", slope, -y, 1e-5);
    CHECK(distance(compile([&](const Array& a, const Array& b) { return f(a, b); })(x, y), f(x, y)) < 1e-15);
    CHECK(distance(vmap([&](const Array& a, const Array& b) { return f(a, b); })(x, y), f(x, y)) < 1e-15);
  }
  CHECK(bool(allclose(hypot(array({3e200, 0.0, inf, 3e-200}), array({4e200, 0.0, 1.0, 4e-200})),
                      array({5e200, 0.0, inf, 5e-200}), 1e-15, 0.0)));
  CHECK(hypot(inf, Array(-inf)).item() == inf);
  CHECK(bool(allclose(hypot(array({inf, nan, -inf, 3.0}), array({nan, -inf, nan, 4.0})),
                      array({inf, inf, inf, 5.0}))));
  CHECK(std::isnan(hypot(Array(nan), 1.0).item()));
  const auto at_origin = grad<0, 1>([](const Array& a, const Array& b) { return hypot(a, b); })(0.0, 0.0);
  CHECK(std::get<0>(at_origin).item() == 0);
  CHECK(std::get<1>(at_origin).item() == 0);
  CHECK(elements(logaddexp(array({1000.0, -1e20, -inf, inf, -inf}), array({1000.0, 1.0, -inf, inf, 2.0}))) ==
        std::vector<double>{1000 + std::log(2.0), 1, -inf, inf, 2});
  const auto by_both = grad<0, 1>([](const Array& a, const Array& b) { return logaddexp(a, b); })(-inf, 2.0);
  CHECK(std::get<0>(by_both).item() == 0);
  CHECK(std::get<1>(by_both).item() == 1);
  for (const double tie : {0.0, inf, -inf}) {
    const auto halves = grad<0, 1>([](const Array& a, const Array& b) { return logaddexp(a, b); })(tie, tie);
    CHECK(std::get<0>(halves).item() == 0.5);
    CHECK(std::get<1>(halves).item() == 0.5);
  }
}

TEST_CASE("numbers that replace NaN and infinities") {
  const double most = std::numeric_limits<double>::max();
  const Array x = array({1.0, nan, inf, -inf});
  CHECK(elements(nan_to_num(x)) == std::vector<double>{1, 0, most, -most});
  CHECK(elements(nan_to_num(x, 2, 3)) == std::vector<double>{1, 2, 3, -most});
  CHECK(elements(nan_to_num(x, 2, 3, 4)) == std::vector<double>{1, 2, 3, 4});
  for (const DType dtype : {f16, bf16, f32}) {
    CHECK(nan_to_num(x.to(dtype)).dtype() == dtype);
    CHECK(bool(all(isfinite(nan_to_num(x.to(dtype))))));
    CHECK(bool(all(isinf(2.0 * nan_to_num(x.to(dtype)).slice({{2, 4}})))));
  }
  CHECK(array_equal(nan_to_num(complex(x, flip(x))), complex(nan_to_num(x), nan_to_num(flip(x)))));
  CHECK(nan_to_num(arange(3)).dtype() == i64);
  CHECK(elements(grad([](const Array& v) { return sum(square(nan_to_num(v))); })(x)) ==
        std::vector<double>{2, 0, 0, 0});
}

TEST_CASE("equal and nearly equal") {
  const Array x = array({1.0, 100.0, nan, inf, inf, 0.0});
  const Array y = array({1.000001, 100.1, nan, inf, -inf, 1e-9});
  CHECK(elements(isclose(x, y)) == std::vector<double>{1, 0, 0, 1, 0, 1});
  CHECK(elements(isclose(x, y, 1e-2, 0.0, true)) == std::vector<double>{1, 1, 1, 1, 0, 0});
  CHECK(elements(isclose(array({1.0}), array({inf}))) == std::vector<double>{0});
  CHECK(isclose(ones({3, 1}), ones({2})).shape() == Shape{3, 2});
  CHECK_FALSE(bool(allclose(x, y)));
  CHECK(bool(allclose(ones({2, 2}), ones({2}) + 1e-9)));
  CHECK(bool(allclose(zeros({0}), ones({0}))));
  CHECK(bool(allclose(arange(3), arange(3.0))));
  CHECK(bool(array_equal(arange(3), arange(3.0))));
  CHECK_FALSE(bool(array_equal(ones({2, 1}), ones({2}))));
  CHECK_FALSE(bool(array_equal(x, x)));
  CHECK_FALSE(bool(array_equal(arange(3), arange(3).at(2).set(7))));
  CHECK(bool(compile([](const Array& a, const Array& b) { return allclose(a, b); })(ones({2}), ones({2}))));
  CHECK(elements(vmap([](const Array& a, const Array& b) { return array_equal(a, b); })(
            eye(2), ones({2, 2}) * eye(2))) == std::vector<double>{1, 1});
  CHECK(contains(error_of([&] { (void)isclose(ones({3}), ones({2})); }),
                 "[isclose] expected shapes that broadcast"));
  CHECK(contains(error_of([&] { (void)array_equal(Array(), x); }),
                 "[array_equal] expected Arrays with a value"));
}

TEST_CASE("the number of nonzero elements, and the median") {
  const Array x = array({{0.0, 1.0, nan}, {0.0, 0.0, 2.0}});
  CHECK(count_nonzero(x).item<int>() == 3);
  CHECK(count_nonzero(x).dtype() == i64);
  CHECK(elements(count_nonzero(x, 0)) == std::vector<double>{0, 1, 2});
  CHECK(count_nonzero(x > 0, 1, true).shape() == Shape{2, 1});
  const Array v = random_array({5, 4, 3}, 5);
  for (const std::int64_t axis : {0, 1, -1}) {
    const Array sorted = moveaxis(sort(v, axis), axis, 0);
    const std::int64_t n = sorted.shape(0);
    const Array expected = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    CHECK(distance(median(v, axis), expected) < 1e-15);
    CHECK(distance(median(v, axis, true), expand_dims(expected, axis)) < 1e-15);
    check_gradient(
        "median", [&](const Array& a) { return median(a, axis); }, v, 1e-5);
  }
  CHECK(median(arange(4)).item() == 1.5);
  CHECK(median(arange(5)).item() == 2);
  CHECK(median(v, std::nullopt, true).shape() == Shape{1, 1, 1});
  CHECK(std::isnan(median(x).item()));
  CHECK(elements(median(array({inf, inf, 1.0, inf}))) == std::vector<double>{inf});
  CHECK(distance(vmap([](const Array& a) { return median(a); })(v), median(v.reshape({5, 12}), 1)) < 1e-15);
  CHECK(contains(error_of([&] { (void)median(zeros({0})); }), "[median] expected an element"));
}

TEST_CASE("places in an order") {
  for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 9}) {
    std::vector<double> axis = elements(sort(round(2.0 * random_array({n}, 6))));
    std::vector<double> values = {-inf, -3, -2, -1, -0.5, 0, 1, 2, 5, inf};
    axis.insert(axis.end(), 2, inf);
    axis.push_back(nan);
    values.push_back(nan);
    const auto before = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
    std::vector<double> left, right;
    for (const double value : values) {
      double less = 0, not_greater = 0;
      for (const double a : axis) {
        less += before(a, value);
        not_greater += !before(value, a);
      }
      left.push_back(less);
      right.push_back(not_greater);
    }
    const Array sorted = array(axis, {static_cast<std::int64_t>(axis.size())}), wanted = array(values, {11});
    CHECK(elements(searchsorted(sorted, wanted)) == left);
    CHECK(elements(searchsorted(sorted, wanted, "right")) == right);
    const auto f = [&](const Array& value) { return searchsorted(sorted, value); };
    CHECK(elements(compile(f)(wanted)) == left);
    CHECK(elements(vmap(f)(wanted)) == left);
  }
  CHECK(searchsorted(arange(5), 3).item<int>() == 3);
  CHECK(searchsorted(arange(5), 2.5).item<int>() == 3);
  CHECK(searchsorted(zeros({0}), 2.5).item<int>() == 0);
  CHECK(searchsorted(arange(5), arange(4).reshape({2, 2})).type() == Type(i32, {2, 2}));
  CHECK(contains(error_of([&] { (void)searchsorted(eye(2), 1); }), "expected an Array of one axis"));
  CHECK(contains(error_of([&] { (void)searchsorted(arange(2), 1, "middle"); }), "got \"middle\""));
}

}  // namespace
}  // namespace arithmetic_cases
}  // namespace tidu::test
