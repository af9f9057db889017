// factorizations.cpp - cholesky, triangular_solve, lu and qr over Eigen's decompositions, solves and
// products. Eigen's own LU takes square matrices only and pivots by another norm of complex numbers than
// LAPACK, so its blocks are put together here.
#include <Eigen/Cholesky>
#include <Eigen/QR>
#include <cmath>

#include "cpu/kernels/matrices.hpp"

namespace tidu::cpu_detail {
namespace {

template <class W>
void factor_cholesky(const W* from, W* to, std::int64_t n) {
  MatrixOut<W> l(to, n, n);
  take_hermitian<W>(MatrixIn<W>(from, n, n), l);
  Eigen::Ref<RowMatrix<W>> in_place(l);
  bool definite = Eigen::LLT<Eigen::Ref<RowMatrix<W>>>(in_place).info() == Eigen::Success;
  for (std::int64_t i = 0; i < n; ++i) definite = definite && !std::isnan(Eigen::numext::real(l(i, i)));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (j > i)
        l(i, j) = W(0);
      else if (!definite)
        set_to_nan(l(i, j));
    }
  }
}

template <class T>
struct Cholesky {
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t size = s.x.size();
    for_each_matrix(s.threads, size == 0 ? 0 : s.x.count, cubed(s.x) / 3, [&](std::int64_t b) {
      const Source<T> x(call.operand<T>(0) + b * size, size);
      const Sink<T> l(call.result<T>() + b * size, size);
      factor_cholesky<Wide<T>>(x.data(), l.data(), s.x.rows);
    });
  }
};

// A right side is the left one of the transposed equation. The triangle that is read is copied with the
// diagonal that it is meant to have, so that there are two solves, of a lower and of an upper triangle by
// columns.
struct SolveState {
  Matrices a, x;
  int threads;
  bool left, transposed, lower, conjugated, unit;  // the last four of the equation from the left
};

template <class W>
void solve_triangle(const SolveState& s, const W* from, const W* b, W* to) {
  const std::int64_t n = s.a.rows;
  const MatrixIn<W> a(from, n, n);
  ColumnMatrix<W> triangle(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = s.lower ? j : 0; i < (s.lower ? n : j + 1); ++i) {
      const W entry = s.transposed ? a(j, i) : a(i, j);
      triangle(i, j) = s.conjugated ? Eigen::numext::conj(entry) : entry;
    }
    if (s.unit) triangle(j, j) = W(1);
  }
  const MatrixIn<W> right(b, s.x.rows, s.x.columns);
  MatrixOut<W> result(to, s.x.rows, s.x.columns);
  ColumnMatrix<W> x;
  if (s.left)
    x = right;
  else
    x = right.transpose();
  if (s.lower)
    triangle.template triangularView<Eigen::Lower>().solveInPlace(x);
  else
    triangle.template triangularView<Eigen::Upper>().solveInPlace(x);
  if (s.left)
    result = x;
  else
    result = x.transpose();
}

template <class T>
void solve(const SolveState& s, const Call& call) {
  const double work = static_cast<double>(s.a.rows) * static_cast<double>(s.x.size());
  for_each_matrix(s.threads, s.x.size() == 0 ? 0 : s.x.count, work, [&](std::int64_t i) {
    const Source<T> a(call.operand<T>(0) + i * s.a.size(), s.a.size());
    const Source<T> b(call.operand<T>(1) + i * s.x.size(), s.x.size());
    const Sink<T> x(call.result<T>() + i * s.x.size(), s.x.size());
    solve_triangle<Wide<T>>(s, a.data(), b.data(), x.data());
  });
}

Plan plan_solve(const PlanRequest& request) {
  const Op& op = request.op;
  const bool left = op.boolean("left_side");
  const bool transposed = op.boolean("transpose_a") == left;
  const SolveState state{Matrices(request.in[0]),
                         Matrices(request.in[1]),
                         request.threads,
                         left,
                         transposed,
                         op.boolean("lower") != transposed,
                         op.boolean("conjugate_a"),
                         op.boolean("unit_diagonal")};
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (Inexact<T>) {
      return make_plan<SolveState, solve<T>>(state);
    } else {
      return Plan();
    }
  });
}

double pivot_size(double x) { return std::abs(x); }
double pivot_size(std::complex<double> x) {
  return std::abs(x.real()) + std::abs(x.imag());  // as LAPACK has it
}

