// complex_numbers.cpp - numbers of type std::complex as operands of Arrays: their dtypes, and results
// compared with std::complex itself.
#include <complex>
#include <string>

#include "support.hpp"

namespace tidu::test {
namespace complex_numbers_cases {
namespace {

using Number = std::complex<double>;
const Number c(0.5, -2.0);

std::vector<Number> numbers(const Array& x) {
  std::vector<Number> result;
  for (std::int64_t i = 0; i < x.size(); ++i) result.push_back(x.tensor().at(i));
  return result;
}

template <class F, class Oracle>
void check(const Array& x, const F& f, const Oracle& oracle) {
  std::vector<Number> expected;
  for (const Number& a : numbers(x)) expected.push_back(oracle(a));
  const auto same = [&](const Array& y) {
    const std::vector<Number> got = numbers(y);
    double greatest = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i)
      greatest = std::max(greatest, std::abs(got[i] - expected[i]));
    CHECK(got.size() == expected.size());
    CHECK(greatest < (y.dtype() == c64 ? 1e-5 : 1e-14));
    CHECK(y.dtype() == f(x).dtype());
  };
  same(f(x));
  same(compile(f)(x));
  same(vmap(f)(x));
  same(call_graph(trace(f, x), {x})[0]);
  const Lazy lazy;
  same(f(x));
}

TEST_CASE("complex numbers are operands on either side") {
  const Array z = complex(random_array({6}, 1), random_array({6}, 2));
  for (const Array& x : {z, z.to(c64), real(z), real(z).to(f32)}) {
    check(
        x, [](const Array& a) { return a + c; }, [](Number a) { return a + c; });
    check(
        x, [](const Array& a) { return a - c; }, [](Number a) { return a - c; });
    check(
        x, [](const Array& a) { return a * c; }, [](Number a) { return a * c; });
    check(
        x, [](const Array& a) { return a / c; }, [](Number a) { return a / c; });
    check(
        x, [](const Array& a) { return c + a; }, [](Number a) { return c + a; });
    check(
        x, [](const Array& a) { return c - a; }, [](Number a) { return c - a; });
    check(
        x, [](const Array& a) { return c * a; }, [](Number a) { return c * a; });
    check(
        x, [](const Array& a) { return c / a; }, [](Number a) { return c / a; });
    check(
        x, [](const Array& a) { return pow(a, Number(2)) + where(isfinite(a), c, a); },
        [](Number a) { return a * a + c; });
  }
}

TEST_CASE("a complex number takes the precision of the other operand") {
  const std::complex<float> single(1.5F, 0.25F);
  CHECK((ones({2}, f16) * c).dtype() == c64);
  CHECK((ones({2}, f32) * c).dtype() == c64);
  CHECK((ones({2}, f64) * single).dtype() == c128);
  CHECK((ones({2}, c64) * c).dtype() == c64);
  CHECK((ones({2}, i32) * single).dtype() == c128);
  CHECK((ones({2}, bool_) * c).dtype() == c128);
  CHECK((ones({2}) * Number(3.0)).dtype() == c128);  // also where its imaginary part is 0
  CHECK(where(array({true}), c, 1.0).dtype() == c128);
  CHECK(Array(c).type() == Type(c128));
  CHECK(Array(single).type() == Type(c64));
  CHECK(Array(c).item<Number>() == c);
  CHECK(elements(Array(c) == c) == std::vector<double>{1});
  Array x = ones({2});
  x *= c;
  CHECK(x.dtype() == c128);
  CHECK(contains(error_of([&] { (void)(ones({2}) < c); }), "in less(f64[2], c128[])"));
  CHECK(contains(error_of([&] { (void)ones({2}).at(0).set(c); }), "got complex ones, c128[]"));
}

TEST_CASE("derivatives of products with complex numbers") {
  // f(x) = Re(c x · conj(c x)) = |c|² x², of real and of complex x.
  const auto f = [](const Array& x) { return sum(real((c * x) * conj(c * x))); };
  const Array x = random_array({3}, 3), z = complex(x, random_array({3}, 4));
  CHECK(distance(grad(f)(x), 2.0 * std::norm(c) * x) < 1e-13);
  CHECK(distance(grad(f)(z), 2.0 * std::norm(c) * z) < 1e-13);
  CHECK(distance(compile(grad(f))(z), 2.0 * std::norm(c) * z) < 1e-13);
  CHECK(distance(vjp([](const Array& a) { return c * a; }, z).second(z), std::conj(c) * z) < 1e-13);
  CHECK(distance(jvp([](const Array& a) { return a / c; }, z, z).second, z / c) < 1e-13);
  check_gradient(
      "parts", [](const Array& a) { return real(a * c) + imag(a / c); }, x);
}

TEST_CASE("on a branch cut derivatives are those of the side on which the value is") {
  using Function = Array (*)(const Array&);
  const std::pair<const char*, Function> functions[] = {{"asin", [](const Array& z) { return asin(z); }},
                                                        {"acos", [](const Array& z) { return acos(z); }},
                                                        {"acosh", [](const Array& z) { return acosh(z); }}};
  for (const auto& one : functions) {
    const std::string name = one.first;
    const Function f = one.second;
    for (const double x : {2.0, -2.0, 0.5, -0.5}) {
      for (const double side : {0.0, -0.0}) {
        for (const bool imaginary : {false, true}) {
          const auto part = [&](const Array& a) {
            const Array y = f(complex(a, full_like(a, side)));
            return imaginary ? imag(y) : real(y);
          };
          const double h = 1e-5;
          const double expected = (part(Array(x + h)).item() - part(Array(x - h)).item()) / (2 * h);
          CAPTURE(name);
          CAPTURE(x);
          CAPTURE(side);
          CAPTURE(imaginary);
          CHECK(grad(part)(Array(x)).item() == doctest::Approx(expected));
          CHECK(jvp(part, Array(x), Array(1.0)).second.item() == doctest::Approx(expected));
        }
      }
    }
  }
}

TEST_CASE("complex numbers in a loop that becomes hot") {
  const Array z = complex(random_array({4}, 5), random_array({4}, 6));
  const auto loop = [&](const auto&... guards) {
    (void)sizeof...(guards);
    Array x = z;
    for (int i = 0; i < 40; ++i) x = (x * Number(0.0, 1.0) + Number(0.25, i)) / Number(1.0, 1.0);
    return x.copy();
  };
  const Array expected = loop();
  const HotPaths hot;
  CHECK(distance(loop(hot), expected) < 1e-14);
}

}  // namespace
}  // namespace complex_numbers_cases
}  // namespace tidu::test
