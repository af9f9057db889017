// linalg.hpp - linear algebra of the standard set: records (tidu::prim) and the functions that emit them
// (tidu::ops). Matrices are the last two axes; leading axes are a batch of them. Dtypes are floating or
// complex. Semantics are those of jax.lax.linalg; signs and phases of singular and eigenvectors and of the
// columns of Q are the library's, and derivatives follow them.
#pragma once

#include <vector>

#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Factorizations and the solution of triangular systems.
extern const Primitive cholesky, triangular_solve, lu, qr, eigh, svd;

/// The records of this header, in the order of the documentation's table.
std::vector<const Primitive*> linalg_primitives();

}  // namespace tidu::prim

namespace tidu::ops {

/// The lower factor L of (x + xᴴ)/2 = L Lᴴ for x [..., n, n], zero above the diagonal; NaN where that is not
/// positive definite. Defined and differentiable on the positive definite matrices; cotangents are Hermitian.
Value cholesky(Value x, Where where = Where::current());

/// How triangular_solve reads a: op(a) is a, its transpose, its conjugate, or both.
struct TriangularSolve {
  bool left_side = false;      ///< op(a) x = b, else x op(a) = b
  bool lower = false;          ///< which triangle of a is read
  bool transpose_a = false;    ///< op transposes
  bool conjugate_a = false;    ///< op conjugates
  bool unit_diagonal = false;  ///< the diagonal counts as ones
};
/// x with op(a) x = b (left_side, b [..., n, k]) or x op(a) = b (b [..., k, n]), for a [..., n, n], of which
/// only one triangle is read, and no diagonal when it is a unit one: the rest gets no cotangent.
Value triangular_solve(Value a, Value b, const TriangularSolve& how, Where where = Where::current());

/// LU factors with partial pivoting of x [..., m, n], k = min(m, n): x[permutation] = L U. Results: L
/// (strictly below a diagonal of ones) and U packed into [..., m, n]; pivots i32 [..., k], row i having been
/// exchanged with row pivots[i] >= i; permutation i32 [..., m]. Differentiable where the leading k x k block
/// of x[permutation] is invertible, between changes of pivots.
Values lu(Value x, Where where = Where::current());

/// x = Q R for x [..., m, n], k = min(m, n): Q [..., m, k] with orthonormal columns, R [..., k, n] upper
/// triangular. Differentiable where the first k columns of x are linearly independent.
Values qr(Value x, Where where = Where::current());

/// Eigenvectors [..., n, n], in columns, and eigenvalues [..., n], real and ascending, of (x + xᴴ)/2 for x
/// [..., n, n]. Complex eigenvectors keep their phase: vᴴ dv = 0. The tangent of eigenvectors with exactly
/// equal eigenvalues has no component in their common space. So derivatives are finite, and right if the
/// result does not depend on the basis: docs/conventions.md, Linear algebra. Cotangents are Hermitian.
Values eigh(Value x, Where where = Where::current());

/// x = U diag(S) Vᴴ for x [..., m, n], k = min(m, n): U [..., m, k], S [..., k], real and descending, Vᴴ
/// [..., k, n]. Complex vectors v keep their phase: vᴴ dv = 0. The tangent of vectors with equal or zero
/// singular values has no component in the undetermined directions, as for eigh.
Values svd(Value x, Where where = Where::current());

}  // namespace tidu::ops
