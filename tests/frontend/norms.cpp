// norms.cpp - norms and standard deviations over the range of each dtype: values, first and second
// derivatives in forward and reverse mode against closed forms in long double, and derivatives 0 where a
// length is 0.
#include <limits>

#include "support.hpp"

namespace tidu::test {
namespace {

using linalg::norm;
using linalg::vector_norm;
using Long = std::vector<long double>;

struct Range {
  DType dtype;
  double epsilon, least, greatest;  // of normal numbers
};
const Range ranges[] = {{f64, 0x1p-52, 0x1p-1022, 0x1p1022},
                        {f32, 0x1p-23, 0x1p-126, 0x1p126},
                        {f16, 0x1p-10, 0x1p-14, 0x1p14},
                        {bf16, 0x1p-7, 0x1p-126, 0x1p126}};

Long longs(const Array& x) {
  Long result;
  for (const double each : elements(x)) result.push_back(each);
  return result;
}
long double length_of(const Long& x, long double p) {
  long double total = 0.0L;
  for (const long double each : x) total += std::pow(std::abs(each), p);
  return std::pow(total, 1.0L / p);
}
// sign(x) (|x| / length)^(p-1)
Long slopes_of(const Long& x, long double p) {
  const long double length = length_of(x, p);
  Long slopes;
  for (const long double each : x)
    slopes.push_back(each == 0.0L ? 0.0L : std::copysign(std::pow(std::abs(each) / length, p - 1.0L), each));
  return slopes;
}

void check_near(const Array& got, const Long& expected, double tolerance, double floor) {
  REQUIRE(static_cast<std::size_t>(got.size()) == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const long double error = std::abs(static_cast<long double>(elements(got)[i]) - expected[i]);
    CHECK_MESSAGE(error <= tolerance * std::abs(expected[i]) + floor, i, ": ", elements(got)[i], " for ",
                  static_cast<double>(expected[i]));
  }
}

// In reverse mode with that cotangent, on the tape and traced, and in forward mode.
void check_slopes(const Function& f, const Array& x, double cotangent, const Long& slopes,
                  const Range& range) {
  Long expected;
  const Array ct = full({}, cotangent, x.dtype());
  for (const long double slope : slopes) expected.push_back(slope * static_cast<long double>(ct.item()));
  const double tolerance = 12 * range.epsilon, floor = range.least * range.epsilon;
  check_near(vjp(f, x).second(ct), expected, tolerance, floor);
  check_near(compile([&](const Array& a) { return vjp(f, a).second(ct); })(x), expected, tolerance, floor);
  const Array direction = astype(arange(x.size(), f64) - 1.0, x.dtype()).reshape(x.shape());
  long double along = 0.0L, size = 0.0L;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    along += slopes[i] * (static_cast<long double>(i) - 1.0L);
    size += std::abs(slopes[i] * (static_cast<long double>(i) - 1.0L));
  }
  CHECK(std::abs(jvp(f, x, direction).second.item() - static_cast<double>(along)) <=
        tolerance * static_cast<double>(size));
}

TEST_CASE("norms neither overflow nor underflow, nor do their derivatives times any cotangent") {
  for (const Range& range : ranges) {
    for (const double where : {0.0, 0.01, 0.1, 0.3, 0.5, 0.55, 0.7, 0.9, 0.97}) {
      const double size = std::exp2(std::log2(range.least) * (1 - where) + std::log2(range.greatest) * where);
      for (const std::int64_t n : {1, 2, 5, 70}) {
        const Array x = astype(random_array({n}, 8) * size * (n > 9 ? 0.1 : 0.2), range.dtype);
        CAPTURE(to_string(x.type()));
        CAPTURE(size);
        const Long at = longs(x);
        const Function euclidean = [](const Array& a) { return norm(a); };
        const double floor = range.least * range.epsilon;
        check_near(euclidean(x), {length_of(at, 2)}, 4 * range.epsilon, floor);
        for (const double cotangent : {1.0, range.greatest / 8, range.least})
          check_slopes(euclidean, x, cotangent, slopes_of(at, 2), range);
        for (const double p : {3.0, 1.5, 0.5, -2.0}) {
          CAPTURE(p);
          if (std::abs(p) < 1 && n > 9) continue;  // its length is some n² times larger
          const Function of_order = [&](const Array& a) { return vector_norm(a, p); };
          check_near(of_order(x), {length_of(at, p)}, 16 * range.epsilon, floor);
          if (where > 0.0)
            check_slopes(of_order, x, 1.0, slopes_of(at, p),
                         {range.dtype, 4 * range.epsilon, range.least, range.greatest});
        }
      }
    }
  }
}

TEST_CASE("the second derivative of a norm is (I - u uᵀ) / n at any size") {
  for (const double size : {1e-250, 1e-160, 1e-30, 1.0, 1e30, 1e160, 1e300}) {
    CAPTURE(size);
    const Array x = array({3.0, -4.0, 12.0}) * size, u = array({3.0, -4.0, 12.0}) / 13.0;
    const Array expected = (eye(3) - u.reshape({3, 1}) * u) / (13.0 * size) * size;
    const auto of = [](const Array& a) { return norm(a); };
    CHECK(distance(hessian(of)(x) * size, expected) < 1e-15);
    CHECK(distance(jacrev(grad(of))(x) * size, expected) < 1e-15);
    CHECK(distance(hvp(of, x, array({1.0, 2.0, 3.0})) * size, matmul(expected, array({1.0, 2.0, 3.0}))) <
          1e-15);
  }
  check_gradient(
      "second order",
      [](const Array& a) {
        return sum(square(grad([](const Array& b) { return sum(norm(b, 1)); })(a))) +
               sum(grad([](const Array& b) { return sum(vector_norm(b, 3, 0)); })(a));
      },
      random_array({3, 4}, 3), 1e-6);
  check_gradient(
      "third order",
      [](const Array& a) { return sum(square(hvp([](const Array& b) { return norm(b); }, a, ones({4})))); },
      random_array({4}, 3), 1e-5);
}

TEST_CASE("norms of rows of every size at once, also in vmap") {
  const Array x = array({3e-200, 4e-200, 3.0, 4.0, 3e200, 4e200, 0.0, 0.0}, {4, 2});
  const std::vector<double> expected{5e-200, 5.0, 5e200, 0.0};
  const auto close = [&](const Array& got) {
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(elements(got)[i] == doctest::Approx(expected[i]).epsilon(1e-15));
  };
  close(norm(x, 1));
  close(vmap([](const Array& row) { return norm(row); })(x));
  close(norm(transpose(x), 0));
  const Array directions = array({0.6, 0.8, 0.6, 0.8, 0.6, 0.8, 0.0, 0.0}, {4, 2});
  const auto total = [](const Array& a) { return sum(norm(a, 1)); };
  const Array wide = concatenate({x, zeros({4, 98})}, 1);
  CHECK(distance(grad(total)(x), directions) < 1e-15);
  CHECK(distance(grad(total)(wide), concatenate({directions, zeros({4, 98})}, 1)) < 1e-15);
  CHECK(distance(vmap(grad([](const Array& row) { return norm(row); }))(wide), grad(total)(wide)) < 1e-15);
}

TEST_CASE("complex norms and their derivatives at any size") {
  for (const double size : {1e-200, 1.0, 1e200}) {
    const Array z = complex(array({3.0, 0.0}), array({0.0, -4.0})) * size;
    CHECK(norm(z).item() == doctest::Approx(5.0 * size).epsilon(1e-15));
    const Array expected = z / (5.0 * size);
    CHECK(distance(grad([](const Array& a) { return norm(a); })(z), expected) < 1e-15);
    CHECK(jvp([](const Array& a) { return norm(a); }, z, expected).second.item() == doctest::Approx(1.0));
    CHECK(distance(grad([](const Array& a) { return vector_norm(a, 3.0); })(z),
                   z / size * array({3.0, 4.0}) / std::pow(91.0, 2.0 / 3)) < 1e-15);
  }
}

TEST_CASE("where a length is 0 its derivatives of every order are 0") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    const Array x = zeros({2, 3}, dtype), v = ones({2, 3}, dtype);
    for (const double p : {2.0, 3.0, 1.5, 1.0, 0.5, 0.0, -1.0, double{INFINITY}, -double{INFINITY}}) {
      CAPTURE(p);
      const auto of = [&](const Array& a) { return sum(vector_norm(a, p, 1)); };
      CHECK(elements(grad(of)(x)) == std::vector<double>(6, 0.0));
      CHECK(jvp(of, x, v).second.item() == 0.0);
      CHECK(elements(hvp(of, x, v)) == std::vector<double>(6, 0.0));
      CHECK(elements(hvp([&](const Array& a) { return sum(grad(of)(a)); }, x, v)) ==
            std::vector<double>(6, 0.0));
    }
    for (const double equal : {0.0, 7.0}) {
      const Array same = full({2, 3}, equal, dtype);
      for (const Function& of : {Function([](const Array& a) { return sum(stddev(a, 1)); }),
                                 Function([](const Array& a) { return stddev(a); })}) {
        CHECK(of(same).item() == 0.0);
        CHECK(elements(grad(of)(same)) == std::vector<double>(6, 0.0));
        CHECK(jvp(of, same, v).second.item() == 0.0);
        CHECK(elements(hvp(of, same, v)) == std::vector<double>(6, 0.0));
      }
      CHECK(elements(grad([](const Array& a) { return var(a); })(same)) == std::vector<double>(6, 0.0));
    }
  }
}

