// edge_cases.cpp - numbers at the ends of the ranges of dtypes, powers of empty Arrays, results without
// derivatives, and rules of users that treat a cotangent and its negative differently.
#include <cmath>
#include <limits>

#include "frontend/support.hpp"

namespace tidu::test::edge_cases {
namespace {

double at(const Array& x, std::int64_t i) { return x.tensor().at(i).real(); }

}  // namespace

TEST_CASE("softmax, log_softmax and avg_pool of 16 bits hold sums that f16 does not") {
  for (const DType dtype : {f16, bf16, f32}) {
    const Array x = zeros({70000}, dtype);
    CHECK(log_softmax(x).dtype() == dtype);
    CHECK(at(log_softmax(x), 5) == doctest::Approx(-std::log(70000.0)).epsilon(1e-2));
    CHECK(at(softmax(x), 69999) == doctest::Approx(1 / 70000.0).epsilon(1e-2));
    const Array gradient = grad([](const Array& y) { return log_softmax(y)[{0}]; })(x);
    CHECK(at(gradient, 0) == doctest::Approx(1.0).epsilon(1e-2));
    const Array pooled = avg_pool(full({1, 1, 4, 4}, 30000.0, dtype), {4, 4});
    CHECK(pooled.dtype() == dtype);
    CHECK(at(pooled, 0) == doctest::Approx(30000.0).epsilon(1e-2));
  }
}

TEST_CASE("whole numbers of the program are rounded once, as those of arrays are") {
  // Just above the middle of two f32; of two bf16 by way of f64 and of f32.
  for (const std::int64_t number : {(std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1,
                                    (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1}) {
    for (const std::int64_t signed_number : {number, -number}) {
      for (const DType dtype : {f32, bf16, c64}) {
        const Array whole(signed_number);
        REQUIRE(whole.dtype() == i64);
        const double expected = at(whole.to(dtype), 0);
        CHECK(at(array({signed_number}, dtype), 0) == expected);
        CHECK(at(full({1}, signed_number, dtype), 0) == expected);
        CHECK(at(ones({1}, dtype) * signed_number, 0) == expected);
        CHECK(Literal::scalar(dtype, signed_number).at(0).real() == expected);
      }
    }
  }
}

TEST_CASE("linspace between ends that are far apart is finite") {
  const Array far = linspace(0, 1e308, 50), both = linspace(-1e308, 1e308, 3);
  CHECK(at(far, 25) == doctest::Approx(1e308 / 49 * 25));
  CHECK(at(far, 49) == 1e308);
  CHECK(at(both, 0) == -1e308);
  CHECK(at(both, 1) == 0.0);
}

TEST_CASE("derivatives of x^y by x and y where y is 0 are 1/x, and -1/x^2 by x again") {
  const Array x = array({0.25, 2.0, 1e100}), zero = zeros({3});
  const auto by_x = [](const Array& y, const Array& a) {
    return vjp([&](const Array& b) { return pow(b, y); }, a).second(ones_like(a));
  };
  const auto mixed = [&](const Array& a) {
    return jvp([&](const Array& y) { return by_x(y, a); }, zero, ones_like(zero)).second;
  };
  CHECK(distance(mixed(x) * x, ones({3})) < 1e-15);
  const Array third = jvp(mixed, x, ones_like(x)).second;
  CHECK(distance(third * x * x, full({3}, -1.0)) < 1e-15);
}

TEST_CASE("a whole power of nothing has derivatives as a number's") {
  const auto polynomial = [](const Array& x) { return sum(pow(x, arange(4))); };  // 1 + x + x^2 + x^3
  CHECK(grad(polynomial)(Array(0.0)).item<double>() == 1.0);
  CHECK(grad(grad(polynomial))(Array(0.0)).item<double>() == 2.0);
  CHECK(jacfwd(polynomial)(Array(0.0)).item<double>() == 1.0);
  CHECK(grad(polynomial)(Array(2.0)).item<double>() == doctest::Approx(1 + 4 + 12));
  Array x(0.0);
  x.set_requires_grad();
  polynomial(x).backward();
  CHECK(x.grad()->item<double>() == 1.0);
  CHECK(at(pow(array({0.0, std::nan("")}), array({0, 0})), 1) == 1.0);
}

TEST_CASE("Jacobians of functions that give integers, too, have zeros for those") {
  const Array x = array({1.0, 2.0, 3.0});
  const auto last = [](const Array& y) { return std::pair(sin(y), argmax(y)); };
  const auto first = [](const Array& y) { return std::pair(argmax(y), sin(y)); };
  for (const bool forward : {false, true}) {
    const auto [sines, none] = forward ? jacfwd(last)(x) : jacrev(last)(x);
    const auto [nothing, of_first] = forward ? jacfwd(first)(x) : jacrev(first)(x);
    for (const Array& jacobian : {sines, of_first}) {
      REQUIRE(jacobian.shape() == Shape{3, 3});
      CHECK(at(jacobian, 4) == doctest::Approx(std::cos(2.0)));
    }
    for (const Array& jacobian : {none, nothing}) {
      REQUIRE(jacobian.shape() == Shape{3});
      CHECK(sum(abs(jacobian)).item<double>() == 0.0);
    }
  }
}

TEST_CASE(
    "custom_vjp: backward gets the negative cotangent itself, of which its own need not be the negative") {
  const auto ramp =
      custom_vjp([](const Array& x) { return x * 1.0; }, [](const Array& x) { return std::pair(x * 1.0, x); },
                 [](const Array&, const Array& ct) { return maximum(ct, 0.0); });
  const auto decay =
      custom_vjp([](const Array& x) { return x * 1.0; }, [](const Array& x) { return std::pair(x * 1.0, x); },
                 [](const Array& x, const Array& ct) { return ct + 0.5 * x; });
  const Array x = array({1.0, 2.0});
  const auto check = [&](const auto& f, double first, double second) {
    const auto is = [&](const Array& got) {
      CHECK(at(got, 0) == first);
      CHECK(at(got, 1) == second);
    };
    is(grad(f)(x));
    is(compile(grad(f))(x));
    Array leaf = x.copy();
    leaf.set_requires_grad();
    f(leaf).backward();
    is(*leaf.grad());
  };
  check([&](const Array& a) { return 3.0 - sum(ramp(a)); }, 0.0, 0.0);
  check([&](const Array& a) { return -sum(decay(a)); }, -0.5, 0.0);
  // Within an operation that holds a graph.
  check([&](const Array& a) { return -sum(checkpoint([&](const Array& b) { return ramp(b) * 2.0; })(a)); },
        0.0, 0.0);
}

TEST_CASE("custom_vjp: backward that adds to a cotangent runs whichever result is read") {
  const auto two =
      custom_vjp([](const Array& a) { return std::pair(a * 1.0, a * 2.0); },
                 [](const Array& a) { return std::pair(std::pair(a * 1.0, a * 2.0), a); },
                 [](const Array& a, const std::pair<Array, Array>& ct) { return ct.first + 0.5 * a; });
  const Array x = array({1.0, 2.0});
  CHECK(at(grad([&](const Array& a) { return sum(two(a).second); })(x), 1) == 1.0);
  CHECK(at(grad([&](const Array& a) { return sum(two(a).first); })(x), 1) == 2.0);
  // Forward mode is the derivative of the function then.
  const auto three =
      custom_vjp([](const Array& a) { return a * 1.0; }, [](const Array& a) { return std::pair(a * 1.0, a); },
                 [](const Array& a, const Array& ct) { return 3.0 * ct + 0.5 * a; });
  CHECK(at(jvp(three, x, ones_like(x)).second, 1) == 1.0);
  CHECK(at(grad([&](const Array& a) { return sum(three(a)); })(x), 1) == 4.0);
}

TEST_CASE("reductions refuse more dimensions than they count, and take all that they do") {
  const auto of_rank = [](std::size_t rank) {
    Shape shape(rank, 1);
    shape.back() = 3;
    return reshape(array({1.0, 2.0, 4.0}), shape);
  };
  CHECK(sum(of_rank(62)).item() == 7.0);
  CHECK(sum(of_rank(62), 61).size() == 1);
  for (const std::size_t rank : {63U, 64U, 70U}) {
    CHECK(contains(error_of([&] { (void)sum(of_rank(rank)); }), "at most 62 dimensions, got one of"));
    CHECK(contains(error_of([&] { (void)max(of_rank(rank), -1); }), "at most 62 dimensions, got one of"));
  }
}

}  // namespace tidu::test::edge_cases
