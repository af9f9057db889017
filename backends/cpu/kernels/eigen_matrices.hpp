// eigen_matrices.hpp - Eigen's view of matrices at raw pointers. Eigen allocates its workspaces on the heap,
// so computations with them may throw std::bad_alloc.
#pragma once

#include <Eigen/Core>

namespace tidu::cpu_detail {

template <class W>
using RowMatrix = Eigen::Matrix<W, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class W>
using ColumnMatrix = Eigen::Matrix<W, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
template <class W>
using MatrixIn = Eigen::Map<const RowMatrix<W>>;
template <class W>
using MatrixOut = Eigen::Map<RowMatrix<W>>;

/// Half the sum of x and its adjoint.
template <class W, class Result>
void take_hermitian(const MatrixIn<W>& x, Result& result) {
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      result(i, j) = (x(i, j) + Eigen::numext::conj(x(j, i))) * 0.5;
      result(j, i) = Eigen::numext::conj(result(i, j));
    }
  }
}

}  // namespace tidu::cpu_detail
