// matrix_kinds.cpp - every decomposition of every kind of matrix (matrices_kinds.cpp), of sizes from 1 to 130
// and over the range of each dtype: factors put together again in long double are the matrix, to the bound of
// a backward stable method, and those that are orthonormal are so to rounding.
#include <algorithm>
#include <array>

#include "cpu/compare.hpp"
#include "cpu/kernels/hermitian_svd.hpp"
#include "cpu/matrices.hpp"
#include "support/support.hpp"
#include "tidu/frontend/linalg.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::test::matrix_kinds_cases {
namespace {

constexpr DType dtypes[] = {f32, f64, c64, c128};
bool wide(DType dtype) { return dtype == f64 || dtype == c128; }

// Bounds are this times the terms of a sum and the rounding of one operation.
constexpr long double allowed = 20;
long double bound(DType dtype, std::int64_t n) {
  return allowed * rounding_of(dtype) * static_cast<long double>(std::max<std::int64_t>(n, 4));
}
// The error of n sums below the normal numbers.
long double least(DType dtype, std::int64_t n) {
  return static_cast<long double>(n) * (wide(dtype) ? 0x1p-1072L : 0x1p-147L);
}
long double greatest(DType dtype) { return wide(dtype) ? 0x1p1023L : 0x1p127L; }

// The greater one, infinite where y is NaN.
long double greater(long double x, long double y) { return std::isnan(y) ? HUGE_VALL : std::max(x, y); }

std::vector<Dense> run(Values (*f)(Value, Where), const Dense& x, DType dtype) {
  GraphBuilder g("f");
  const Graph graph = g.build(f(g.input("x", {dtype, {x.rows, x.columns}}), Where::current()));
  std::vector<Dense> results;
  for (const Tensor& result : cpu().run(graph, {tensor_of(x, dtype)})) results.push_back(dense_of(result));
  return results;
}

// Is y x to rounding of n terms, relative to all of x?
void check_rebuilt(const Dense& y, const Dense& x, DType dtype, std::int64_t n) {
  CHECK(frobenius(combined(1, y, -1, x)) <= bound(dtype, n) * frobenius(x) + least(dtype, n * n));
}

void check_svd(const Dense& x, DType dtype) {
  const std::vector<Dense> f = run(ops::svd, x, dtype);
  const std::int64_t n = std::max(x.rows, x.columns), k = f[1].columns;
  check_rebuilt(product(columns_scaled(f[0], f[1]), f[2]), x, dtype, n);
  CHECK(skewness(f[0]) <= bound(dtype, n));
  CHECK(skewness(adjoint(f[2])) <= bound(dtype, n));
  for (std::int64_t i = 0; i + 1 < k; ++i) REQUIRE(f[1](0, i).real() >= f[1](0, i + 1).real());
  CHECK(f[1](0, k - 1).real() >= 0);
}

void check_qr(const Dense& x, DType dtype) {
  const std::vector<Dense> f = run(ops::qr, x, dtype);
  const std::int64_t n = std::max(x.rows, x.columns);
  check_rebuilt(product(f[0], f[1]), x, dtype, n);
  CHECK(skewness(f[0]) <= bound(dtype, n));
  CHECK(frobenius(strictly_lower(f[1], f[1].rows, f[1].columns)) == 0);
}

// P x - L U is rounding of |L| |U| element by element.
void check_lu(const Dense& x, DType dtype) {
  const std::vector<Dense> f = run(ops::lu, x, dtype);
  const std::int64_t m = x.rows, n = x.columns, k = std::min(m, n);
  Dense moved(m, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) moved(i, j) = x(static_cast<std::int64_t>(f[2](0, i).real()), j);
  }
  Dense l = strictly_lower(f[0], m, k);
  for (std::int64_t i = 0; i < k; ++i) l(i, i) = 1;
  const Dense u = upper(f[0], k, n), off = combined(1, product(l, u), -1, moved),
              size = product(sizes(l), sizes(u));
  if (!(largest(u) < greatest(dtype))) return;  // grows beyond the range
  CHECK(largest(l) <= 1.5L);
  long double most = 0;
  for (std::size_t i = 0; i < off.elements.size(); ++i)
    most = greater(most,
                   (std::abs(off.elements[i]) - least(dtype, n)) / (std::real(size.elements[i]) + 1e-4900L));
  CHECK(most <= bound(dtype, k));
}

