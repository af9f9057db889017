// matmuls.cpp - dot_general and matmul. Result axes: batch, then lhs free, then rhs free. The transpose rule
// chooses the order of operands that gives the axes of the operand whose cotangent it computes, so that a
// matmul transposes to one matmul without a further transpose.
#include <algorithm>
#include <numeric>

#include "axes.hpp"
#include "factor_rules.hpp"
#include "rules.hpp"
#include "simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec dimension_numbers[] = {{"dimension_numbers", AttributeKind::dot_dimension_numbers}};

ops::DotDimensionNumbers numbers_of(const Op& op) {
  const IntLists& lists = op.lists("dimension_numbers");
  return {lists[0], lists[1], lists[2], lists[3]};
}

void require_pairs(const InferContext& c, std::string_view kind, const Ints& lhs, const Ints& rhs) {
  c.require(lhs.size() == rhs.size(), "expected as many ", kind, " dimensions of lhs as of rhs, got ",
            detail::list(lhs), " and ", detail::list(rhs));
  for (std::size_t i = 0; i < lhs.size(); ++i) {
    const std::int64_t left = c.operand(0).dim(static_cast<std::size_t>(lhs[i]));
    const std::int64_t right = c.operand(1).dim(static_cast<std::size_t>(rhs[i]));
    c.require(left == right, kind, " dimensions differ: dimension ", lhs[i], " of lhs ", c.operand(0), " is ",
              left, ", dimension ", rhs[i], " of rhs ", c.operand(1), " is ", right);
  }
}

void infer_dot(InferContext& c) {
  const Type lhs = c.operand(0);
  const Type rhs = c.operand(1);
  const ops::DotDimensionNumbers d = numbers_of(c.op());
  require_numeric(c, 0);
  c.require(lhs.dtype() == rhs.dtype(), "expected operands of one dtype, got ", lhs, " and ", rhs);
  require_axes(c, "lhs contracting and batch dimensions", joined({d.lhs_contracting, d.lhs_batch}),
               lhs.rank());
  require_axes(c, "rhs contracting and batch dimensions", joined({d.rhs_contracting, d.rhs_batch}),
               rhs.rank());
  require_pairs(c, "contracted", d.lhs_contracting, d.rhs_contracting);
  require_pairs(c, "batch", d.lhs_batch, d.rhs_batch);
  give(c, lhs.dtype(),
       joined({extents_at(lhs.shape(), d.lhs_batch),
               extents_at(lhs.shape(), remaining(lhs.rank(), d.lhs_contracting, d.lhs_batch)),
               extents_at(rhs.shape(), remaining(rhs.rank(), d.rhs_contracting, d.rhs_batch))}));
}

// One operand of a product as its transposition sees it: `x` is wanted, `y` is known.
struct Side {
  Ints contracting, batch, free;
};

// ct_x = ct . conj(y), contracted over y's free axes. Its axes are x's batch axes, then x's free axes, then
// x's contracted axes in the order of their partners in y (or, with y first, the contracted axes before the
// free ones).
Value transpose_side(Value ct, Value y, const Side& x, const Side& y_side, std::int64_t first_of_y) {
  const auto batch = range(0, static_cast<std::int64_t>(x.batch.size()));
  const auto ct_axes_of_y = range(first_of_y, first_of_y + static_cast<std::int64_t>(y_side.free.size()));
  Ints order(y_side.contracting.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return y_side.contracting[static_cast<std::size_t>(a)] < y_side.contracting[static_cast<std::size_t>(b)];
  });
  const Ints contracted = extents_at(x.contracting, order);
  const Value other = is_complex(y.dtype()) ? ops::conj(y) : y;
  const Ints cotangent_first = joined({x.batch, x.free, contracted});
  const Ints known_first = joined({x.batch, contracted, x.free});
  if (std::is_sorted(known_first.begin(), known_first.end()) &&
      !std::is_sorted(cotangent_first.begin(), cotangent_first.end())) {
    return ops::dot_general(other, ct, {y_side.free, ct_axes_of_y, y_side.batch, batch});
  }
  return ops::transpose(ops::dot_general(ct, other, {ct_axes_of_y, y_side.free, batch, y_side.batch}),
                        inverse_permutation(cotangent_first));
}

