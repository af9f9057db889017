// decompositions_functions.hpp - decompositions by Eigen, its solves and its matmuls, in the namespace of the
// instruction set TIDU_DECOMPOSITIONS_ISA. Matrices are copied to Eigen's own memory: rounding depends on the
// alignment of vectors, which is the same each time only there. LU is blocked here, since Eigen's takes
// square matrices only, and pivots by another norm of complex numbers than LAPACK's.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/kernels/decompositions.hpp"
#include "cpu/kernels/eigen_matrices.hpp"

namespace tidu::cpu_detail::TIDU_DECOMPOSITIONS_ISA {

template <class W>
W not_a_number() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if constexpr (std::is_same_v<W, double>) {
    return nan;
  } else {
    return {nan, nan};
  }
}

template <class W>
void factor_cholesky(const W* from, W* to, std::int64_t n) {
  RowMatrix<W> l(n, n);
  take_hermitian<W>(MatrixIn<W>(from, n, n), l);
  Eigen::Ref<RowMatrix<W>> in_place(l);
  bool definite = Eigen::LLT<Eigen::Ref<RowMatrix<W>>>(in_place).info() == Eigen::Success;
  for (std::int64_t i = 0; i < n; ++i) definite = definite && !std::isnan(Eigen::numext::real(l(i, i)));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (j > i)
        l(i, j) = W(0);
      else if (!definite)
        l(i, j) = not_a_number<W>();
    }
  }
  MatrixOut<W>(to, n, n) = l;
}

// Is 1 / x infinite although x is not zero?
template <class W>
bool is_subnormal(W x) {
  const double size = std::max(std::abs(Eigen::numext::real(x)), std::abs(Eigen::numext::imag(x)));
  return size > 0 && size < std::numeric_limits<double>::min();
}

// Substitution column by column, with divisions by the diagonal; Eigen's solve multiplies by the reciprocals.
template <class W>
void substitute(const ColumnMatrix<W>& triangle, bool lower, ColumnMatrix<W>& x) {
  const Eigen::Index n = triangle.rows();
  for (Eigen::Index column = 0; column < x.cols(); ++column) {
    for (Eigen::Index step = 0; step < n; ++step) {
      const Eigen::Index i = lower ? step : n - 1 - step;
      const W value = x(i, column) /= triangle(i, i);
      for (Eigen::Index k = lower ? i + 1 : 0; k < (lower ? n : i); ++k)
        x(k, column) -= triangle(k, i) * value;
    }
  }
}

// The triangle is copied with its effective diagonal, so that two solves suffice: of a lower and of an upper
// triangle, stored by columns.
template <class W>
void solve_triangle(const TriangleSolve& s, const W* from, const W* b, W* to) {
  const std::int64_t n = s.left ? s.rows : s.columns;
  const MatrixIn<W> a(from, n, n);
  ColumnMatrix<W> triangle(n, n);
  bool divides = false;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = s.lower ? j : 0; i < (s.lower ? n : j + 1); ++i) {
      const W entry = s.transposed ? a(j, i) : a(i, j);
      triangle(i, j) = s.conjugated ? Eigen::numext::conj(entry) : entry;
    }
    if (s.unit) triangle(j, j) = W(1);
    divides = divides || is_subnormal(triangle(j, j));
  }
  const MatrixIn<W> right(b, s.rows, s.columns);
  MatrixOut<W> result(to, s.rows, s.columns);
  ColumnMatrix<W> x;
  if (s.left)
    x = right;
  else
    x = right.transpose();
  if (divides)
    substitute(triangle, s.lower, x);
  else if (s.lower)
    triangle.template triangularView<Eigen::Lower>().solveInPlace(x);
  else
    triangle.template triangularView<Eigen::Upper>().solveInPlace(x);
  if (s.left)
    result = x;
  else
    result = x.transpose();
}

inline double pivot_size(double x) { return std::abs(x); }
inline double pivot_size(std::complex<double> x) {
  return std::abs(x.real()) + std::abs(x.imag());  // LAPACK's norm
}

// Factors columns [first, last) one after another. Whole rows are exchanged; all other work affects only
// these columns, since any lower row may still become a pivot row.
template <class W>
void factor_panel(RowMatrix<W>& x, Eigen::Index first, Eigen::Index last, std::int32_t* pivots) {
  const Eigen::Index m = x.rows();
  for (Eigen::Index j = first; j < last; ++j) {
    Eigen::Index pivot = j;
    for (Eigen::Index i = j + 1; i < m; ++i) {
      if (pivot_size(x(i, j)) > pivot_size(x(pivot, j))) pivot = i;
    }
    pivots[j] = static_cast<std::int32_t>(pivot);
    if (pivot != j) x.row(j).swap(x.row(pivot));
    const W diagonal = x(j, j);
    if (diagonal == W(0)) continue;  // the rest of the column is 0 too
    for (Eigen::Index i = j + 1; i < m; ++i) {
      const W factor = x(i, j) /= diagonal;
      x.row(i).segment(j + 1, last - j - 1) -= factor * x.row(j).segment(j + 1, last - j - 1);
    }
  }
}

template <class W>
void factor_lu(const W* from, W* to, std::int32_t* pivots, std::int64_t m, std::int64_t n) {
  constexpr Eigen::Index width = 32;
  const Eigen::Index k = std::min(m, n);
  RowMatrix<W> x = MatrixIn<W>(from, m, n);
  for (Eigen::Index first = 0; first < k; first += width) {
    const Eigen::Index last = std::min(first + width, k), wide = last - first;
    factor_panel<W>(x, first, last, pivots);
    if (last == n) continue;
    auto right = x.block(first, last, wide, n - last);
    x.block(first, first, wide, wide).template triangularView<Eigen::UnitLower>().solveInPlace(right);
    if (last == m) continue;
    x.block(last, last, m - last, n - last).noalias() -= x.block(last, first, m - last, wide) * right;
  }
  MatrixOut<W>(to, m, n) = x;
}

// A power of two that brings the squares of x's elements far from overflow and underflow; 1 if they are
// already, or if x is not finite.
inline double scale_of(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  const int exponent = std::ilogb(largest);
  return std::abs(exponent) < 256 ? 1 : std::ldexp(1.0, exponent);
}

template <class W>
void factor_qr(const W* from, W* to_q, W* to_r, std::int64_t m, std::int64_t n) {
  const Eigen::Index k = std::min(m, n);
  const MatrixIn<W> given(from, m, n);
  const double scale = scale_of(given.cwiseAbs().maxCoeff());
  const ColumnMatrix<W> x = given / scale;  // a real divisor: x /= scale would square it for complex x
  const Eigen::HouseholderQR<ColumnMatrix<W>> factors(x);
  MatrixOut<W> r(to_r, k, n);
  for (Eigen::Index i = 0; i < k; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) r(i, j) = j < i ? W(0) : factors.matrixQR()(i, j) * scale;
  }
  ColumnMatrix<W> q = ColumnMatrix<W>::Identity(m, k);
  q.applyOnTheLeft(factors.householderQ());
  MatrixOut<W>(to_q, m, k) = q;
}

template <class W>
constexpr Decompositions<W> decompositions_of() {
  return {factor_cholesky<W>, solve_triangle<W>, factor_lu<W>, factor_qr<W>};
}

extern const AllDecompositions all;

}  // namespace tidu::cpu_detail::TIDU_DECOMPOSITIONS_ISA
