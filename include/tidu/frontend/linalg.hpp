// linalg.hpp - linear algebra of Arrays, with the names of jax.numpy.linalg and jax.scipy.linalg. Matrices
// are the last two axes; leading axes are a batch, which is broadcast between two operands. Integers and
// bools become f64. For signs and phases of vectors, and for the domain of derivatives, see ops
// (primitives/linalg.hpp). All throw Error (type, invalid_argument) that names function, types and the user's
// source location.
#pragma once

#include <tuple>
#include <utility>

#include "tidu/frontend/array.hpp"

namespace tidu::linalg {

// --- factors

/// L of (x + xᴴ)/2 = L Lᴴ for x [..., n, n], lower triangular; NaN where x is not positive definite.
Array cholesky(const Array& x, Where where = Where::current());
/// {factors, pivots, permutation} of x [..., m, n] with x[permutation] = L U, k = min(m, n): L (strictly
/// below a diagonal of ones) and U packed into [..., m, n]; pivots i32 [..., k]; permutation i32 [..., m].
std::tuple<Array, Array, Array> lu(const Array& x, Where where = Where::current());
/// {Q, R} of x [..., m, n], k = min(m, n): Q [..., m, k] has orthonormal columns, R [..., k, n] is upper
/// triangular.
std::pair<Array, Array> qr(const Array& x, Where where = Where::current());
/// {eigenvalues, eigenvectors} of (x + xᴴ)/2 for x [..., n, n]: [..., n], real and ascending, and [..., n,
/// n], in columns.
std::pair<Array, Array> eigh(const Array& x, Where where = Where::current());
/// {U, S, Vᴴ} of x [..., m, n], k = min(m, n): U [..., m, k], S [..., k], real and descending, Vᴴ [..., k,
/// n].
std::tuple<Array, Array, Array> svd(const Array& x, Where where = Where::current());

// --- equations. A right-hand side of one axis is a vector.

/// How a triangular matrix is read, and on which side it stands.
struct Triangle {
  bool lower = false;          ///< of a as it is given
  bool transpose = false;      ///< op(a) is a transposed
  bool conjugate = false;      ///< op(a) is a conjugated, or both
  bool unit_diagonal = false;  ///< ones, not read
  bool left_side = true;       ///< op(a) x = b, else x op(a) = b
};
/// x with op(a) x = b, for a [..., n, n], of which one triangle is read, and b [..., n, k] or [n]; with
/// left_side false x with x op(a) = b, for b [..., k, n] or [n].
Array solve_triangular(const Array& a, const Array& b, const Triangle& how = {},
                       Where where = Where::current());
/// x with (L Lᴴ) x = b, where `factor` is the result of cholesky(); with lower false (Uᴴ U) x = b.
Array cho_solve(const Array& factor, const Array& b, bool lower = true, Where where = Where::current());
/// x with a x = b for an invertible a [..., n, n] and b [..., n, k] or [n], by LU factors.
Array solve(const Array& a, const Array& b, Where where = Where::current());
/// The inverse of x [..., n, n].
Array inv(const Array& x, Where where = Where::current());

// --- numbers

/// [..., n, n] -> [...]. Up to n = 3 by explicit formulas, so that gradients exist everywhere. For larger n
/// by LU factors; gradients exist if x is invertible.
Array det(const Array& x, Where where = Where::current());
/// {sign, log|det x|}, so that det x = sign exp(log|det x|); for complex matrices the sign is a phase. 0 and
/// -inf if x is singular.
std::pair<Array, Array> slogdet(const Array& x, Where where = Where::current());
/// The square root of the sum of squared magnitudes over the axes: the 2-norm of vectors, the Frobenius norm
/// of matrices. NaN gradients at 0.
Array norm(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
/// (sum |x|^ord)^(1/ord) over the axes; for ord = inf and -inf the greatest and least |x|, for 0 the number
/// of nonzero elements. Without elements it is 0, and inf for negative ord.
Array vector_norm(const Array& x, double ord = 2.0, const Axes& axes = {}, bool keepdims = false,
                  Where where = Where::current());

}  // namespace tidu::linalg
