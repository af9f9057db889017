// matrix.hpp - one matrix of a batch for the kernels of linear algebra: elements of type Real or Complex, row
// by row. Every kernel is the textbook's loops; none shares a method with the CPU executor.
#pragma once

#include <cmath>
#include <limits>

#include "reference/elements.hpp"

namespace tidu::ref {

inline Real conjugate(Real x) { return x; }
inline Complex conjugate(Complex x) { return std::conj(x); }
inline Real real_of(Real x) { return x; }
inline Real real_of(Complex x) { return x.real(); }
inline Real squared(Real x) { return x * x; }
inline Real squared(Complex x) { return x.real() * x.real() + x.imag() * x.imag(); }

template <class T>
T not_a_number() {
  constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();
  if constexpr (std::is_same_v<T, Complex>)
    return {nan, nan};
  else
    return nan;
}

template <class T>
struct Matrix {
  Int rows, columns;
  std::vector<T> elements;

  Matrix(Int m, Int n) : rows(m), columns(n), elements(static_cast<std::size_t>(m * n), T(0)) {}
  T& operator()(Int i, Int j) { return elements[static_cast<std::size_t>(i * columns + j)]; }
  const T& operator()(Int i, Int j) const { return elements[static_cast<std::size_t>(i * columns + j)]; }

  /// Matrix number `b` of a tensor.
  static Matrix of(const Tensor& tensor, Int b) {
    Matrix x(tensor.dim(tensor.rank() - 2), tensor.dim(tensor.rank() - 1));
    for (Int i = 0; i < x.rows * x.columns; ++i)
      x.elements[axis_of(i)] = load<T>(tensor, b * x.rows * x.columns + i);
    return x;
  }
  void store(const Writer& out, Int b) const {
    for (Int i = 0; i < rows * columns; ++i) out.store<T>(b * rows * columns + i, elements[axis_of(i)]);
  }
  static Matrix identity(Int n) {
    Matrix x(n, n);
    for (Int i = 0; i < n; ++i) x(i, i) = T(1);
    return x;
  }
  Matrix adjoint() const {
    Matrix x(columns, rows);
    for (Int i = 0; i < rows; ++i) {
      for (Int j = 0; j < columns; ++j) x(j, i) = conjugate((*this)(i, j));
    }
    return x;
  }
  /// Half the sum of a square matrix and its adjoint.
  Matrix hermitian() const {
    Matrix x(rows, columns);
    for (Int i = 0; i < rows; ++i) {
      for (Int j = 0; j < columns; ++j) x(i, j) = ((*this)(i, j) + conjugate((*this)(j, i))) * 0.5;
    }
    return x;
  }
  /// The largest magnitude of an element, which is not finite when one is not.
  Real magnitude() const {
    Real largest = 0;
    for (const T& x : elements) largest = greater_of(largest, std::abs(x));
    return largest;
  }
  void scale(Real factor) {
    for (T& x : elements) x *= factor;
  }
  void divide(Real divisor) {  // whose reciprocal may be infinite
    for (T& x : elements) x /= divisor;
  }
  void fill(T value) { elements.assign(elements.size(), value); }
};

/// How many matrices a tensor holds.
inline Int num_matrices(const Tensor& tensor) {
  Int count = 1;
  for (std::size_t axis = 0; axis + 2 < tensor.rank(); ++axis) count *= tensor.dim(axis);
  return count;
}

/// Calls body(T(), b) for each matrix b of the first operand, T being Real or Complex.
template <class Body>
void for_each_matrix(const KernelCall& c, const Body& body) {
  with_element(c.input(0).dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, Int>) {
      no_kernel_for(c);
    } else {
      for (Int b = 0; b < num_matrices(c.input(0)); ++b) body(T(), b);
    }
  });
}

std::vector<NamedKernel> spectral_kernels();  // eigh and svd

}  // namespace tidu::ref