// Columns [first, last) one after another, with what their steps do to the rows beside them; exchanges are of
// whole rows.
template <class W>
void factor_panel(MatrixOut<W>& x, Eigen::Index first, Eigen::Index last, std::int32_t* pivots) {
  const Eigen::Index m = x.rows(), n = x.cols();
  for (Eigen::Index j = first; j < last; ++j) {
    Eigen::Index pivot = j;
    for (Eigen::Index i = j + 1; i < m; ++i) {
      if (pivot_size(x(i, j)) > pivot_size(x(pivot, j))) pivot = i;
    }
    pivots[j] = static_cast<std::int32_t>(pivot);
    if (pivot != j) x.row(j).swap(x.row(pivot));
    const W diagonal = x(j, j);
    if (diagonal == W(0)) continue;  // so is the rest of the column
    for (Eigen::Index i = j + 1; i < m; ++i) {
      const W factor = x(i, j) /= diagonal;
      const Eigen::Index width = (i < last ? n : last) - j - 1;
      x.row(i).segment(j + 1, width) -= factor * x.row(j).segment(j + 1, width);
    }
  }
}

template <class W>
void factor_lu(const W* from, W* to, std::int32_t* pivots, const Matrices& of) {
  constexpr Eigen::Index width = 32;
  const Eigen::Index m = of.rows, n = of.columns, k = of.smaller();
  MatrixOut<W> x(to, m, n);
  x = MatrixIn<W>(from, m, n);
  for (Eigen::Index first = 0; first < k; first += width) {
    const Eigen::Index last = std::min(first + width, k), wide = last - first;
    factor_panel<W>(x, first, last, pivots);
    if (last == n || last == m) continue;
    x.block(last, last, m - last, n - last).noalias() -=
        x.block(last, first, m - last, wide) * x.block(first, last, wide, n - last);
  }
}

template <class T>
struct Lu {
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t m = s.x.rows, k = s.x.smaller(), size = s.x.size();
    for_each_matrix(s.threads, s.x.count, cubed(s.x), [&](std::int64_t b) {
      std::int32_t* pivots = call.result<std::int32_t>(1) + b * k;
      std::int32_t* permutation = call.result<std::int32_t>(2) + b * m;
      for (std::int64_t i = 0; i < m; ++i) permutation[i] = static_cast<std::int32_t>(i);
      if (k == 0) return;
      const Source<T> x(call.operand<T>(0) + b * size, size);
      const Sink<T> factors(call.result<T>() + b * size, size);
      factor_lu<Wide<T>>(x.data(), factors.data(), pivots, s.x);
      for (std::int64_t j = 0; j < k; ++j) std::swap(permutation[j], permutation[pivots[j]]);
    });
  }
};

// A power of two by which the squares of x's elements are far from overflow and underflow; 1 where they are
// already, or x is not finite.
double scale_of(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  const int exponent = std::ilogb(largest);
  return std::abs(exponent) < 256 ? 1 : std::ldexp(1.0, exponent);
}

template <class W>
void factor_qr(const W* from, W* to_q, W* to_r, const Matrices& of) {
  const Eigen::Index m = of.rows, n = of.columns, k = of.smaller();
  ColumnMatrix<W> x = MatrixIn<W>(from, m, n);
  const double scale = scale_of(x.cwiseAbs().maxCoeff());
  if (scale != 1) x /= scale;
  const Eigen::HouseholderQR<ColumnMatrix<W>> factors(x);
  MatrixOut<W> r(to_r, k, n);
  for (Eigen::Index i = 0; i < k; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) r(i, j) = j < i ? W(0) : factors.matrixQR()(i, j) * scale;
  }
  ColumnMatrix<W> q = ColumnMatrix<W>::Identity(m, k);
  q.applyOnTheLeft(factors.householderQ());
  MatrixOut<W>(to_q, m, k) = q;
}

template <class T>
struct Qr {
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t m = s.x.rows, n = s.x.columns, k = s.x.smaller();
    for_each_matrix(s.threads, k == 0 ? 0 : s.x.count, 4 * cubed(s.x), [&](std::int64_t b) {
      const Source<T> x(call.operand<T>(0) + b * m * n, m * n);
      const Sink<T> q(call.result<T>(0) + b * m * k, m * k), r(call.result<T>(1) + b * k * n, k * n);
      factor_qr<Wide<T>>(x.data(), q.data(), r.data(), s.x);
    });
  }
};

constexpr KernelEntry factorization_entries[] = {{"cholesky", plan_matrices<Cholesky>, floats | complexes},
                                                 {"triangular_solve", plan_solve, floats | complexes},
                                                 {"lu", plan_matrices<Lu>, floats | complexes},
                                                 {"qr", plan_matrices<Qr>, floats | complexes}};

}  // namespace

std::span<const KernelEntry> factorization_kernels() { return factorization_entries; }

}  // namespace tidu::cpu_detail
