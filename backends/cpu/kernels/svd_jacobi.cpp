// svd_jacobi.cpp - singular values without LAPACK, by one-sided Jacobi rotations. Eigen 3.4 has no method
// that is right for every matrix: BDCSVD reports success with factors of another matrix for structured ones,
// such as block-diagonal matrices, and JacobiSVD loses the orthogonality of vectors of complex matrices of
// low rank. Rotations take several times as long for large matrices.
//
// Note [One-sided Jacobi]: rotations of pairs of columns of B = X V make them orthogonal to each other,
// relative to their own sizes (Hestenes 1958; Demmel and Veselic, SIAM J. Matrix Anal. Appl. 13, 1992). Their
// norms are the singular values, and the columns divided by these are U. Columns that vanish are replaced by
// any that complete an orthonormal set.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/kernels/eigen_matrices.hpp"
#include "cpu/kernels/svd.hpp"

namespace tidu::cpu_detail {
namespace {

// X = left diag(values) right^H.
template <class W>
struct Factors {
  ColumnMatrix<W> left, right;
  Eigen::VectorXd values;
};

// Makes columns i and j of b orthogonal, and rotates those of v as well; false if they are orthogonal
// already, or one of them is no longer than `vanishing`.
template <class W>
bool rotate(ColumnMatrix<W>& b, ColumnMatrix<W>& v, double vanishing, Eigen::Index i, Eigen::Index j) {
  const double tolerance = std::sqrt(static_cast<double>(b.rows())) * Eigen::NumTraits<double>::epsilon();
  const double first = b.col(i).squaredNorm(), second = b.col(j).squaredNorm();
  if (std::min(first, second) <= vanishing * vanishing) return false;
  const W product = b.col(i).dot(b.col(j));
  const double size = std::abs(product);
  if (size <= tolerance * std::sqrt(first) * std::sqrt(second)) return false;
  const W phase = Eigen::numext::conj(product) / size;
  const double zeta = (second - first) / (2 * size);
  const double tangent = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::hypot(1, zeta));
  const double cosine = 1 / std::hypot(1, tangent), sine = cosine * tangent;
  for (ColumnMatrix<W>* x : {&b, &v}) {
    for (Eigen::Index row = 0; row < x->rows(); ++row) {
      const W p = (*x)(row, i), q = phase * (*x)(row, j);
      (*x)(row, i) = cosine * p - sine * q;
      (*x)(row, j) = sine * p + cosine * q;
    }
  }
  return true;
}

// Makes column i of u a unit vector orthogonal to the columns before it: the axis that these reach least,
// less its part in them.
template <class W>
void complete(ColumnMatrix<W>& u, Eigen::Index i) {
  const auto before = u.leftCols(i);
  Eigen::Index axis = 0;
  if (i > 0) before.rowwise().squaredNorm().minCoeff(&axis);
  u.col(i).setZero();
  u(axis, i) = W(1);
  for (int round = 0; round < 2; ++round) {
    for (Eigen::Index k = 0; k < i; ++k) u.col(i) -= u.col(k) * u.col(k).dot(u.col(i));
    u.col(i) /= u.col(i).norm();
  }
}

// Of a matrix of as many rows as columns or more; false if 60 sweeps are not enough.
template <class W>
bool by_rotations(ColumnMatrix<W> b, Factors<W>& to) {
  const Eigen::Index n = b.cols();
  ColumnMatrix<W> v = ColumnMatrix<W>::Identity(n, n);
  const double vanishing = b.norm() * 1e-100;  // far below rounding, and its square is no subnormal number
  bool rotated = true;
  for (int sweep = 0; rotated; ++sweep) {
    if (sweep == 60) return false;
    rotated = false;
    for (Eigen::Index i = 0; i < n; ++i) {
      for (Eigen::Index j = i + 1; j < n; ++j) rotated = rotate<W>(b, v, vanishing, i, j) || rotated;
    }
  }
  Eigen::Array<Eigen::Index, Eigen::Dynamic, 1> order(n);
  std::iota(order.data(), order.data() + n, Eigen::Index{0});
  const Eigen::VectorXd norms = b.colwise().norm();
  std::sort(order.data(), order.data() + n, [&](Eigen::Index i, Eigen::Index j) {
    return norms(i) > norms(j) || (norms(i) == norms(j) && i < j);
  });
  to = {ColumnMatrix<W>(b.rows(), n), ColumnMatrix<W>(n, n), Eigen::VectorXd(n)};
  for (Eigen::Index k = 0; k < n; ++k) {
    const Eigen::Index from = order(k);
    to.values(k) = norms(from);
    to.right.col(k) = v.col(from);
    if (norms(from) > vanishing)
      to.left.col(k) = b.col(from) / norms(from);
    else
      complete<W>(to.left, k);
  }
  return true;
}

template <class W>
Attempt by_jacobi(int attempt, const W* from, W* u, double* s, W* vh, std::int64_t m, std::int64_t n) {
  if (attempt > 0) return Attempt::none;
  const MatrixIn<W> x(from, m, n);
  const std::int64_t k = std::min(m, n);
  Factors<W> f;
  if (m >= n) {
    if (!by_rotations<W>(x, f)) return Attempt::failed;
  } else {
    if (!by_rotations<W>(x.adjoint(), f)) return Attempt::failed;
    f.left.swap(f.right);
  }
  MatrixOut<W>(u, m, k) = f.left;
  std::copy_n(f.values.data(), k, s);
  MatrixOut<W>(vh, k, n) = f.right.adjoint();
  return Attempt::done;
}

}  // namespace

Attempt decompose_singular(int attempt, double* x, double* u, double* s, double* vh, std::int64_t m,
                           std::int64_t n) {
  return by_jacobi(attempt, x, u, s, vh, m, n);
}

Attempt decompose_singular(int attempt, std::complex<double>* x, std::complex<double>* u, double* s,
                           std::complex<double>* vh, std::int64_t m, std::int64_t n) {
  return by_jacobi(attempt, x, u, s, vh, m, n);
}

// B and U, and V twice.
double singular_workspace(double m, double n) noexcept {
  const double k = std::min(m, n), larger = std::max(m, n);
  return 2 * larger * k + 2 * k * k;
}

}  // namespace tidu::cpu_detail