Dense hermitian(const Dense& x) { return combined(0.5L, x, 0.5L, adjoint(x)); }

void check_eigh(const Dense& x, DType dtype) {
  const std::vector<Dense> f = run(ops::eigh, x, dtype);
  const std::int64_t n = x.rows;
  check_rebuilt(product(columns_scaled(f[0], f[1]), adjoint(f[0])), hermitian(x), dtype, n);
  CHECK(skewness(f[0]) <= bound(dtype, n));
  for (std::int64_t i = 0; i + 1 < n; ++i) REQUIRE(f[1](0, i).real() <= f[1](0, i + 1).real());
}

// A definite matrix of condition up to about 1e4: x xᴴ and part of its size times the identity.
Dense definite(const Dense& x, DType dtype, long double scale) {
  Dense s = product(x, adjoint(x));
  const long double size = largest(s) > 0 ? largest(s) : 1;
  s = combined(1 / size, s, 1e-4L, identity_matrix(x.rows));
  return rounded(combined(scale, s, 0, s), dtype);
}

// L Lᴴ - s is rounding of the root of s_ii s_jj.
void check_cholesky(const Dense& s, DType dtype) {
  GraphBuilder g("f");
  const Graph graph = g.build({ops::cholesky(g.input("x", {dtype, {s.rows, s.columns}}))});
  const Dense l = dense_of(cpu().run(graph, {tensor_of(s, dtype)})[0]),
              off = combined(1, product(l, adjoint(l)), -1, hermitian(s));
  long double most = 0;
  for (std::int64_t i = 0; i < s.rows; ++i) {
    for (std::int64_t j = 0; j < s.rows; ++j) {
      const long double size = std::sqrt(s(i, i).real()) * std::sqrt(s(j, j).real());
      const long double relative = (std::abs(off(i, j)) - least(dtype, s.rows)) / size;
      most = greater(most, relative);
      if (j > i) REQUIRE(l(i, j) == Number(0));
    }
  }
  CHECK(most <= bound(dtype, s.rows));
}

// op(t) y = b or y op(t) = b: the residual is rounding of |t| |y|, element by element.
void check_triangular(const Dense& x, DType dtype, unsigned flags, MatrixRandom& random) {
  const std::int64_t n = x.rows;
  const bool left = (flags & 1U) != 0, low = (flags & 2U) != 0, transposes = (flags & 4U) != 0;
  const ops::TriangularSolve how{left, low, transposes, is_complex(dtype) && (flags & 8U) != 0, false};
  Dense t = x;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::abs(t(i, i)) < largest(x) / 4) t(i, i) = largest(x) > 0 ? largest(x) : 1;
  }
  t = rounded(t, dtype);
  const Dense b = drawn_matrix(matrix_kinds().back(), left ? n : 3, left ? 3 : n, 1.0, dtype, random);
  GraphBuilder g("f");
  const Value a = g.input("a", {dtype, {n, n}});
  const Graph graph = g.build({ops::triangular_solve(a, g.input("b", {dtype, {b.rows, b.columns}}), how)});
  const Dense y = dense_of(cpu().run(graph, {tensor_of(t, dtype), tensor_of(b, dtype)})[0]);
  if (!(largest(y) < greatest(dtype))) return;  // grows beyond the range
  Dense seen = low ? adjoint(upper(adjoint(t), n, n)) : upper(t, n, n);
  if (transposes) seen = adjoint(seen);
  if (transposes != how.conjugate_a) {
    for (Number& z : seen.elements) z = std::conj(z);
  }
  const Dense off = combined(1, left ? product(seen, y) : product(y, seen), -1, b),
              size = left ? product(sizes(seen), sizes(y)) : product(sizes(y), sizes(seen));
  long double most = 0;
  for (std::size_t i = 0; i < off.elements.size(); ++i)
    most = greater(most, (std::abs(off.elements[i]) - least(dtype, n) * std::max(1.0L, largest(t))) /
                             (size.elements[i].real() + 1e-4900L));
  CHECK(most <= bound(dtype, n));
}

