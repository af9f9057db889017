// spectral.cpp - eigh and svd: their types and JVP rules.
//
// Note [Equal eigenvalues]: vectors of equal eigenvalues or singular values are any orthonormal basis of
// their space, and a tangent has no component within it: the quotients by differences that are exactly 0 are
// 0, not infinite. So derivatives of all functions that do not depend on that basis are finite;
// docs/conventions.md says for which they are right. Each quotient divides the tangent itself, since the
// reciprocal of a product of differences leaves the range long before the quotient does.
#include "elementwise_rules.hpp"
#include "matrices.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec thin_svd[] = {{"full_matrices", AttributeKind::boolean, true, 0}};

Value is_zero(Value x) { return ops::eq(x, ops::full_like(x, 0.0), {}); }

// x / y for a real y of the same shape: 0 where y is 0, and there neither x nor y has a derivative. A complex
// x is divided part by part, which takes no squares of y.
Value quotient_or_zero(Value x, Value y) {
  const Value none = is_zero(y);
  const Value divisor = ops::select_n(none, y, ops::full_like(y, 1.0), {});
  const auto part = [&](Value p) {
    return ops::div(ops::select_n(none, p, ops::full_like(p, 0.0), {}), divisor, {});
  };
  if (!is_complex(x.dtype())) return part(x);
  const Value re = part(ops::real(x, {}));
  return ops::complex(re, part(ops::imag(x, {})), {});
}

// x / 2, in which the sum of two does not overflow.
Value half(Value x) { return ops::mul(x, ops::full_like(x, 0.5), {}); }

void infer_eigh(InferContext& c) {
  require_square(c, 0);
  const Type x = c.operand(0);
  c.result(x);
  c.result(real_dtype(x.dtype()), vector_shape(x, columns_of(x)));
}

// With D = Vᴴ (dx + dxᴴ)/2 V and O_ij = D_ij / (w_j - w_i), 0 where w_j = w_i: dV = V O, dw = diag D
// (Giles, "Collected matrix derivative results", 2008).
Derivatives jvp_eigh(JvpContext& c) {
  const Value v = c.result(0), w = c.result(1);
  const Value t = half(*c.tangent(0));
  const Value dx = ops::add(t, adjoint(t), {});
  const Value d = matrix_product(v, As::adjoint, matrix_product(dx, v), As::is);
  const Value columns = by_column(w, v.shape());
  const Value o = quotient_or_zero(d, ops::sub(columns, by_row(w, v.shape()), {}));
  return {matrix_product(v, o), real_part(diagonal(d))};
}

void infer_svd(InferContext& c) {
  require_matrix(c, 0);
  c.require(!c.op().boolean("full_matrices"),
            "expected full_matrices false, the only one supported, got true");
  const Type x = c.operand(0);
  const std::int64_t k = std::min(rows_of(x), columns_of(x));
  c.result(x.dtype(), matrix_shape(x, rows_of(x), k));
  c.result(real_dtype(x.dtype()), vector_shape(x, k));
  c.result(x.dtype(), matrix_shape(x, k, columns_of(x)));
}

// (y - U Uᴴ y) / s, s beside every row: the part of a tangent of U that leaves the span of U; 0 where s is.
Value leaving(Value u, Value y, Value s) {
  const Value inside = matrix_product(u, matrix_product(u, As::adjoint, y, As::is));
  return quotient_or_zero(ops::sub(y, inside, {}), by_column(s, y.shape()));
}

// With D = Uᴴ dx V, its Hermitian part H and its skew-Hermitian part K, P_ij = H_ij / (s_j - s_i) and Q_ij =
// K_ij / (s_j + s_i), each 0 if its divisor is 0: ds = Re diag D, dU = U (P + Q), dV = V (P - Q). If x is
// rectangular, the component outside the span of U or of V is added. For complex x the diagonal of Q, a
// change of phase, is twice in dU and not in dV (Giles 2008; Wan and Zhang, "Automatic differentiation for
// complex valued SVD", 2019, where P + Q is one quotient by s_j² - s_i²).
Derivatives jvp_svd(JvpContext& c) {
  const Value u = c.result(0), s = c.result(1), vh = c.result(2);
  const Value dx = *c.tangent(0);
  const std::int64_t m = rows_of(dx.type()), n = columns_of(dx.type());
  const Value dxv = matrix_product(dx, As::is, vh, As::adjoint);
  const Value d = matrix_product(u, As::adjoint, dxv, As::is);
  const Value columns = by_column(s, d.shape()), rows = by_row(s, d.shape());
  const Value first = half(d), second = adjoint(first);
  const Value p = quotient_or_zero(ops::add(first, second, {}), ops::sub(columns, rows, {}));
  const Value q = quotient_or_zero(ops::sub(first, second, {}), ops::add(columns, rows, {}));
  Value in_u = ops::add(p, q, {}), in_v = ops::sub(q, p, {});  // the latter for dVᴴ = (Q - P) Vᴴ
  if (is_complex(d.dtype())) {
    const Value phases = ops::mul(q, identity(c.emitter(), q.type()), {});
    in_u = ops::add(in_u, phases, {});
    in_v = ops::sub(in_v, phases, {});
  }
  Value du = matrix_product(u, in_u), dvh = matrix_product(in_v, vh);
  if (m > n) du = ops::add(du, leaving(u, dxv, s), {});
  if (n > m) {
    const Value v = adjoint(vh);
    dvh = ops::add(dvh, adjoint(leaving(v, matrix_product(dx, As::adjoint, u, As::is), s)), {});
  }
  return {du, real_part(diagonal(d)), dvh};
}

}  // namespace

// (x + xᴴ)/2 = V diag(w) Vᴴ
constinit const Primitive eigh{.name = "eigh",
                               .num_outputs = 2,
                               .traits = Trait::inexact,
                               .infer = infer_eigh,
                               .jvp = jvp_eigh,
                               .batch = batch_matrices};

// x = U diag(s) Vᴴ
constinit const Primitive svd{.name = "svd",
                              .num_outputs = 3,
                              .attributes = thin_svd,
                              .traits = Trait::inexact,
                              .infer = infer_svd,
                              .jvp = jvp_svd,
                              .batch = batch_matrices};

}  // namespace tidu::prim

namespace tidu::ops {

Values eigh(Value x, Where where) { return emit(Op::make(prim::eigh, {}), std::array{x}, where); }
Values svd(Value x, Where where) { return emit(Op::make(prim::svd, {}), std::array{x}, where); }

}  // namespace tidu::ops
