// spectral.cpp - eigh and svd, for distinct eigenvalues and singular values; at equal ones the differences
// that are divided by are zero, and the derivative is not finite.
#include "elementwise_rules.hpp"
#include "matrices.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec thin_svd[] = {{"full_matrices", AttributeKind::boolean, true, 0}};

// A real x as one of this dtype.
Value as_dtype(Value x, DType dtype) {
  return x.dtype() == dtype ? x : ops::convert_element_type(x, dtype, {});
}
Value real_part(Value x) { return is_complex(x.dtype()) ? ops::real(x, {}) : x; }

// 1 / x, but zero on the diagonal; x is zero there.
Value reciprocal_off_diagonal(Value x) {
  const Value one = identity(*x.emitter(), x.type());
  return ops::sub(ops::reciprocal(ops::add(x, one, {}), {}), one, {});
}

void infer_eigh(InferContext& c) {
  require_square(c, 0);
  const Type x = c.operand(0);
  c.result(x);
  c.result(real_dtype(x.dtype()), vector_shape(x, columns_of(x)));
}

// With D = Vᴴ (dx + dxᴴ)/2 V and F_ij = 1 / (w_j - w_i), F_ii = 0: dV = V (F ∘ D), dw = diag D (Giles,
// "Collected matrix derivative results", 2008).
Derivatives jvp_eigh(JvpContext& c) {
  const Value v = c.result(0), w = c.result(1);
  const Value t = *c.tangent(0);
  const Value twice = ops::add(t, adjoint(t), {});
  const Value dx = ops::mul(twice, ops::full(c.emitter(), t.type(), 0.5, {}), {});
  const Value d = matrix_product(v, As::adjoint, matrix_product(dx, v), As::is);
  const Value columns = by_column(w, v.shape());
  const Value f = reciprocal_off_diagonal(ops::sub(columns, by_row(w, v.shape()), {}));
  return {matrix_product(v, ops::mul(as_dtype(f, d.dtype()), d, {})), real_part(diagonal(d))};
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

// (y - U Uᴴ y) / s, s beside every row: the part of a tangent of U that leaves the span of U.
Value leaving(Value u, Value y, Value s) {
  const Value inside = matrix_product(u, matrix_product(u, As::adjoint, y, As::is));
  const Value outside = ops::sub(y, inside, {});
  return ops::div(outside, by_column(as_dtype(s, y.dtype()), y.shape()), {});
}

// With D = Uᴴ dx V and F_ij = 1 / (s_j² - s_i²), F_ii = 0: ds = Re diag D, dU = U (F ∘ (D s + (D s)ᴴ)),
// dV = V (F ∘ (s D + (s D)ᴴ)), to which comes, for complex x, i Im(diag D) / s on the diagonal of the first,
// and for a rectangular x what leaves the span of U or of V (Giles 2008; Wan and Zhang, "Automatic
// differentiation for complex valued SVD", 2019).
Derivatives jvp_svd(JvpContext& c) {
  Emitter& emitter = c.emitter();
  const Value u = c.result(0), s = c.result(1), vh = c.result(2);
  const Value dx = *c.tangent(0);
  const DType dtype = dx.dtype();
  const std::int64_t m = rows_of(dx.type()), n = columns_of(dx.type());
  const Value dxv = matrix_product(dx, As::is, vh, As::adjoint);
  const Value d = matrix_product(u, As::adjoint, dxv, As::is);
  const Shape& shape = d.shape();
  const Value columns = by_column(s, shape), rows = by_row(s, shape);
  const Value sums = ops::add(columns, rows, {});
  const Value f = as_dtype(reciprocal_off_diagonal(ops::mul(sums, ops::sub(columns, rows, {}), {})), dtype);
  const Value ds_right = ops::mul(as_dtype(columns, dtype), d, {}),
              s_left = ops::mul(as_dtype(rows, dtype), d, {});
  const Value middle = ops::mul(f, ops::add(ds_right, adjoint(ds_right), {}), {});
  Value du = matrix_product(u, middle);
  if (is_complex(dtype)) {
    const Value none = ops::convert_element_type(ops::eq(s, zeros(emitter, s.type()), {}), s.dtype(), {});
    const Value inverse = ops::sub(ops::reciprocal(ops::add(s, none, {}), {}), none, {});
    const Value phase = ops::mul(ops::imag(diagonal(d), {}), inverse, {});
    const Value turned = ops::complex(zeros(emitter, phase.type()), phase, {});
    du = ops::add(du, ops::mul(by_column(turned, u.shape()), u, {}), {});
  }
  Value dvh = matrix_product(ops::mul(f, ops::add(s_left, adjoint(s_left), {}), {}), As::adjoint, vh, As::is);
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