TEST_CASE("an element 0 of a vector that is not has a finite derivative for each order") {
  const Array x = array({0.0, 3.0, -4.0});
  for (const double p : {2.0, 3.0, 1.5, 1.0, 0.5, double{INFINITY}}) {
    CAPTURE(p);
    const auto of = [&](const Array& a) { return vector_norm(a, p); };
    CHECK(grad(of)(x)[0].item() == 0.0);
    CHECK(static_cast<bool>(all(isfinite(hessian(of)(x)))));
  }
}

TEST_CASE("standard deviations at any size: of numbers, gradients and Hessians") {
  for (const Range& range : ranges) {
    for (const double where : {0.1, 0.3, 0.5, 0.55, 0.7, 0.9}) {
      const double size = std::exp2(std::log2(range.least) * (1 - where) + std::log2(range.greatest) * where);
      const Array x = astype(random_array({7}, 8) * size * 0.2, range.dtype);
      CAPTURE(to_string(x.type()));
      CAPTURE(size);
      Long distances = longs(x);
      long double mean = 0.0L;
      for (const long double each : distances) mean += each / 7;
      for (long double& each : distances) each -= mean;
      const long double length = length_of(distances, 2), root = std::sqrt(6.0L);
      const Function of = [](const Array& a) { return stddev(a, {}, 1); };
      const double floor = range.least * range.epsilon;
      check_near(of(x), {length / root}, 8 * range.epsilon, floor);
      Long slopes;
      for (const long double each : distances) slopes.push_back(each / length / root);
      check_near(grad(of)(x), slopes, 16 * range.epsilon, 4 * range.epsilon);
    }
  }
  check_gradient(
      "stddev, second order",
      [](const Array& a) {
        return sum(square(grad([](const Array& b) { return sum(stddev(b, 1) * stddev(b, 1, 1)); })(a)));
      },
      random_array({3, 5}, 4), 1e-6);
}

}  // namespace
}  // namespace tidu::test
