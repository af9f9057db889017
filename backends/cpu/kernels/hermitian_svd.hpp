// hermitian_svd.hpp - eigenvalues and eigenvectors of a Hermitian matrix x by the singular value
// decomposition of x + c I, c = ‖x‖. That matrix is positive semidefinite: its singular values are its
// eigenvalues, c above those of x, and its left singular vectors are eigenvectors of x. The errors are
// rounding errors of ‖x‖, as for any backward stable method; the cost is about ten times that of eigh's own
// method.
#pragma once

#include "cpu/kernels/eigen_matrices.hpp"
#include "cpu/kernels/svd.hpp"

namespace tidu::cpu_detail {

/// x = vectors diag(values) vectors^H, values in ascending order.
template <class W>
struct Spectrum {
  ColumnMatrix<W> vectors;
  Eigen::VectorXd values;
};

/// The spectrum of a finite Hermitian matrix whose largest element is about 1, by method `attempt` of
/// decompose_singular. The caller must check the result, since libraries do not report every failure.
template <class W>
Attempt spectrum_by_svd(int attempt, const RowMatrix<W>& x, Spectrum<W>& to) {
  const Eigen::Index n = x.rows();
  const double shift = x.norm();
  RowMatrix<W> shifted = x + shift * RowMatrix<W>::Identity(n, n), u(n, n), vh(n, n);
  Eigen::VectorXd s(n);
  const Attempt outcome = decompose_singular(attempt, shifted.data(), u.data(), s.data(), vh.data(), n, n);
  if (outcome == Attempt::done) to = {u.rowwise().reverse(), s.reverse().array() - shift};
  return outcome;
}

}  // namespace tidu::cpu_detail