// Functions of LU factors, of matrices that are not too badly conditioned: residuals to rounding of |L| |U|,
// determinants by long double's.
void check_equations(const Dense& x, DType dtype, MatrixRandom& random) {
  const std::int64_t n = x.rows;
  Determinant determinant;
  const Dense exact = inverse(x, &determinant);
  const long double condition = exact.rows == 0 ? HUGE_VALL : frobenius(x) * frobenius(exact);
  if (!(condition < (wide(dtype) ? 1e9L : 1e3L)) || !(largest(exact) < greatest(dtype) / 1e3L)) return;
  const Type type(dtype, {n, n}), sides(dtype, {n, 2});
  const Graph graph = trace(
      [](const Array& a, const Array& b) {
        const auto [sign, logarithm] = linalg::slogdet(a);
        return std::vector<Array>{linalg::solve(a, b), linalg::inv(a), linalg::det(a), sign, logarithm};
      },
      type, sides);
  const Dense b = drawn_matrix(matrix_kinds().back(), n, 2, static_cast<double>(largest(x)), dtype, random);
  std::vector<Dense> got;
  for (const Tensor& result : cpu().run(graph, {tensor_of(x, dtype), tensor_of(b, dtype)}))
    got.push_back(dense_of(result));
  const Dense factors = run(ops::lu, x, dtype)[0];
  if (!(largest(factors) < greatest(dtype))) return;
  Dense l = strictly_lower(factors, n, n);
  for (std::int64_t i = 0; i < n; ++i) l(i, i) = 1;
  const long double size = frobenius(product(sizes(l), sizes(upper(factors, n, n))));
  const long double each = bound(dtype, n);
  const auto residual = [&](const Dense& y, const Dense& right) {
    return frobenius(combined(1, product(x, y), -1, right)) / (size * frobenius(y) + frobenius(right));
  };
  CHECK(residual(got[0], b) <= each);
  CHECK(residual(got[1], identity_matrix(n)) <= each);
  const long double off = each * size * frobenius(exact);  // relative, of the determinant
  const long double logarithm = determinant.logarithm, of_logarithm = off + each * std::abs(logarithm);
  CHECK(std::abs(got[3](0, 0) - determinant.sign) <= off);
  CHECK(std::abs(got[4](0, 0).real() - logarithm) <= of_logarithm);
  const long double range = std::log(greatest(dtype)) - 10;
  if (std::abs(logarithm) < range)
    CHECK(std::abs(got[2](0, 0) / std::exp(logarithm) - determinant.sign) <= of_logarithm);
}

// Is this combination of the ones that are tried? All are at full counts, a fifth at a fifth.
bool is_tried() {
  static MatrixRandom random(45);
  return random() % std::max<std::size_t>(1, 100 / scaled(100)) == 0;
}

void check_all(const MatrixKind& kind, std::int64_t m, std::int64_t n, double scale, DType dtype,
               MatrixRandom& random) {
  const std::string name = kind.name;
  CAPTURE(name);
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(scale);
  CAPTURE(dtype);
  const Dense x = drawn_matrix(kind, m, n, scale, dtype, random);
  check_svd(x, dtype);
  check_qr(x, dtype);
  check_lu(x, dtype);
  if (m != n) return;
  check_eigh(x, dtype);
  check_cholesky(definite(x, dtype, scale), dtype);
  check_triangular(x, dtype, static_cast<unsigned>(random() % 16), random);
  check_equations(x, dtype, random);
}

