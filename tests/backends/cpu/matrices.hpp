// matrices.hpp - matrices of many kinds for tests of decompositions: by rows in long double, with the loops
// that put factors together again, and their conversion from and to tensors.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tidu/tensor/tensor.hpp"

namespace tidu::test {

using Number = std::complex<long double>;
using MatrixRandom = std::mt19937_64;

/// A matrix by rows.
struct Dense {
  std::int64_t rows = 0, columns = 0;
  std::vector<Number> elements;
  Dense() = default;
  Dense(std::int64_t m, std::int64_t n) : rows(m), columns(n), elements(static_cast<std::size_t>(m * n)) {}
  Number& operator()(std::int64_t i, std::int64_t j) {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
  Number operator()(std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
};

/// Element (i, j) of a matrix of n columns; the last argument is for random ones.
using Element = std::function<double(std::int64_t i, std::int64_t j, std::int64_t n, MatrixRandom&)>;
struct MatrixKind {
  const char* name;
  Element element;
};
/// All kinds; "dense" is the last.
const std::vector<MatrixKind>& matrix_kinds();

/// The elements times `scale`, rounded to the dtype; complex ones get an imaginary part where they are not
/// zero.
Dense drawn_matrix(const MatrixKind& kind, std::int64_t m, std::int64_t n, double scale, DType dtype,
                   MatrixRandom& random);
/// Rounded to the dtype.
Dense rounded(const Dense& x, DType dtype);
Tensor tensor_of(const Dense& x, DType dtype);
/// A vector is one row.
Dense dense_of(const Tensor& t);

Dense identity_matrix(std::int64_t n);
Dense adjoint(const Dense& x);
Dense product(const Dense& x, const Dense& y);
/// a x + b y
Dense combined(long double a, const Dense& x, long double b, const Dense& y);
/// Columns of x times the elements of the row s.
Dense columns_scaled(const Dense& x, const Dense& s);
/// Magnitudes.
Dense sizes(const Dense& x);
/// The lower triangle without a diagonal, or the upper one with it, of m x n.
Dense strictly_lower(const Dense& x, std::int64_t m, std::int64_t n);
Dense upper(const Dense& x, std::int64_t m, std::int64_t n);
/// A determinant, sign exp(logarithm).
struct Determinant {
  Number sign = 1;
  long double logarithm = 0;
};
/// The inverse by Gauss and Jordan with pivoting, an empty matrix where a pivot is zero, and the determinant.
Dense inverse(Dense x, Determinant* determinant = nullptr);

/// The largest magnitude; infinite where an element is NaN.
long double largest(const Dense& x);
/// The root of the sum of squares.
long double frobenius(const Dense& x);
/// The largest distance of the columns' inner products from those of orthonormal ones.
long double skewness(const Dense& columns);

/// The rounding of one operation in the dtype.
long double rounding_of(DType dtype);

}  // namespace tidu::test
