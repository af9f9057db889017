// eigen.hpp - tensors as Eigen objects: maps without copying, and tensors from Eigen expressions. Opt-in,
// since it names Eigen's types; <tidu/tidu.hpp> leaves it out.
#pragma once

#include <Eigen/Core>
#include <cstddef>

#include "tidu/graph/error.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

/// Row-major, as tensors are.
template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// A column, as a tensor of rank 1 is.
template <class T>
using ColumnVector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

namespace detail {
inline void require_rank(const Tensor& tensor, std::size_t rank) {
  if (tensor.rank() != rank) {
    throw Error(ErrorKind::type, str("eigen: expected a tensor of rank ", rank, ", got ", tensor.type()));
  }
}
}  // namespace detail

/// A tensor of rank 2 as a matrix over its own memory, valid while a tensor holds the storage. Throws Error
/// (type) for another rank or element type.
template <class T>
Eigen::Map<const RowMatrix<T>> matrix(const Tensor& tensor) {
  detail::require_rank(tensor, 2);
  return {tensor.data<T>(), static_cast<Eigen::Index>(tensor.dim(0)),
          static_cast<Eigen::Index>(tensor.dim(1))};
}
/// The same to write to; counts the version up. Throws Error (invalid_argument) when the memory is read-only.
template <class T>
Eigen::Map<RowMatrix<T>> mutable_matrix(Tensor& tensor) {
  detail::require_rank(tensor, 2);
  return {tensor.mutable_data<T>(), static_cast<Eigen::Index>(tensor.dim(0)),
          static_cast<Eigen::Index>(tensor.dim(1))};
}
/// A tensor of rank 1 as a column vector.
template <class T>
Eigen::Map<const ColumnVector<T>> vector(const Tensor& tensor) {
  detail::require_rank(tensor, 1);
  return {tensor.data<T>(), static_cast<Eigen::Index>(tensor.dim(0))};
}
/// The same to write to, as mutable_matrix.
template <class T>
Eigen::Map<ColumnVector<T>> mutable_vector(Tensor& tensor) {
  detail::require_rank(tensor, 1);
  return {tensor.mutable_data<T>(), static_cast<Eigen::Index>(tensor.dim(0))};
}

/// A tensor with the values of a matrix, vector, array or expression: of rank 1 when its type is a vector's,
/// else of rank 2.
template <class Derived>
Tensor tensor_from(const Eigen::DenseBase<Derived>& values) {
  using T = typename Derived::Scalar;
  const bool is_vector = Derived::IsVectorAtCompileTime != 0;
  const Shape shape =
      is_vector ? Shape{static_cast<std::int64_t>(values.size())}
                : Shape{static_cast<std::int64_t>(values.rows()), static_cast<std::int64_t>(values.cols())};
  Tensor tensor(Type(dtype_of<T>(), shape));
  using Rows = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Rows>(tensor.mutable_data<T>(), values.rows(), values.cols()) = values.derived().array();
  return tensor;
}

}  // namespace tidu
