// matrix_gradients.cpp - gradients and second derivatives of functions of decompositions that do not depend
// on signs, phases or bases, of every kind of matrix (matrices_kinds.cpp): by closed forms in long double.
#include <algorithm>

#include "cpu/compare.hpp"
#include "cpu/matrices.hpp"
#include "primitives/matrices.hpp"
#include "support/support.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/linalg.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::test::matrix_gradients_cases {
namespace {

constexpr DType dtypes[] = {f32, f64, c64, c128};
bool wide(DType dtype) { return dtype == f64 || dtype == c128; }

Value sum(Value x) {
  Ints axes;
  for (std::size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return ops::reduce_sum(x, axes);
}
Value sum_of_logarithms(Value x) { return sum(ops::log(ops::abs(x))); }

using Function = Value (*)(Value);
Value by_svd(Value x) { return sum_of_logarithms(ops::svd(x)[1]); }
Value by_qr(Value x) { return sum_of_logarithms(prim::diagonal(ops::qr(x)[1])); }
Value by_lu(Value x) { return sum_of_logarithms(prim::diagonal(ops::lu(x)[0])); }
Value by_eigh(Value x) { return sum_of_logarithms(ops::eigh(x)[1]); }
Value by_cholesky(Value x) {
  const Value half = sum_of_logarithms(prim::diagonal(ops::cholesky(x)));
  return half + half;
}
Value squares_by_svd(Value x) { return sum(ops::square(ops::svd(x)[1])); }
Value squares_by_eigh(Value x) { return sum(ops::square(ops::eigh(x)[1])); }
Value nuclear(Value x) { return sum(ops::svd(x)[1]); }

// Re <x, y>, of which the gradient by x is y.
Value paired(Value x, Value y) {
  const Value total = sum((is_complex(x.dtype()) ? ops::conj(x) : x) * y);
  return is_complex(total.dtype()) ? ops::real(total) : total;
}

// The gradient of f at x, its derivative along v (forward over reverse) and the gradient of <gradient, v>
// (reverse over reverse).
struct Derivatives {
  Dense gradient, forward, reverse;
};
class Differentiated {
 public:
  Differentiated(const Graph& f, DType dtype, std::int64_t m, std::int64_t n)
      : dtype_(dtype), gradient_(grad(f, {}, {.named_inputs = true})), forward_(jvp(gradient_)) {
    const Type type(dtype, {m, n});
    GraphBuilder g("slope");
    const Value x = g.input("x", type), v = g.input("v", type);
    const Value slope = inline_graph(g, gradient_, std::array{x})[gradient_.outputs()[0]];
    reverse_ = grad(g.build({paired(v, slope)}), {"x"});
  }
  Derivatives operator()(const Dense& x, const Dense& v) const {
    const Tensor at = tensor_of(x, dtype_), along = tensor_of(v, dtype_);
    return {dense_of(cpu().run(gradient_, {at})[0]), dense_of(cpu().run(forward_, {at, along})[1]),
            dense_of(cpu().run(reverse_, {at, along})[0])};
  }

 private:
  DType dtype_;
  Graph gradient_, forward_, reverse_;
};
Differentiated differentiated(Function f, DType dtype, std::int64_t m, std::int64_t n) {
  GraphBuilder g("f");
  return {g.build({f(g.input("x", {dtype, {m, n}}))}), dtype, m, n};
}

long double relative(const Dense& x, const Dense& expected) {
  const long double size = frobenius(expected);
  return frobenius(combined(1, x, -1, expected)) / (size > 0 ? size : 1);
}
Dense hermitian(const Dense& x) { return combined(0.5L, x, 0.5L, adjoint(x)); }

// The least distance of the values from each other and, where `from_zero`, from 0, relative to the largest.
long double gap(Values (*f)(Value, Where), const Dense& x, DType dtype, bool from_zero = false) {
  GraphBuilder g("f");
  const Graph graph = g.build({f(g.input("x", {dtype, {x.rows, x.columns}}), Where::current())[1]});
  std::vector<long double> values;
  for (const Number& value : dense_of(cpu().run(graph, {tensor_of(x, dtype)})[0]).elements)
    values.push_back(value.real());
  if (from_zero) values.push_back(0);
  std::sort(values.begin(), values.end());
  const long double most = std::max(std::abs(values.front()), std::abs(values.back()));
  long double least = most;
  for (std::size_t i = 1; i < values.size(); ++i) least = std::min(least, values[i] - values[i - 1]);
  return most > 0 ? least / most : 0;
}

// By how much elements grow in LU factors with pivoting of rows.
long double growth(const Dense& x, DType dtype) {
  GraphBuilder g("f");
  const Graph graph = g.build({ops::lu(g.input("x", {dtype, {x.rows, x.columns}}))[0]});
  return std::max(1.0L, largest(dense_of(cpu().run(graph, {tensor_of(x, dtype)})[0])) / largest(x));
}

// The matrix data of a test for one size and dtype.
struct Case {
  Dense x, v;
  DType dtype;
  long double rounding;  // of a sum of n terms, with some to spare
  long double limit;     // of conditions that are tried
};

void check_near(const char* name, const Dense& got, const Dense& expected, long double tolerance) {
  CAPTURE(name);
  CHECK(relative(got, expected) <= tolerance);
}

// Σ log of the magnitudes of the factors of det x: gradient x⁻ᴴ, along v -x⁻ᴴ vᴴ x⁻ᴴ.
void check_logarithms(const char* name, const Differentiated& f, const Case& c, long double distinct) {
  const Dense y = inverse(c.x);
  const long double condition = y.rows == 0 ? HUGE_VALL : frobenius(c.x) * frobenius(y);
  if (!(condition < c.limit)) return;
  const Derivatives d = f(c.x, c.v);
  const Dense second = combined(-1, product(adjoint(y), product(adjoint(c.v), adjoint(y))), 0, y);
  check_near(name, d.gradient, adjoint(y), c.rounding * condition);
  if (distinct < 1 / c.limit) return;
  const long double tolerance = c.rounding * condition * condition / distinct;
  check_near(name, d.forward, second, tolerance);
  check_near(name, d.reverse, second, tolerance);
}

void check_squares(const char* name, const Differentiated& f, const Case& c, bool symmetric,
                   long double distinct) {
  const Derivatives d = f(c.x, c.v);
  const Dense x = symmetric ? hermitian(c.x) : c.x, v = symmetric ? hermitian(c.v) : c.v;
  check_near(name, d.gradient, combined(2, x, 0, x), c.rounding);
  if (distinct < 1 / c.limit) return;
  check_near(name, d.forward, combined(2, v, 0, v), c.rounding / distinct);
  check_near(name, d.reverse, combined(2, v, 0, v), c.rounding / distinct);
}

// The unitary factor of the polar decomposition by Newton's iteration (Higham 1986).
Dense polar(Dense x) {
  for (int i = 0; i < 60; ++i) {
    const Dense y = adjoint(inverse(x));
    const long double scale = std::sqrt(frobenius(y) / frobenius(x));
    x = combined(scale / 2, x, 1 / (2 * scale), y);
  }
  return x;
}

Dense definite(const Dense& x, DType dtype) {
  Dense s = product(x, adjoint(x));
  const long double size = largest(s) > 0 ? largest(s) : 1;
  return rounded(combined(1 / size, s, 0.1L, identity_matrix(x.rows)), dtype);
}

Case case_of(const MatrixKind& kind, std::int64_t m, std::int64_t n, DType dtype, MatrixRandom& random) {
  const long double rounding =
      100 * rounding_of(dtype) * static_cast<long double>(std::max<std::int64_t>({m, n, 4}));
  return {drawn_matrix(kind, m, n, 1.0, dtype, random),
          drawn_matrix(matrix_kinds().back(), m, n, 1.0, dtype, random), dtype, rounding,
          wide(dtype) ? 1e5L : 1e2L};
}

TEST_CASE("matrix kinds: derivatives of logarithms of determinants by each decomposition") {
  MatrixRandom random(51);
  for (const std::int64_t n :
       shortened() ? std::vector<std::int64_t>{1, 3, 6} : std::vector<std::int64_t>{1, 2, 3, 5, 8, 17}) {
    for (const DType dtype : dtypes) {
      CAPTURE(n);
      CAPTURE(dtype);
      const Differentiated svd = differentiated(by_svd, dtype, n, n), qr = differentiated(by_qr, dtype, n, n),
                           lu = differentiated(by_lu, dtype, n, n),
                           eigh = differentiated(by_eigh, dtype, n, n),
                           cholesky = differentiated(by_cholesky, dtype, n, n),
                           norm = differentiated(nuclear, dtype, n, n);
      const Differentiated slogdet(
          trace([](const Array& x) { return linalg::slogdet(x).second; }, Type(dtype, {n, n})), dtype, n, n);
      for (const MatrixKind& kind : matrix_kinds()) {
        const std::string name = kind.name;
        CAPTURE(name);
        Case c = case_of(kind, n, n, dtype, random);
        check_logarithms("svd", svd, c, gap(ops::svd, c.x, dtype));
        check_logarithms("qr", qr, c, 1);
        Case pivoted = c;
        pivoted.rounding *= growth(c.x, dtype);
        check_logarithms("lu", lu, pivoted, 1);
        check_logarithms("slogdet", slogdet, pivoted, 1);
        const Dense y = inverse(c.x);
        const long double condition = y.rows == 0 ? HUGE_VALL : frobenius(c.x) * frobenius(y);
        if (condition < c.limit)
          check_near("nuclear", norm(c.x, c.v).gradient, polar(c.x), c.rounding * condition);
        c.x = definite(c.x, dtype);
        c.v = rounded(hermitian(c.v), dtype);
        check_logarithms("eigh", eigh, c, gap(ops::eigh, c.x, dtype));
        check_logarithms("cholesky", cholesky, c, 1);
      }
    }
  }
}

TEST_CASE("matrix kinds: derivatives of sums of squares, also of equal and zero values") {
  MatrixRandom random(52);
  std::vector<std::array<std::int64_t, 2>> shapes{{1, 1}, {3, 3}, {6, 6}, {5, 3}, {3, 7}};
  if (!shortened()) shapes.insert(shapes.end(), {{2, 2}, {8, 8}, {18, 16}, {16, 18}, {17, 17}});
  for (const auto& [rows, columns] : shapes) {
    const std::int64_t m = rows, n = columns;  // which clang 14's lambdas may read
    for (const DType dtype : dtypes) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(dtype);
      const Differentiated svd = differentiated(squares_by_svd, dtype, m, n);
      const Differentiated eigh = differentiated(squares_by_eigh, dtype, m, m);
      for (const MatrixKind& kind : matrix_kinds()) {
        const std::string name = kind.name;
        CAPTURE(name);
        const Case c = case_of(kind, m, n, dtype, random), square = case_of(kind, m, m, dtype, random);
        const long double distinct = gap(ops::svd, c.x, dtype, is_complex(dtype));
        check_squares("svd", svd, c, false, m == n ? distinct : 0);
        check_squares("eigh", eigh, square, true, gap(ops::eigh, square.x, dtype));
      }
    }
  }
}

// ‖x⁻¹ b‖²: gradient by x -2 x⁻ᴴ y yᴴ, y = x⁻¹ b.
TEST_CASE("matrix kinds: derivatives of the solution of equations") {
  MatrixRandom random(53);
  for (const std::int64_t n : {1, 3, shortened() ? 6 : 17}) {
    for (const DType dtype : dtypes) {
      CAPTURE(n);
      CAPTURE(dtype);
      const auto f = [](const Array& a, const Array& b) {
        return tidu::sum(tidu::square(tidu::abs(linalg::solve(a, b))));
      };
      const Graph gradient = grad(trace(f, Type(dtype, {n, n}), Type(dtype, {n, 1})), {"x0"});
      for (const MatrixKind& kind : matrix_kinds()) {
        const std::string name = kind.name;
        CAPTURE(name);
        const Case c = case_of(kind, n, n, dtype, random);
        const Dense exact = inverse(c.x), b = drawn_matrix(matrix_kinds().back(), n, 1, 1.0, dtype, random);
        const long double condition = exact.rows == 0 ? HUGE_VALL : frobenius(c.x) * frobenius(exact);
        if (!(condition < c.limit)) continue;
        const Dense y = product(exact, b), slope = product(adjoint(exact), product(y, adjoint(y)));
        const Dense got = dense_of(cpu().run(gradient, {tensor_of(c.x, dtype), tensor_of(b, dtype)})[0]);
        CHECK(relative(got, combined(-2, slope, 0, slope)) <= c.rounding * condition * condition);
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test::matrix_gradients_cases
