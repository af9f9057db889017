// high_orders.cpp - derivatives of orders up to 8, by every way of nesting, compared with closed forms: the
// values saved by one order must suffice for all that follow.
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "support.hpp"

namespace tidu::test {
namespace {

using Function = std::function<Array(const Array&)>;

// x^(power) a(x), where a's n-th derivative is known.
struct Monomial {
  const char* name;
  Function function;
  int power;
  double (*derivative)(int n, double x);
};

double d_sin(int n, double x) { return std::sin(x + n * std::numbers::pi / 2); }
double d_cos(int n, double x) { return std::cos(x + n * std::numbers::pi / 2); }
double d_sinh(int n, double x) { return n % 2 == 0 ? std::sinh(x) : std::cosh(x); }
double d_cosh(int n, double x) { return n % 2 == 0 ? std::cosh(x) : std::sinh(x); }
double d_exp(int, double x) { return std::exp(x); }
double d_reciprocal(int n, double x) { return std::pow(-1.0, n) * std::tgamma(n + 1) / std::pow(x, n + 1); }
double d_log(int n, double x) { return n == 0 ? std::log(x) : d_reciprocal(n - 1, x); }

// Leibniz: (x^p a)^(n) = sum over j of C(n, j) p (p - 1) ... (p - j + 1) x^(p - j) a^(n - j).
double expected(const Monomial& f, int n, double x) {
  double total = 0.0, binomial = 1.0, falling = 1.0;
  for (int j = 0; j <= n; ++j) {
    total += binomial * falling * std::pow(x, f.power - j) * f.derivative(n - j, x);
    binomial *= static_cast<double>(n - j) / (j + 1);
    falling *= f.power - j;
  }
  return total;
}

const std::vector<Monomial>& monomials() {
  static const std::vector<Monomial> all{
      {"sin(x) x x", [](const Array& x) { return sin(x) * x * x; }, 2, d_sin},
      {"cos(x) x x", [](const Array& x) { return cos(x) * x * x; }, 2, d_cos},
      {"sin(x) x x x", [](const Array& x) { return sin(x) * x * x * x; }, 3, d_sin},
      {"x x sinh(x)", [](const Array& x) { return x * x * sinh(x); }, 2, d_sinh},
      {"x x cosh(x)", [](const Array& x) { return x * x * cosh(x); }, 2, d_cosh},
      {"x x where(x > 0, sin(x), x)", [](const Array& x) { return x * x * where(x > 0.0, sin(x), x); }, 2,
       d_sin},
      {"pow(x, 3) exp(x)", [](const Array& x) { return pow(x, 3) * exp(x); }, 3, d_exp},
      {"square(x) log(x)", [](const Array& x) { return square(x) * log(x); }, 2, d_log},
      {"x x x x / x", [](const Array& x) { return x * x * x * x / x; }, 4, d_reciprocal},
  };
  return all;
}

Function nested(Function f, int order, const std::function<Function(Function)>& derivative) {
  for (int i = 0; i < order; ++i) f = derivative(f);
  return f;
}

constexpr int highest_order = 8;
constexpr double high_point = 0.7;

void check_each(const std::function<Array(const Monomial&, int, const Array&)>& derivative) {
  for (const Monomial& f : monomials()) {
    for (int n = 1; n <= highest_order; ++n) {
      CAPTURE(f.name);
      CAPTURE(n);
      const double right = expected(f, n, high_point);
      double got = NAN;
      CHECK(error_of([&] { got = derivative(f, n, Array(high_point)).item<double>(); }) == "");
      CHECK(std::abs(got - right) <= 1e-9 * (1.0 + std::abs(right)));
    }
  }
}

TEST_CASE("grad of grad of ... eagerly, to the eighth order") {
  check_each([](const Monomial& f, int n, const Array& x) {
    return nested(f.function, n, [](Function g) { return [g](const Array& a) { return grad(g)(a); }; })(x);
  });
}

TEST_CASE("backward of backward of ... of one tape, to the eighth order") {
  check_each([](const Monomial& f, int n, const Array& x) {
    Array a = x.copy();
    a.set_requires_grad();
    Array y = f.function(a);
    for (int i = 0; i < n; ++i) y = grad_of(y, {a}, {.create_graph = true})[0].value();
    return y;
  });
}

TEST_CASE("the same compiled, by jvp of jvp, and by both in turn") {
  check_each([](const Monomial& f, int n, const Array& x) {
    return compile(
        nested(f.function, n, [](Function g) { return [g](const Array& a) { return grad(g)(a); }; }))(x);
  });
  const auto forward = [](Function g) -> Function {
    return [g](const Array& a) { return jvp(g, a, ones_like(a)).second; };
  };
  check_each([&](const Monomial& f, int n, const Array& x) { return nested(f.function, n, forward)(x); });
  check_each([&](const Monomial& f, int n, const Array& x) {
    int level = 0;
    return nested(f.function, n, [&](Function g) -> Function {
      if (level++ % 2 == 0) return forward(g);
      return [g](const Array& a) { return grad(g)(a); };
    })(x);
  });
}

TEST_CASE("derivatives of outputs that were read along the way are unchanged") {
  // Several outputs of the same operations, each of which saves values of the others.
  Array x(high_point);
  x.set_requires_grad();
  const Array s = sin(x), c = cos(x);
  Array y = s * c * x;  // x sin(2 x) / 2
  for (int n = 1; n <= highest_order; ++n) {
    y = grad_of(y, {x}, {.create_graph = true})[0].value();
    const double right = 0.5 * (high_point * std::pow(2.0, n) * d_sin(n, 2 * high_point) +
                                n * std::pow(2.0, n - 1) * d_sin(n - 1, 2 * high_point));
    CAPTURE(n);
    CHECK(std::abs(y.item<double>() - right) <= 1e-10 * (1.0 + std::abs(right)));
  }
}

}  // namespace
}  // namespace tidu::test