TEST_CASE("matrix kinds: decompositions are those of the matrix, at sizes from 1 to 130") {
  MatrixRandom random(41);
  std::vector<std::array<std::int64_t, 2>> shapes{{1, 1},   {2, 2}, {3, 3},   {4, 4},   {7, 7},  {8, 8},
                                                  {16, 16}, {2, 3}, {17, 16}, {18, 16}, {5, 19}, {18, 18}};
  if (!shortened()) shapes.insert(shapes.end(), {{33, 33}, {31, 32}, {33, 20}, {40, 64}, {12, 64}, {48, 48}});
  for (const MatrixKind& kind : matrix_kinds()) {
    for (const auto& [m, n] : shapes) {
      for (const DType dtype : dtypes) {
        if (is_tried()) check_all(kind, m, n, 1.0, dtype, random);
      }
    }
  }
}

TEST_CASE(
    "matrix kinds: the svd of a shifted matrix, which eigh falls back on, finds eigenvalues and vectors of "
    "all") {
  MatrixRandom random(44);
  for (const MatrixKind& kind : matrix_kinds()) {
    for (const std::int64_t n : {1, 2, 3, 16, shortened() ? 18 : 65}) {
      const std::string name = kind.name;
      CAPTURE(name);
      CAPTURE(n);
      const Dense x = rounded(hermitian(drawn_matrix(kind, n, n, 1.0, c128, random)), c128);
      cpu_detail::RowMatrix<std::complex<double>> given(n, n);
      for (std::int64_t i = 0; i < n * n; ++i)
        given(i / n, i % n) = static_cast<std::complex<double>>(x(i / n, i % n));
      cpu_detail::Spectrum<std::complex<double>> found;
      REQUIRE(cpu_detail::spectrum_by_svd<std::complex<double>>(0, given, found) ==
              cpu_detail::Attempt::done);
      Dense v(n, n), w(1, n);
      for (std::int64_t i = 0; i < n * n; ++i) v(i / n, i % n) = Number(found.vectors(i / n, i % n));
      for (std::int64_t i = 0; i < n; ++i) w(0, i) = found.values(i);
      check_rebuilt(product(columns_scaled(v, w), adjoint(v)), x, c128, n);
      CHECK(skewness(v) <= bound(c128, n));
      CHECK(std::is_sorted(found.values.data(), found.values.data() + n));
    }
  }
}

TEST_CASE("matrix kinds: larger ones") {
  if (shortened()) return;
  MatrixRandom random(42);
  std::size_t turn = 0;
  for (const MatrixKind& kind : matrix_kinds()) {
    for (const auto& [m, n] : std::vector<std::array<std::int64_t, 2>>{
             {64, 64}, {65, 65}, {75, 75}, {130, 129}, {100, 30}, {12, 130}})
      check_all(kind, m, n, 1.0, dtypes[turn++ % 4], random);
    check_all(kind, 130, 130, 1.0, dtypes[turn / 4 % 4], random);
  }
}

TEST_CASE("matrix kinds: tiny and huge ones") {
  MatrixRandom random(43);
  for (const MatrixKind& kind : matrix_kinds()) {
    for (const DType dtype : dtypes) {
      for (const double scale : wide(dtype) ? std::array{1e-310, 1e-300, 1e-160, 1e160, 1e300}
                                            : std::array{1e-40, 1e-35, 1e-20, 1e20, 1e35}) {
        if (is_tried()) check_all(kind, 18, 18, scale, dtype, random);
        if (is_tried()) check_all(kind, 6, 4, scale, dtype, random);
        if (is_tried()) check_all(kind, 18, 16, scale, dtype, random);
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test::matrix_kinds_cases
