// triangular.cpp - cholesky and triangular_solve. Both rules differentiate the equation that the result
// satisfies; neither computes an inverse.
#include <optional>

#include "elementwise_rules.hpp"
#include "matrices.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec solve_attributes[] = {{"left_side", AttributeKind::boolean},
                                              {"lower", AttributeKind::boolean},
                                              {"transpose_a", AttributeKind::boolean},
                                              {"conjugate_a", AttributeKind::boolean},
                                              {"unit_diagonal", AttributeKind::boolean}};

ops::TriangularSolve how_of(const Op& op) {
  return {op.boolean("left_side"), op.boolean("lower"), op.boolean("transpose_a"), op.boolean("conjugate_a"),
          op.boolean("unit_diagonal")};
}

void infer_cholesky(InferContext& c) {
  require_square(c, 0);
  c.result(c.operand(0));
}

// 1/2 below the diagonal and 1/4 on it.
Value halves(Emitter& emitter, Type type) {
  const Value half = ops::full(emitter, type, 0.5, {}), quarter = ops::full(emitter, type, 0.25, {});
  const Value lower = in_part(emitter, type.shape(), Part::lower);
  const Value on_or_above = ops::select_n(lower, zeros(emitter, type), quarter, {});
  return ops::select_n(in_part(emitter, type.shape(), Part::strictly_lower), on_or_above, half, {});
}

// With dS = (dx + dxᴴ)/2: dL = L Φ(L⁻¹ dS L⁻ᴴ), Φ the lower triangle with its diagonal halved (Murray,
// "Differentiation of the Cholesky decomposition", arXiv 1602.07527). The halves are taken together. The
// result's upper triangle is zero by definition, so its tangent is too, also where the rest is NaN.
Derivatives jvp_cholesky(JvpContext& c) {
  const Value l = c.result();
  const Value t = *c.tangent(0);
  const Value twice = ops::add(t, adjoint(t));
  const Value right = ops::triangular_solve(
      l, twice,
      {.left_side = false, .lower = true, .transpose_a = true, .conjugate_a = is_complex(l.dtype())});
  const Value both = ops::triangular_solve(l, right, {.left_side = true, .lower = true});
  return part_of(matrix_product(l, ops::mul(both, halves(c.emitter(), l.type()))), Part::lower);
}

void infer_solve(InferContext& c) {
  require_square(c, 0);
  require_matrix(c, 1);
  const Type a = c.operand(0), b = c.operand(1);
  const bool left = c.op().boolean("left_side");
  bool fits = a.dtype() == b.dtype() && a.rank() == b.rank();
  for (std::size_t k = 0; fits && k + 2 < a.rank(); ++k) fits = a.dim(k) == b.dim(k);
  c.require(fits, "expected a and b of one dtype with the same leading axes, got ", a, " and ", b);
  c.require(columns_of(a) == (left ? rows_of(b) : columns_of(b)), "expected as many ",
            left ? "rows" : "columns", " of b as a has, got ", a, " and ", b);
  c.result(b);
}

// op(a) x = b: dx = op(a)⁻¹ (db - op(da) x), where da is read in the form of a; on the right side alike. One
// solve for both tangents, so that the transposed graph has one too.
Derivatives jvp_solve(JvpContext& c) {
  const ops::TriangularSolve how = how_of(c.op());
  const Value x = c.result();
  std::optional<Value> rest = c.tangent(1);
  if (c.active(0)) {
    const Part part = how.lower ? (how.unit_diagonal ? Part::strictly_lower : Part::lower)
                                : (how.unit_diagonal ? Part::strictly_upper : Part::upper);
    Value da = part_of(*c.tangent(0), part);
    if (how.conjugate_a) da = conjugate(da);
    const As as = how.transpose_a ? As::swapped : As::is;
    const Value moved = how.left_side ? matrix_product(da, as, x, As::is) : matrix_product(x, As::is, da, as);
    rest = rest ? ops::sub(*rest, moved) : ops::neg(moved);
  }
  return ops::triangular_solve(c.primal(0), *rest, how);
}

// ct_b = op(a)⁻ᴴ ct
Derivatives transpose_solve(TransposeContext& c) {
  ops::TriangularSolve how = how_of(c.op());
  how.transpose_a = !how.transpose_a;
  if (is_complex(c.operand_type(0).dtype())) how.conjugate_a = !how.conjugate_a;
  return {std::nullopt, ops::triangular_solve(c.operand(0), *c.cotangent(), how)};
}

// One a for all examples: the leading axis of b goes beside the axis that a does not act on, so that it is
// more right-hand sides (more rows, on the right side) of one solve.
Value solve_shared(BatchContext& c, const ops::TriangularSolve& how) {
  const Value b = c.operand(1);
  const std::size_t rank = b.rank();
  const Value moved = move_axis(b, 0, how.left_side ? rank - 1 : rank - 3);
  const Shape& split_shape = moved.shape();
  Shape merged = split_shape;
  const std::size_t into = how.left_side ? rank - 2 : rank - 3;
  merged[into] = num_elements({split_shape[into], split_shape[into + 1]});
  merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(into) + 1);
  const Value x = ops::triangular_solve(c.operand(0), ops::reshape(moved, merged), how);
  return move_axis(ops::reshape(x, split_shape), how.left_side ? rank - 1 : rank - 3, 0);
}

Values batch_solve(BatchContext& c) {
  if (!c.batched(0)) return solve_shared(c, how_of(c.op()));
  return batch_matrices(c);
}

}  // namespace

// L Lᴴ = (x + xᴴ)/2
constinit const Primitive cholesky{.name = "cholesky",
                                   .traits = Trait::inexact,
                                   .infer = infer_cholesky,
                                   .jvp = jvp_cholesky,
                                   .batch = batch_matrices};

// op(a) x = b or x op(a) = b          linear in b: ct_b = op(a)⁻ᴴ ct
constinit const Primitive triangular_solve{.name = "triangular_solve",
                                           .arity = 2,
                                           .attributes = solve_attributes,
                                           .traits = Trait::inexact,
                                           .linearity = linearity::linear_in(0b10),
                                           .infer = infer_solve,
                                           .jvp = jvp_solve,
                                           .transpose = transpose_solve,
                                           .batch = batch_solve};

}  // namespace tidu::prim

namespace tidu::ops {

Value cholesky(Value x, Where where) { return emit1(Op::make(prim::cholesky, {}), {x}, where); }

Value triangular_solve(Value a, Value b, const TriangularSolve& how, Where where) {
  return emit1(Op::make(prim::triangular_solve, {{"left_side", how.left_side},
                                                 {"lower", how.lower},
                                                 {"transpose_a", how.transpose_a},
                                                 {"conjugate_a", how.conjugate_a},
                                                 {"unit_diagonal", how.unit_diagonal}}),
               {a, b}, where);
}

}  // namespace tidu::ops
