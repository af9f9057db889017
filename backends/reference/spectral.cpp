// spectral.cpp - kernels of eigh and svd by Jacobi's rotations, of both sides or of one (Golub and Van Loan,
// "Matrix Computations", 8.5 and 8.6). Elements that are not finite give NaN.
#include <algorithm>
#include <numeric>

#include "reference/matrix.hpp"

namespace tidu::ref {
namespace {

constexpr int max_sweeps = 60;

// The rotation that makes [[p, z], [conj z, q]] diagonal: columns (c, -s conj(u)) and (s u, c) with u = z /
// |z|.
template <class T>
struct Rotation {
  Real c, s;
  T u;
  Rotation(Real p, Real q, T z) {
    const Real size = std::abs(z);
    u = z / size;
    const Real theta = (q - p) / (2 * size);
    const Real t = (theta >= 0 ? 1.0 : -1.0) / (std::abs(theta) + std::hypot(1.0, theta));
    c = 1 / std::hypot(1.0, t);
    s = t * c;
  }
  /// Columns i and j of x times the rotation.
  void turn(Matrix<T>& x, Int i, Int j) const {
    for (Int row = 0; row < x.rows; ++row) {
      const T left = x(row, i), right = x(row, j);
      x(row, i) = c * left - s * conjugate(u) * right;
      x(row, j) = s * u * left + c * right;
    }
  }
};

// The columns of x in their new order.
template <class T>
Matrix<T> reordered(const Matrix<T>& x, const std::vector<Int>& order) {
  Matrix<T> y(x.rows, x.columns);
  for (Int i = 0; i < x.rows; ++i) {
    for (Int j = 0; j < x.columns; ++j) y(i, j) = x(i, order[axis_of(j)]);
  }
  return y;
}

template <class Before>
std::vector<Int> sorted(Int n, Before before) {
  std::vector<Int> order(axis_of(n));
  std::iota(order.begin(), order.end(), Int{0});
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

// x becomes diagonal; the vectors are returned.
template <class T>
Matrix<T> diagonalise(Matrix<T>& x) {
  const Int n = x.rows;
  Matrix<T> v = Matrix<T>::identity(n);
  bool done = false;
  for (int sweep = 0; sweep < max_sweeps && !done; ++sweep) {
    done = true;
    for (Int i = 0; i < n; ++i) {
      for (Int j = i + 1; j < n; ++j) {
        if (std::abs(x(i, j)) <= 1e-300) continue;
        done = done && std::abs(x(i, j)) <= 1e-18;
        const Rotation<T> rotation(real_of(x(i, i)), real_of(x(j, j)), x(i, j));
        rotation.turn(x, i, j);
        x = x.adjoint();
        rotation.turn(x, i, j);
        rotation.turn(v, i, j);
        x(i, j) = x(j, i) = T(0);
      }
    }
  }
  return v;
}

void eigh(const KernelCall& c) {
  const Writer vectors(c.output(0)), values(c.output(1));
  for_each_matrix(c, [&]<class T>(T, Int b) {
    Matrix<T> x = Matrix<T>::of(c.input(0), b).hermitian();
    const Int n = x.rows;
    const Real size = x.magnitude();
    Matrix<T> v(n, n);
    std::vector<Real> w(axis_of(n), not_a_number<Real>());
    if (!std::isfinite(size)) {
      v.fill(not_a_number<T>());
    } else {
      if (size > 0) x.divide(size);
      v = diagonalise(x);
      const std::vector<Int> order =
          sorted(n, [&](Int i, Int j) { return real_of(x(i, i)) < real_of(x(j, j)); });
      v = reordered(v, order);
      for (Int i = 0; i < n; ++i) w[axis_of(i)] = real_of(x(order[axis_of(i)], order[axis_of(i)])) * size;
    }
    v.store(vectors, b);
    for (Int i = 0; i < n; ++i) values.store<Real>(b * n + i, w[axis_of(i)]);
  });
}

template <class T>
T column_product(const Matrix<T>& x, Int i, Int j) {
  T sum(0);
  for (Int row = 0; row < x.rows; ++row) sum += conjugate(x(row, i)) * x(row, j);
  return sum;
}

// Column j of u, which is zero, becomes a unit vector orthogonal to the columns before it: from the axis that
// is furthest from their span.
template <class T>
void complete(Matrix<T>& u, Int j) {
  Matrix<T> best(u.rows, 1);
  Real longest = -1;
  for (Int axis = 0; axis < u.rows; ++axis) {
    Matrix<T> v(u.rows, 1);
    v(axis, 0) = T(1);
    for (int twice = 0; twice < 2; ++twice) {
      for (Int k = 0; k < j; ++k) {
        T along(0);
        for (Int row = 0; row < u.rows; ++row) along += conjugate(u(row, k)) * v(row, 0);
        for (Int row = 0; row < u.rows; ++row) v(row, 0) -= along * u(row, k);
      }
    }
    const Real length = std::sqrt(real_of(column_product(v, 0, 0)));
    if (length <= longest) continue;
    longest = length;
    v.scale(1 / length);
    best = v;
  }
  for (Int row = 0; row < u.rows; ++row) u(row, j) = best(row, 0);
}

template <class T>
struct Decomposition {
  Matrix<T> u, v;
  std::vector<Real> s;
};

// For x with at least as many rows as columns: rotates columns until they are orthogonal.
template <class T>
Decomposition<T> decompose(Matrix<T> x) {
  const Int n = x.columns;
  Matrix<T> v = Matrix<T>::identity(n);
  bool done = false;
  for (int sweep = 0; sweep < max_sweeps && !done; ++sweep) {
    done = true;
    for (Int i = 0; i < n; ++i) {
      for (Int j = i + 1; j < n; ++j) {
        const Real p = real_of(column_product(x, i, i)), q = real_of(column_product(x, j, j));
        const T z = column_product(x, i, j);
        if (std::abs(z) <= 1e-300 || std::abs(z) <= 1e-17 * std::sqrt(p) * std::sqrt(q)) continue;
        done = done && std::abs(z) <= 1e-15 * std::sqrt(p) * std::sqrt(q);
        const Rotation<T> rotation(p, q, z);
        rotation.turn(x, i, j);
        rotation.turn(v, i, j);
      }
    }
  }
  std::vector<Real> length(axis_of(n));
  for (Int j = 0; j < n; ++j) length[axis_of(j)] = std::sqrt(real_of(column_product(x, j, j)));
  const std::vector<Int> order =
      sorted(n, [&](Int i, Int j) { return length[axis_of(i)] > length[axis_of(j)]; });
  Decomposition<T> result{reordered(x, order), reordered(v, order), {}};
  for (Int j = 0; j < n; ++j) {
    result.s.push_back(length[axis_of(order[axis_of(j)])]);
    const bool none = result.s.back() <= 1e-150;
    for (Int row = 0; row < x.rows && !none; ++row) result.u(row, j) /= result.s.back();
    if (none) complete(result.u, j);
  }
  return result;
}

void svd(const KernelCall& c) {
  const Writer left(c.output(0)), values(c.output(1)), right(c.output(2));
  for_each_matrix(c, [&]<class T>(T, Int b) {
    Matrix<T> x = Matrix<T>::of(c.input(0), b);
    const Int m = x.rows, n = x.columns, k = std::min(m, n);
    const Real size = x.magnitude();
    Matrix<T> u(m, k), vh(k, n);
    std::vector<Real> s(axis_of(k), not_a_number<Real>());
    if (!std::isfinite(size)) {
      u.fill(not_a_number<T>());
      vh.fill(not_a_number<T>());
    } else {
      if (size > 0) x.divide(size);
      Decomposition<T> found = decompose(m >= n ? x : x.adjoint());
      u = m >= n ? found.u : found.v;
      vh = (m >= n ? found.v : found.u).adjoint();
      for (Int j = 0; j < k; ++j) s[axis_of(j)] = found.s[axis_of(j)] * size;
    }
    u.store(left, b);
    vh.store(right, b);
    for (Int j = 0; j < k; ++j) values.store<Real>(b * k + j, s[axis_of(j)]);
  });
}

}  // namespace

std::vector<NamedKernel> spectral_kernels() {
  const DTypes inexact = dtypes::floats | dtypes::complexes;
  return {{"eigh", inexact, eigh}, {"svd", inexact, svd}};
}

}  // namespace tidu::ref