Derivatives transpose_dot(TransposeContext& c) {
  const ops::DotDimensionNumbers d = numbers_of(c.op());
  const Side lhs{d.lhs_contracting, d.lhs_batch,
                 remaining(c.operand_type(0).rank(), d.lhs_contracting, d.lhs_batch)};
  const Side rhs{d.rhs_contracting, d.rhs_batch,
                 remaining(c.operand_type(1).rank(), d.rhs_contracting, d.rhs_batch)};
  const auto batch = static_cast<std::int64_t>(lhs.batch.size());
  const auto lhs_free = static_cast<std::int64_t>(lhs.free.size());
  if (c.linear(0))
    return {transpose_side(*c.cotangent(), c.operand(1), lhs, rhs, batch + lhs_free), std::nullopt};
  return {std::nullopt, transpose_side(*c.cotangent(), c.operand(0), rhs, lhs, batch)};
}

// The leading axis is one more batch axis when both operands have it, else one more free axis.
Values batch_dot(BatchContext& c) {
  ops::DotDimensionNumbers d = numbers_of(c.op());
  const std::size_t batch = d.lhs_batch.size();
  const std::size_t lhs_free = c.operand_type(0).rank() - batch - d.lhs_contracting.size();
  if (c.batched(0)) {
    d.lhs_contracting = shifted(d.lhs_contracting);
    d.lhs_batch = shifted(d.lhs_batch);
  }
  if (c.batched(1)) {
    d.rhs_contracting = shifted(d.rhs_contracting);
    d.rhs_batch = shifted(d.rhs_batch);
  }
  if (c.batched(0) && c.batched(1)) {
    d.lhs_batch = prepended(0, d.lhs_batch);
    d.rhs_batch = prepended(0, d.rhs_batch);
    return ops::dot_general(c.operand(0), c.operand(1), d);
  }
  return move_axis(ops::dot_general(c.operand(0), c.operand(1), d), c.batched(0) ? batch : batch + lhs_free,
                   0);
}

}  // namespace

// z = x . y          ct_x = ct . conj(y), ct_y = conj(x) . ct, each contracted over the other's free axes
constinit const Primitive dot_general{.name = "dot_general",
                                      .arity = 2,
                                      .attributes = dimension_numbers,
                                      .traits = Trait::contraction,
                                      .linearity = linearity::bilinear,
                                      .infer = infer_dot,
                                      .transpose = transpose_dot,
                                      .batch = batch_dot,
                                      .simplify = simplify_dot,
                                      .factors = factors_of_dot};

}  // namespace tidu::prim

namespace tidu::ops {

Value dot_general(Value lhs, Value rhs, const DotDimensionNumbers& dimension_numbers, Where where) {
  using prim::normal_axes;
  IntLists lists{normal_axes(dimension_numbers.lhs_contracting, lhs.rank()),
                 normal_axes(dimension_numbers.rhs_contracting, rhs.rank()),
                 normal_axes(dimension_numbers.lhs_batch, lhs.rank()),
                 normal_axes(dimension_numbers.rhs_batch, rhs.rank())};
  return emit1(Op::make(prim::dot_general, {{"dimension_numbers", std::move(lists)}}), {lhs, rhs}, where);
}

Value matmul(Value lhs, Value rhs, Where where) {
  const bool fits = lhs.rank() >= 1 && lhs.rank() <= 2 && rhs.rank() >= 1 && rhs.rank() <= 2;
  if (!fits) {
    throw Error(ErrorKind::type, detail::str("[matmul] expected operands of rank 1 or 2, got ", lhs.type(),
                                             " and ", rhs.type()));
  }
  return dot_general(lhs, rhs, {{static_cast<std::int64_t>(lhs.rank()) - 1}, {0}, {}, {}}, where);
}

}  // namespace tidu::ops
