// factorizations.cpp - lu and qr of matrices of any shape, and the list of the records of linear algebra.
#include "elementwise_rules.hpp"
#include "matrices.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec thin_qr[] = {{"full_matrices", AttributeKind::boolean, true, 0}};

std::int64_t smaller(Type x) { return std::min(rows_of(x), columns_of(x)); }

void infer_lu(InferContext& c) {
  require_matrix(c, 0);
  const Type x = c.operand(0);
  c.result(x);
  c.result(i32, vector_shape(x, smaller(x)));
  c.result(i32, vector_shape(x, rows_of(x)));
}

// x with row i taken from row permutation[i].
Value permuted(Value x, Value permutation) {
  if (x.rank() == 2) return ops::take(x, permutation, 0, "clip", {});
  const auto rows = static_cast<std::int64_t>(x.rank()) - 2;
  return ops::take_along_axis(x, by_row(permutation, x.shape()), rows, "clip", {});
}

// The unit lower triangular factor with as many columns as rows: beyond L's own, those of the identity.
Value square_lower(Value factors) {
  const Type type = factors.type();
  const std::int64_t m = rows_of(type);
  Value l = factors;
  if (m > columns_of(type)) {
    IntLists config(type.rank(), Ints{0, 0, 0});
    config.back()[1] = m - columns_of(type);
    l = ops::pad(l, zeros(*l.emitter(), type.dtype()), config, {});
  }
  l = leading_block(l, m, m);
  Emitter& emitter = *l.emitter();
  const Value own = in_part(emitter, l.shape(), Part::strictly_lower);
  return ops::select_n(own, identity(emitter, l.type()), l, {});
}

// The upper triangular factor with as many rows as columns: below U's own, those of the identity.
Value square_upper(Value factors) {
  const Type type = factors.type();
  const std::int64_t m = rows_of(type), n = columns_of(type);
  Emitter& emitter = *factors.emitter();
  if (m >= n) return part_of(leading_block(factors, n, n), Part::upper);
  IntLists below(type.rank(), Ints{0, 0, 0});
  below[type.rank() - 2][1] = n - m;
  const Value padded = part_of(ops::pad(factors, zeros(emitter, type.dtype()), below, {}), Part::upper);
  IntLists before(type.rank(), Ints{0, 0, 0});
  before[type.rank() - 2][0] = m;
  before[type.rank() - 1][0] = m;
  const Type corner(type.dtype(), matrix_shape(type, n - m, n - m));
  const Value ones = identity(emitter, corner);
  return ops::add(padded, ops::pad(ones, zeros(emitter, type.dtype()), before, {}), {});
}

// With W = L⁻¹ (P dx) U⁻¹: dL = L tril(W, -1), dU = triu(W) U (de Hoog, Anderssen and Lukas, "Differentiation
// of matrix functionals using triangular factorization", 2011).
Derivatives jvp_lu(JvpContext& c) {
  const Value l = square_lower(c.result(0)), u = square_upper(c.result(0));
  const Value moved = permuted(*c.tangent(0), c.result(2));
  const Value left =
      ops::triangular_solve(l, moved, {.left_side = true, .lower = true, .unit_diagonal = true}, {});
  const Value w = ops::triangular_solve(u, left, {.left_side = false, .lower = false}, {});
  const Value dl = matrix_product(l, part_of(w, Part::strictly_lower));
  const Value du = matrix_product(part_of(w, Part::upper), u);
  return {ops::add(dl, du, {}), std::nullopt, std::nullopt};
}

void infer_qr(InferContext& c) {
  require_matrix(c, 0);
  c.require(!c.op().boolean("full_matrices"),
            "expected full_matrices false, the only one supported, got true");
  const Type x = c.operand(0);
  c.result(x.dtype(), matrix_shape(x, rows_of(x), smaller(x)));
  c.result(x.dtype(), matrix_shape(x, smaller(x), columns_of(x)));
}

// With Y the first k columns of dx times those of R inverted and W = Qᴴ Y: Qᴴ dQ = O is skew-Hermitian and
// W - O is upper triangular with a real diagonal, which fixes O; then dQ = Y - Q (W - O) and
// dR = Qᴴ dx - O R (Townsend, "Differentiating the QR decomposition", 2018; the last holds for a wide x too).
Derivatives jvp_qr(JvpContext& c) {
  const Value q = c.result(0), r = c.result(1);
  const Value dx = *c.tangent(0);
  const std::int64_t k = smaller(dx.type());
  const Value first = leading_block(r, k, k);
  const Value y = ops::triangular_solve(first, leading_block(dx, rows_of(dx.type()), k),
                                        {.left_side = false, .lower = false}, {});
  const Value w = matrix_product(q, As::adjoint, y, As::is);
  const Value lower = part_of(w, Part::strictly_lower);
  Value o = ops::sub(lower, adjoint(lower), {});
  if (is_complex(w.dtype())) {
    const Value imaginary = ops::imag(diagonal(w), {});
    const Value along = ops::complex(zeros(c.emitter(), imaginary.type()), imaginary, {});
    const Value columns = by_column(along, o.shape());
    o = ops::add(o, ops::mul(columns, identity(c.emitter(), o.type()), {}), {});
  }
  const Value dq = ops::sub(y, matrix_product(q, ops::sub(w, o, {})), {});
  const Value turned = matrix_product(q, As::adjoint, dx, As::is);
  const Value dr = ops::sub(turned, matrix_product(o, r), {});
  return {dq, dr};
}

}  // namespace

// x[permutation] = L U
constinit const Primitive lu{.name = "lu",
                             .num_outputs = 3,
                             .traits = Trait::inexact,
                             .infer = infer_lu,
                             .jvp = jvp_lu,
                             .batch = batch_matrices};

// x = Q R
constinit const Primitive qr{.name = "qr",
                             .num_outputs = 2,
                             .attributes = thin_qr,
                             .traits = Trait::inexact,
                             .infer = infer_qr,
                             .jvp = jvp_qr,
                             .batch = batch_matrices};

std::vector<const Primitive*> linalg_primitives() {
  return {&cholesky, &triangular_solve, &lu, &qr, &eigh, &svd};
}

}  // namespace tidu::prim

namespace tidu::ops {

Values lu(Value x, Where where) { return emit(Op::make(prim::lu, {}), std::array{x}, where); }
Values qr(Value x, Where where) { return emit(Op::make(prim::qr, {}), std::array{x}, where); }

}  // namespace tidu::ops
