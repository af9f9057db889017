// svd.cpp - singular values of structured matrices, for which divide and conquer fails in libraries: the
// factors are put together again by plain loops in long double, at every scale of the dtype.
#include <array>
#include <complex>
#include <functional>
#include <vector>

#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::test::svd_cases {
namespace {

using Number = std::complex<long double>;
using Random = std::mt19937_64;

// A matrix by rows.
struct Dense {
  std::int64_t rows, columns;
  std::vector<Number> elements;
  Dense(std::int64_t m, std::int64_t n) : rows(m), columns(n), elements(static_cast<std::size_t>(m * n)) {}
  Number& operator()(std::int64_t i, std::int64_t j) {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
  Number operator()(std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
};

double normal(Random& random) { return std::normal_distribution<double>()(random); }
std::int64_t below(std::int64_t n, Random& random) {
  return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
}

// What an element is; the last argument is for those that are drawn.
using Element = std::function<double(std::int64_t, std::int64_t, Random&)>;
struct Kind {
  const char* name;
  Element element;
};

std::vector<Kind> kinds() {
  return {
      {"blocks of 4", [](auto i, auto j, Random& r) { return i / 4 == j / 4 ? normal(r) : 0.0; }},
      {"a block twice",
       [](auto i, auto j, Random&) { return i / 4 == j / 4 ? std::sin(double(3 * (i % 4) + j % 4)) : 0.0; }},
      {"one-hot rows", [](auto i, auto j, Random&) { return j == (7 * i * i + 3) % 11 ? 1.0 : 0.0; }},
      {"sparse 0/1", [](auto, auto, Random& r) { return below(8, r) == 0 ? 1.0 : 0.0; }},
      {"permutation", [](auto i, auto j, Random&) { return (i + 5) % 64 == j ? 1.0 : 0.0; }},
      {"partial isometry", [](auto i, auto j, Random&) { return i == j && i % 3 != 0 ? 1.0 : 0.0; }},
      {"upper triangle", [](auto i, auto j, Random& r) { return i <= j ? normal(r) : 0.0; }},
      {"bidiagonal with zeros",
       [](auto i, auto j, Random&) {
         return (j == i || j == i + 1) && i % 5 != 2 ? 1.0 + double(i % 3) : 0.0;
       }},
      {"checkerboard", [](auto i, auto j, Random&) { return i % 2 == j % 2 ? 1.0 : 0.0; }},
      {"ones", [](auto, auto, Random&) { return 1.0; }},
      {"zeros", [](auto, auto, Random&) { return 0.0; }},
      {"low rank",
       [](auto i, auto j, Random&) {
         return std::cos(double(i)) * std::sin(1 + double(j)) + double(i % 3) * double(j % 2);
       }},
      {"graded", [](auto i, auto j, Random& r) { return std::ldexp(normal(r), -static_cast<int>(i + j)); }},
      {"Hilbert", [](auto i, auto j, Random&) { return 1 / double(i + j + 1); }},
      {"Toeplitz", [](auto i, auto j, Random&) { return 1 / (1 + double((i - j) * (i - j))); }},
      {"Laplacian", [](auto i, auto j, Random&) { return i == j                 ? 2.0
                                                         : std::abs(i - j) == 1 ? -1.0
                                                                                : 0.0; }},
      {"incidence", [](auto i, auto j, Random&) { return j == i       ? 1.0
                                                         : j == i + 1 ? -1.0
                                                                      : 0.0; }},
      {"Kronecker of ones", [](auto i, auto j, Random&) { return i % 4 == j % 4 ? 1.0 : 0.0; }},
      {"dense", [](auto, auto, Random& r) { return normal(r); }},
  };
}

// The elements as the dtype has them; complex ones get an imaginary part where they are not zero.
Dense drawn(const Kind& kind, std::int64_t m, std::int64_t n, double scale, DType dtype, Random& random) {
  Dense x(m, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double real = kind.element(i, j, random) * scale;
      const double imaginary = is_complex(dtype) && real != 0 && (i + j) % 2 == 1 ? scale : 0;
      x(i, j) = dtype == f32 ? Number(static_cast<float>(real)) : Number(real, imaginary);
    }
  }
  return x;
}

Tensor tensor_of(const Dense& x, DType dtype) {
  std::vector<std::complex<double>> elements;
  for (const Number& z : x.elements)
    elements.emplace_back(static_cast<double>(z.real()), static_cast<double>(z.imag()));
  GraphBuilder g("converted");
  Value y = g.input("x", {c128, {x.rows, x.columns}});
  if (!is_complex(dtype)) y = ops::real(y);
  if (y.dtype() != dtype) y = ops::convert_element_type(y, dtype);
  return reference().run(g.build({y}),
                         {Tensor::from<std::complex<double>>({x.rows, x.columns}, elements)})[0];
}

Dense dense_of(const Tensor& t, std::int64_t m, std::int64_t n) {
  Dense x(m, n);
  for (std::int64_t i = 0; i < m * n; ++i) x.elements[static_cast<std::size_t>(i)] = Number(t.at(i));
  return x;
}

long double largest(const Dense& x) {
  long double most = 0;
  for (const Number& z : x.elements) most = std::max({most, std::abs(z.real()), std::abs(z.imag())});
  return most;
}

// The largest distance of x from its factors put together, by x's size; infinite where one is not finite.
long double distance(const Dense& x, const Dense& u, const Dense& s, const Dense& vh) {
  const long double size = largest(x);
  long double most = 0;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) {
      Number sum = -x(i, j);
      for (std::int64_t k = 0; k < s.columns; ++k) sum += u(i, k) * s(0, k) * vh(k, j);
      const long double off = std::abs(sum);
      most = off <= most ? most : std::isnan(off) ? HUGE_VALL : off;
    }
  }
  return size > 0 ? most / size : most;
}

