// Decompositions of one matrix by each instruction set: the product of the factors, and the distance of the
// factors from those of the generic code.
#include "cpu/kernels/decompositions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <vector>

using namespace tidu::cpu_detail;

namespace {

using Size = std::int64_t;

template <class W>
struct Matrix {
  Size rows, columns;
  std::vector<W> elements;
  Matrix(Size m, Size n) : rows(m), columns(n), elements(static_cast<std::size_t>(m * n)) {}
  W& operator()(Size i, Size j) { return elements[static_cast<std::size_t>(i * columns + j)]; }
  const W& operator()(Size i, Size j) const { return elements[static_cast<std::size_t>(i * columns + j)]; }
  W* data() { return elements.data(); }
};

template <class W>
Matrix<W> random_matrix(Size m, Size n, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Matrix<W> x(m, n);
  for (W& element : x.elements) {
    if constexpr (std::is_same_v<W, double>) {
      element = normal(random);
    } else {
      element = {normal(random), normal(random)};
    }
  }
  return x;
}

double conjugate(double x) { return x; }
std::complex<double> conjugate(std::complex<double> x) { return std::conj(x); }

template <class W>
Matrix<W> product(const Matrix<W>& a, const Matrix<W>& b, bool adjoint = false) {
  Matrix<W> c(a.rows, adjoint ? b.rows : b.columns);
  for (Size i = 0; i < c.rows; ++i) {
    for (Size j = 0; j < c.columns; ++j) {
      for (Size k = 0; k < a.columns; ++k) c(i, j) += a(i, k) * (adjoint ? conjugate(b(j, k)) : b(k, j));
    }
  }
  return c;
}

template <class W>
double difference(const Matrix<W>& a, const Matrix<W>& b) {
  REQUIRE(a.elements.size() == b.elements.size());
  double most = 0;
  for (std::size_t i = 0; i < a.elements.size(); ++i)
    most = std::max(most, std::abs(a.elements[i] - b.elements[i]));
  return most;
}

// The triangle of x, with ones or its own elements on its diagonal; with as many columns.
template <class W>
Matrix<W> triangle(const Matrix<W>& x, bool lower, bool unit, Size rows, Size columns) {
  Matrix<W> t(rows, columns);
  for (Size i = 0; i < rows; ++i) {
    for (Size j = 0; j < columns; ++j) {
      if (i == j && unit) {
        t(i, j) = W(1);
      } else if (lower ? j <= i : j >= i) {
        t(i, j) = x(i, j);
      }
    }
  }
  return t;
}

template <class W>
void check_cholesky(const Decompositions<W>& use, Size n, std::mt19937_64& random) {
  const Matrix<W> a = random_matrix<W>(n, n + 3, random);
  Matrix<W> x = product(a, a, true), l(n, n);
  use.cholesky(x.data(), l.data(), n);
  CHECK(difference(product(l, l, true), x) < 1e-12 * static_cast<double>(n * n + 1));
  CHECK(difference(triangle(l, true, false, n, n), l) == 0);
  if (n == 0) return;
  x(n - 1, n - 1) = W(-1);
  use.cholesky(x.data(), l.data(), n);
  CHECK(std::isnan(std::abs(l(0, 0))));
  for (Size j = 1; j < n; ++j) CHECK(l(0, j) == W(0));
}

template <class W>
void check_solve(const Decompositions<W>& use, Size n, Size others, std::mt19937_64& random) {
  Matrix<W> a = random_matrix<W>(n, n, random);
  for (Size i = 0; i < n; ++i) a(i, i) += W(4 + 2 * static_cast<double>(n));
  for (int which = 0; which < 32; ++which) {
    const bool left = (which & 1) != 0, transposed = (which & 2) != 0, lower = (which & 4) != 0,
               conjugated = (which & 8) != 0, unit = (which & 16) != 0;
    // t x = b, or x t = b; in the words of the equation from the left.
    const TriangleSolve solve{
        left ? n : others, left ? others : n, left, transposed == left, lower, conjugated, unit};
    Matrix<W> seen(n, n);  // the triangle of the equation from the left
    for (Size i = 0; i < n; ++i) {
      for (Size j = 0; j < n; ++j) {
        const W entry = solve.transposed ? a(j, i) : a(i, j);
        seen(i, j) = conjugated ? conjugate(entry) : entry;
      }
    }
    seen = triangle(seen, lower, unit, n, n);
    Matrix<W> b = random_matrix<W>(solve.rows, solve.columns, random), x(solve.rows, solve.columns);
    use.solve_triangle(solve, a.data(), b.data(), x.data());
    Matrix<W> back(solve.rows, solve.columns);
    for (Size i = 0; i < solve.rows; ++i) {
      for (Size j = 0; j < solve.columns; ++j) {
        for (Size k = 0; k < n; ++k) back(i, j) += left ? seen(i, k) * x(k, j) : seen(j, k) * x(i, k);
      }
    }
    // Without the diagonal the triangle may be far from regular.
    const double size = unit ? std::pow(3.0, static_cast<double>(std::min<Size>(n, 30))) : 1;
    CHECK(difference(back, b) < 1e-12 * size * static_cast<double>(n + 1));
    if (unit && n > 12) break;
  }
}

// Integers times a power of two, whose reciprocals are infinite while the solutions are integers.
template <class W>
void check_subnormal_solve(const Decompositions<W>& use, Size n, std::mt19937_64& random) {
  const double unit = std::ldexp(1.0, -1060);
  const auto whole = [&](int most) {
    return static_cast<double>(static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most);
  };
  for (int flags = 0; flags < 16; ++flags) {
    const bool left = (flags & 1) != 0, transposed = (flags & 2) != 0, lower = (flags & 4) != 0;
    const TriangleSolve solve{left ? n : 3, left ? 3 : n, left, transposed, lower, (flags & 8) != 0, false};
    Matrix<W> a(n, n), x(solve.rows, solve.columns), got = x;
    for (W& element : a.elements) element = whole(3) * unit;
    for (Size i = 0; i < n; ++i) a(i, i) = (i % 2 == 0 ? 3.0 : -2.0) * unit;
    if (n > 1) a(n - 1, n - 1) = unit;
    for (W& element : x.elements) element = whole(4);
    Matrix<W> seen(n, n), b(solve.rows, solve.columns);
    for (Size i = 0; i < n; ++i) {
      for (Size j = lower ? 0 : i; j < (lower ? i + 1 : n); ++j) seen(i, j) = transposed ? a(j, i) : a(i, j);
    }
    for (Size i = 0; i < solve.rows; ++i) {
      for (Size j = 0; j < solve.columns; ++j) {
        for (Size k = 0; k < n; ++k) b(i, j) += left ? seen(i, k) * x(k, j) : seen(j, k) * x(i, k);
      }
    }
    use.solve_triangle(solve, a.data(), b.data(), got.data());
    CHECK(got.elements == x.elements);
  }
}

template <class W>
void check_lu(const Decompositions<W>& use, Size m, Size n, std::mt19937_64& random) {
  const Size k = std::min(m, n);
  Matrix<W> x = random_matrix<W>(m, n, random), factors(m, n);
  std::vector<std::int32_t> pivots(static_cast<std::size_t>(k));
  use.lu(x.data(), factors.data(), pivots.data(), m, n);
  for (Size i = 0; i < k; ++i) {
    const auto row = static_cast<Size>(pivots[static_cast<std::size_t>(i)]);
    REQUIRE(row >= i);
    REQUIRE(row < m);
    for (Size j = 0; j < n; ++j) std::swap(x(i, j), x(row, j));
  }
  const Matrix<W> back = product(triangle(factors, true, true, m, k), triangle(factors, false, false, k, n));
  CHECK(difference(back, x) < 1e-12 * static_cast<double>(m + n));
}

template <class W>
void check_qr(const Decompositions<W>& use, Size m, Size n, std::mt19937_64& random) {
  const Size k = std::min(m, n);
  Matrix<W> x = random_matrix<W>(m, n, random), q(m, k), r(k, n), one(k, k);
  use.qr(x.data(), q.data(), r.data(), m, n);
  CHECK(difference(product(q, r), x) < 1e-12 * static_cast<double>(m + n));
  CHECK(difference(triangle(r, false, false, k, n), r) == 0);
  Matrix<W> adjoint(k, m);
  for (Size i = 0; i < k; ++i) {
    one(i, i) = W(1);
    for (Size j = 0; j < m; ++j) adjoint(i, j) = conjugate(q(j, i));
  }
  CHECK(difference(product(adjoint, q), one) < 1e-12 * static_cast<double>(m + n));
}

// The same bits wherever operands and results lie.
template <class W>
void check_places(const Decompositions<W>& use, Size n, std::mt19937_64& random) {
  Matrix<W> x = random_matrix<W>(n, n, random);
  const Matrix<W> positive = product(x, x, true);
  const auto count = static_cast<std::size_t>(n * n);
  std::vector<W> first;
  for (std::size_t offset = 0; offset < 8; ++offset) {
    std::vector<W> general(offset), definite(offset), results(offset + 5 * count);
    general.insert(general.end(), x.elements.begin(), x.elements.end());
    definite.insert(definite.end(), positive.elements.begin(), positive.elements.end());
    std::vector<std::int32_t> pivots(static_cast<std::size_t>(n));
    W* const to = results.data() + offset;
    use.cholesky(definite.data() + offset, to, n);
    use.lu(general.data() + offset, to + count, pivots.data(), n, n);
    use.qr(general.data() + offset, to + 2 * count, to + 3 * count, n, n);
    use.solve_triangle({n, n, true, false, true, false, false}, to, general.data() + offset, to + 4 * count);
    results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(offset));
    if (offset == 0) first = results;
    CHECK(std::memcmp(first.data(), results.data(), 5 * count * sizeof(W)) == 0);
  }
}

template <class W>
void check_all(InstructionSet isa) {
  std::mt19937_64 random(17);
  const Decompositions<W>& use = decompositions<W>(isa);
  for (const Size n : {1, 2, 3, 7, 8, 16, 31, 33, 70}) {
    CAPTURE(n);
    check_places(use, n, random);
    check_cholesky(use, n, random);
    check_solve(use, n, 5, random);
    check_solve(use, n, 1, random);
    check_subnormal_solve(use, n, random);
    for (const Size m : {1, 5, 33, 64}) {
      CAPTURE(m);
      check_lu(use, m, n, random);
      check_qr(use, m, n, random);
    }
  }
}

}  // namespace

TEST_CASE("[decompositions] factors by each instruction set multiply to the original matrix") {
  for (const InstructionSet isa : {InstructionSet::baseline, InstructionSet::avx2}) {
    const auto number = static_cast<int>(isa);
    CAPTURE(number);
    check_all<double>(isa);
    check_all<std::complex<double>>(isa);
  }
}
