// linalg.cpp - kernels of cholesky and triangular_solve by rows, of lu by dot products (Crout), of qr by one
// reflection after another.
#include <optional>
#include <utility>

#include "reference/matrix.hpp"

namespace tidu::ref {
namespace {

// NaN in all of the triangle where a pivot is not positive.
template <class T>
Matrix<T> factor(const Matrix<T>& x) {
  const Int n = x.rows;
  Matrix<T> l(n, n);
  bool definite = true;
  for (Int i = 0; i < n && definite; ++i) {
    for (Int j = 0; j <= i; ++j) {
      T sum = x(i, j);
      for (Int k = 0; k < j; ++k) sum -= l(i, k) * conjugate(l(j, k));
      if (j < i) {
        l(i, j) = sum / real_of(l(j, j));
      } else {
        definite = real_of(sum) > 0;
        l(i, i) = T(std::sqrt(real_of(sum)));
      }
    }
  }
  for (Int i = 0; i < n && !definite; ++i) {
    for (Int j = 0; j <= i; ++j) l(i, j) = not_a_number<T>();
  }
  return l;
}

void cholesky(const KernelCall& c) {
  const Writer out(c.output());
  for_each_matrix(c,
                  [&]<class T>(T, Int b) { factor(Matrix<T>::of(c.input(0), b).hermitian()).store(out, b); });
}

// The right side is the left one of the transposed equation.
void triangular_solve(const KernelCall& c) {
  const Writer out(c.output());
  const bool left = c.op().boolean("left_side"), unit = c.op().boolean("unit_diagonal"),
             conjugated = c.op().boolean("conjugate_a");
  const bool flip = c.op().boolean("transpose_a") == left;
  const bool lower = c.op().boolean("lower") != flip;
  for_each_matrix(c, [&]<class T>(T, Int b) {
    const Matrix<T> a = Matrix<T>::of(c.input(0), b);
    Matrix<T> x = Matrix<T>::of(c.input(1), b);
    const auto entry = [&](Int i, Int j) {
      const T value = flip ? a(j, i) : a(i, j);
      return conjugated ? conjugate(value) : value;
    };
    const auto at = [&](Int i, Int column) -> T& { return left ? x(i, column) : x(column, i); };
    const Int n = a.rows;
    for (Int column = 0; column < (left ? x.columns : x.rows); ++column) {
      for (Int step = 0; step < n; ++step) {
        const Int i = lower ? step : n - 1 - step;
        T sum = at(i, column);
        for (Int j = lower ? 0 : i + 1; j < (lower ? i : n); ++j) sum -= entry(i, j) * at(j, column);
        at(i, column) = unit ? sum : sum / entry(i, i);
      }
    }
    x.store(out, b);
  });
}

Real pivot_size(Real x) { return std::abs(x); }
Real pivot_size(Complex x) { return std::abs(x.real()) + std::abs(x.imag()); }  // as LAPACK has it

void lu(const KernelCall& c) {
  const Writer factors(c.output(0)), pivots(c.output(1)), permutation(c.output(2));
  for_each_matrix(c, [&]<class T>(T, Int b) {
    Matrix<T> x = Matrix<T>::of(c.input(0), b);
    const Int m = x.rows, n = x.columns, k = std::min(m, n);
    std::vector<Int> order(static_cast<std::size_t>(m));
    for (Int i = 0; i < m; ++i) order[axis_of(i)] = i;
    for (Int j = 0; j < n; ++j) {
      for (Int i = 0; i < m; ++i) {
        for (Int r = 0; r < std::min(i, j); ++r) x(i, j) -= x(i, r) * x(r, j);
      }
      if (j >= k) continue;
      Int pivot = j;
      for (Int i = j + 1; i < m; ++i) {
        if (pivot_size(x(i, j)) > pivot_size(x(pivot, j))) pivot = i;
      }
      pivots.store<Int>(b * k + j, pivot);
      for (Int r = 0; r < n && pivot != j; ++r) std::swap(x(pivot, r), x(j, r));
      std::swap(order[axis_of(pivot)], order[axis_of(j)]);
      for (Int i = j + 1; i < m && x(j, j) != T(0); ++i) x(i, j) /= x(j, j);
    }
    for (Int i = 0; i < m; ++i) permutation.store<Int>(b * m + i, order[axis_of(i)]);
    x.store(factors, b);
  });
}

// 1 - tau v v^H, where v is 0 before element `first`.
template <class T>
struct Reflection {
  Int first;
  T tau;
  std::vector<T> v;

  // `factor` is tau, or its conjugate for the adjoint.
  void apply(Matrix<T>& x, T factor) const {
    for (Int column = 0; column < x.columns; ++column) {
      T sum(0);
      for (Int i = first; i < x.rows; ++i) sum += conjugate(v[axis_of(i)]) * x(i, column);
      for (Int i = first; i < x.rows; ++i) x(i, column) -= factor * v[axis_of(i)] * sum;
    }
  }
};

// The reflection whose adjoint maps column j of r, from row j on, to a multiple of the first unit vector,
// negative if its first element is not (as in LAPACK); none if it is one.
template <class T>
std::optional<Reflection<T>> reflection_of(const Matrix<T>& r, Int j) {
  const Int m = r.rows;
  Real below = 0;
  for (Int i = j + 1; i < m; ++i) below = std::hypot(below, std::abs(r(i, j)));
  const T first = r(j, j);
  if (below == 0 && first == T(real_of(first))) return std::nullopt;
  const Real norm = std::hypot(std::abs(first), below);
  const Real beta = real_of(first) >= 0 ? -norm : norm;
  Reflection<T> made{j, (T(beta) - first) / beta, std::vector<T>(static_cast<std::size_t>(m), T(0))};
  made.v[axis_of(j)] = T(1);
  for (Int i = j + 1; i < m; ++i) made.v[axis_of(i)] = r(i, j) / (first - T(beta));
  return made;
}

void qr(const KernelCall& c) {
  const Writer left(c.output(0)), right(c.output(1));
  for_each_matrix(c, [&]<class T>(T, Int b) {
    if (c.output(0).size() == 0 && c.output(1).size() == 0) return;
    Matrix<T> x = Matrix<T>::of(c.input(0), b);
    const Int m = x.rows, n = x.columns, k = std::min(m, n);
    std::vector<Reflection<T>> reflections;
    for (Int j = 0; j < k; ++j) {
      std::optional<Reflection<T>> one = reflection_of(x, j);
      if (!one) continue;
      one->apply(x, conjugate(one->tau));
      reflections.push_back(std::move(*one));
    }
    Matrix<T> q(m, k), r(k, n);
    for (Int i = 0; i < k; ++i) q(i, i) = T(1);
    for (std::size_t j = reflections.size(); j-- > 0;) reflections[j].apply(q, reflections[j].tau);
    for (Int i = 0; i < k; ++i) {
      for (Int j = i; j < n; ++j) r(i, j) = x(i, j);
    }
    q.store(left, b);
    r.store(right, b);
  });
}

}  // namespace

std::vector<NamedKernel> linalg_kernels() {
  const DTypes inexact = dtypes::floats | dtypes::complexes;
  std::vector<NamedKernel> rows{{"cholesky", inexact, cholesky},
                                {"triangular_solve", inexact, triangular_solve},
                                {"lu", inexact, lu},
                                {"qr", inexact, qr}};
  for (NamedKernel& row : spectral_kernels()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tidu::ref
