// hermitian_ql.hpp - eigenvalues and vectors of a Hermitian matrix by Householder's tridiagonal form and
// implicit QL iteration (Bowdler, Martin, Reinsch and Wilkinson, 1968; EISPACK's tql2). An element beside the
// diagonal counts as zero where it is rounding of the whole matrix, so that blocks which are nothing but
// rounding, as of matrices of low rank, converge. Slower than Eigen's solver, which compares with neighbours
// on the diagonal alone, and does not always converge there.
#pragma once

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/kernels/eigen_matrices.hpp"

namespace tidu::cpu_detail {

/// x = vectors diag(values) vectors^H, values in ascending order.
template <class W>
struct Spectrum {
  ColumnMatrix<W> vectors;
  Eigen::VectorXd values;
};

/// One implicit QL step on rows l to m of the tridiagonal matrix with diagonal d, and e[i] between i and i +
/// 1, with e[m] = 0; columns of z are rotated along.
template <class W>
void ql_step(Eigen::VectorXd& d, Eigen::VectorXd& e, ColumnMatrix<W>& z, Eigen::Index l, Eigen::Index m) {
  double g = (d(l + 1) - d(l)) / (2 * e(l));
  g = d(m) - d(l) + e(l) / (g + std::copysign(std::hypot(g, 1.0), g));
  double sine = 1, cosine = 1, shift = 0;
  for (Eigen::Index i = m - 1; i >= l; --i) {
    const double f = sine * e(i), b = cosine * e(i), r = std::hypot(f, g);
    e(i + 1) = r;
    if (r == 0) {  // the block falls apart
      d(i + 1) -= shift;
      e(m) = 0;
      return;
    }
    sine = f / r;
    cosine = g / r;
    g = d(i + 1) - shift;
    const double t = (d(i) - g) * sine + 2 * cosine * b;
    shift = sine * t;
    d(i + 1) = g + shift;
    g = cosine * t - b;
    for (Eigen::Index k = 0; k < z.rows(); ++k) {
      const W right = z(k, i + 1), left = z(k, i);
      z(k, i + 1) = sine * left + cosine * right;
      z(k, i) = cosine * left - sine * right;
    }
  }
  d(l) -= shift;
  e(l) = g;
  e(m) = 0;
}

/// Of a Hermitian matrix, finite, whose squares stay in the range; false if it does not converge.
template <class W>
bool decompose_by_ql(const ColumnMatrix<W>& x, Spectrum<W>& to) {
  const Eigen::Index n = x.rows();
  const Eigen::Tridiagonalization<ColumnMatrix<W>> form(x);
  Eigen::VectorXd d = form.diagonal(), e = Eigen::VectorXd::Zero(n);
  if (n > 1) e.head(n - 1) = form.subDiagonal();
  ColumnMatrix<W> z = form.matrixQ();
  const double none =
      std::numeric_limits<double>::epsilon() / 2 * (d.cwiseAbs().maxCoeff() + e.cwiseAbs().maxCoeff());
  for (Eigen::Index l = 0; l < n; ++l) {
    for (int steps = 0;; ++steps) {
      Eigen::Index m = l;
      while (m + 1 < n && std::abs(e(m)) > none) ++m;
      if (m == l) break;
      if (steps == 100) return false;
      if (m + 1 < n) e(m) = 0;
      ql_step<W>(d, e, z, l, m);
    }
  }
  std::vector<Eigen::Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Eigen::Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Eigen::Index i, Eigen::Index j) { return d(i) < d(j); });
  to = {ColumnMatrix<W>(n, n), Eigen::VectorXd(n)};
  for (Eigen::Index k = 0; k < n; ++k) {
    const Eigen::Index from = order[static_cast<std::size_t>(k)];
    to.values(k) = d(from);
    to.vectors.col(k) = z.col(from);
  }
  return true;
}

}  // namespace tidu::cpu_detail
