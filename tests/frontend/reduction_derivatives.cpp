// reduction_derivatives.cpp - derivatives of reductions where a plain formula would overflow, underflow or
// round too early: closed forms in long double are the reference, in forward and reverse mode, over the range
// of each dtype.
#include <limits>

#include "support.hpp"

namespace tidu::test {
namespace {

double epsilon_of(DType dtype) {
  return dtype == f64 ? 0x1p-52 : dtype == f32 ? 0x1p-23 : dtype == f16 ? 0x1p-10 : 0x1p-7;
}

// ct f'(x) by reverse mode, on the tape and traced, and the derivative along `direction` by forward mode.
struct Slopes {
  std::vector<double> tape, traced;
  double forward;
};
Slopes slopes_of(const Function& f, const Array& x, const Array& cotangent, const Array& direction) {
  Slopes slopes;
  slopes.tape = elements(vjp(f, x).second(cotangent));
  slopes.traced = elements(compile([&](const Array& a) { return vjp(f, a).second(cotangent); })(x));
  slopes.forward = jvp(f, x, direction).second.item();
  return slopes;
}

// The softmax of the elements, as they are in the dtype.
std::vector<double> softmax_of(const std::vector<double>& x) {
  long double greatest = -INFINITY, total = 0.0L;
  for (const double each : x) greatest = std::max<long double>(greatest, each);
  for (const double each : x) total += std::exp(each - greatest);
  std::vector<double> weights;
  for (const double each : x) weights.push_back(static_cast<double>(std::exp(each - greatest) / total));
  return weights;
}

TEST_CASE("cumlogsumexp's last weights are softmax, however large the numbers are") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const double size : {0.0, 1.0, 100.0, 3000.0, 1e4, 1e7, 1e16, 1e300}) {
      if ((dtype == f16 && size > 3e4) || (dtype != f64 && size > 1e30)) continue;
      for (const std::int64_t n : {2, 3, 7, 40}) {
        const Array x = astype(size + random_array({n}, 5, 2.0), dtype);
        CAPTURE(to_string(x.type()));
        CAPTURE(size);
        const std::vector<double> expected = softmax_of(elements(x));
        for (const bool reverse : {false, true}) {
          const Function last = [&](const Array& a) {
            return cumlogsumexp(a, 0, reverse)[reverse ? 0 : n - 1];
          };
          const Slopes got = slopes_of(last, x, ones({}, dtype), astype(x == x[reverse ? n - 1 : 0], dtype));
          double along = 0.0;
          for (std::size_t i = 0; i < expected.size(); ++i) {
            const double tolerance = 16 * epsilon_of(dtype) * expected[i] + 1e-7 * epsilon_of(dtype);
            CHECK(std::abs(got.tape[i] - expected[i]) <= tolerance);
            CHECK(std::abs(got.traced[i] - expected[i]) <= tolerance);
            if (elements(x)[i] == elements(x)[reverse ? expected.size() - 1 : 0]) along += expected[i];
          }
          CHECK(std::abs(got.forward - along) <= 16 * epsilon_of(dtype));
        }
      }
    }
  }
}

TEST_CASE("cumlogsumexp of large equal numbers has softmax's second order") {
  const Array x = full({3}, 1e16);
  const auto last = [](const Array& a) { return cumlogsumexp(a)[2]; };
  const Array expected = array({2, -1, -1, -1, 2, -1, -1, -1, 2}, f64).reshape({3, 3}) / 9.0;
  CHECK(distance(hessian(last)(x), expected) < 1e-15);
  CHECK(distance(jacrev(grad(last))(x), expected) < 1e-15);
}

TEST_CASE("cumprod whose later products overflow has the gradients of the earlier ones") {
  for (const std::int64_t n : {3, 8, 21}) {
    const Array x = full({n}, 1e120);
    for (const bool reverse : {false, true}) {
      const auto second = [&](const Array& a) {
        return reverse ? cumprod(a, 0, true)[n - 2] : cumprod(a, 0)[1];
      };
      std::vector<double> slopes(static_cast<std::size_t>(n), 0.0);
      for (const std::int64_t i : {0, 1}) slopes[static_cast<std::size_t>(reverse ? n - 1 - i : i)] = 1e120;
      CHECK(elements(grad(second)(x)) == slopes);
      CHECK(elements(compile(grad(second))(x)) == slopes);
      const Array curvatures = hessian(second)(x);
      CHECK(static_cast<bool>(all(isfinite(curvatures))));
      CHECK(sum(curvatures).item() == 2.0);
    }
  }
}

TEST_CASE("a maximum of many equal elements has the weight of one of them, in each dtype") {
  struct Case {
    DType dtype;
    std::int64_t count;
    double cotangent, tolerance;
  };
  for (const Case& c : {Case{f16, 70000, 1000.0, 1e-3}, Case{f16, 3000, 1.0, 1e-3},
                        Case{bf16, 70000, 1.0, 8e-3}, Case{bf16, 300, 1.0, 8e-3}, Case{f32, 70000, 1.0, 1e-6},
                        Case{f16, 64, 1.0, 1e-6}, Case{f32, (1 << 24) + 64, 1.0, 1e-6}}) {
    CAPTURE(to_string(c.dtype));
    CAPTURE(c.count);
    const Array x = full({c.count}, 3.0, c.dtype);
    const double weight = c.cotangent / static_cast<double>(c.count);
    const Array cotangent = full({}, c.cotangent, c.dtype);
    for (const Function& f :
         {Function([](const Array& a) { return max(a); }), Function([](const Array& a) { return min(a); })}) {
      const Array gradient = vjp(f, x).second(cotangent);
      CHECK(astype(gradient[0], f64).item() == doctest::Approx(weight).epsilon(c.tolerance));
      CHECK(astype(gradient[c.count - 1], f64).item() == doctest::Approx(weight).epsilon(c.tolerance));
      CHECK(jvp(f, x, ones({c.count}, c.dtype)).second.item() == doctest::Approx(1.0).epsilon(c.tolerance));
    }
  }
}

TEST_CASE("gradients that clip does not pass to x go to a bound") {
  const auto total = [](const Array& t) { return clip(t, t, t + 1.0); };
  CHECK(grad(total)(Array(3.0)).item() == 1.0);
  for (const double x : {-1.0, 0.0, 0.5, 1.0, 2.0}) {
    for (const double lo : {0.0, 1.0}) {
      for (const double hi : {0.0, 1.0}) {
        const Array at = array({lo, x, hi});
        const auto clipped = [](const Array& a) { return clip(a[1], a[0], a[2]); };
        const bool ascending = lo < hi;
        const std::vector<double> expected{ascending && x <= lo ? 1.0 : 0.0, lo < x && x < hi ? 1.0 : 0.0,
                                           !ascending || x >= hi ? 1.0 : 0.0};
        CAPTURE(at);
        CHECK(elements(grad(clipped)(at)) == expected);
        CHECK(elements(jacfwd(clipped)(at)) == expected);
        CHECK(elements(hessian(clipped)(at)) == std::vector<double>(9, 0.0));
        const auto squared = [&](const Array& a) { return square(clipped(a)); };
        const Array second = hessian(squared)(at);
        for (std::size_t i = 0; i < 9; ++i)
          CHECK(elements(second)[i] == 2.0 * expected[i / 3] * expected[i % 3]);
      }
    }
  }
  const Array of_nan = grad([](const Array& a) { return clip(a, 0.0, 1.0); })(Array(NAN));
  CHECK(of_nan.item() == 0.0);
}

}  // namespace
}  // namespace tidu::test