// The largest distance of the rows' products from those of orthonormal ones.
long double skewness(const Dense& rows) {
  long double most = 0;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      Number sum = i == j ? -1.0L : 0.0L;
      for (std::int64_t k = 0; k < rows.columns; ++k) sum += rows(i, k) * std::conj(rows(j, k));
      const long double off = std::abs(sum);
      most = off <= most ? most : std::isnan(off) ? HUGE_VALL : off;
    }
  }
  return most;
}

Dense transposed(const Dense& x) {
  Dense y(x.columns, x.rows);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) y(j, i) = x(i, j);
  }
  return y;
}

void check(const Kind& kind, std::int64_t m, std::int64_t n, double scale, DType dtype, Random& random) {
  CAPTURE(kind.name);
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(scale);
  CAPTURE(dtype);
  const Dense x = drawn(kind, m, n, scale, dtype, random);
  GraphBuilder g("f");
  const Graph graph = g.build(ops::svd(g.input("x", {dtype, {m, n}})));
  const std::vector<Tensor> f = cpu().run(graph, {tensor_of(x, dtype)});
  const std::int64_t k = std::min(m, n);
  const Dense u = dense_of(f[0], m, k), s = dense_of(f[1], 1, k), vh = dense_of(f[2], k, n);
  const long double rounding =
      (dtype == f32 ? 1e-6L : 1e-14L) * static_cast<long double>(std::max<std::int64_t>({m, n, 10}));
  CHECK(distance(x, u, s, vh) <= rounding);
  CHECK(skewness(vh) <= rounding);
  CHECK(skewness(transposed(u)) <= rounding);
  for (std::int64_t i = 0; i + 1 < k; ++i) REQUIRE(s(0, i).real() >= s(0, i + 1).real());
  CHECK(s(0, k - 1).real() >= 0);
}

TEST_CASE("svd: factors of structured matrices are the matrix") {
  Random random(11);
  std::vector<std::array<std::int64_t, 2>> shapes{{1, 1},   {2, 3},   {16, 16}, {17, 16},
                                                  {18, 18}, {33, 20}, {40, 64}};
  if (!shortened()) shapes.insert(shapes.end(), {{75, 75}, {130, 129}, {100, 30}, {12, 130}});
  for (const Kind& kind : kinds()) {
    for (const auto& [m, n] : shapes) {
      for (const DType dtype : {f32, f64, c128}) check(kind, m, n, 1.0, dtype, random);
    }
  }
}

TEST_CASE("svd: tiny and huge matrices are decomposed as others are") {
  Random random(12);
  for (const Kind& kind : kinds()) {
    for (const double scale : {1e-300, 1e-160, 1e160, 1e300}) {
      for (const DType dtype : {f64, c128}) check(kind, 18, 16, scale, dtype, random);
    }
  }
}

TEST_CASE("qr: tiny and huge matrices are decomposed as others are") {
  Random random(13);
  const Kind dense = kinds().back();
  for (const double scale : {1e-300, 1e-160, 1.0, 1e160, 1e300}) {
    for (const DType dtype : {f64, c128}) {
      CAPTURE(scale);
      CAPTURE(dtype);
      const Dense x = drawn(dense, 18, 16, scale, dtype, random);
      GraphBuilder g("f");
      const Graph graph = g.build(ops::qr(g.input("x", {dtype, {18, 16}})));
      const std::vector<Tensor> f = cpu().run(graph, {tensor_of(x, dtype)});
      const Dense q = dense_of(f[0], 18, 16), r = dense_of(f[1], 16, 16);
      Dense ones(1, 16);
      for (Number& one : ones.elements) one = 1;
      CHECK(distance(x, q, ones, r) <= 1e-12L);
      CHECK(skewness(transposed(q)) <= 1e-12L);
      for (std::int64_t i = 0; i < 16; ++i) {
        for (std::int64_t j = 0; j < i; ++j) CHECK(r(i, j) == Number(0));
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test::svd_cases
