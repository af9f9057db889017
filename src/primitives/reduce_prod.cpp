// reduce_prod.cpp - the product over axes. Its derivative needs, for each element, the product of all others;
// a division would be wrong at zeros, so these products are built along a binary tree: multiplications only,
// right with any number of zeros, and themselves differentiable to any order.

#include <algorithm>

#include "axes.hpp"
#include "factor_rules.hpp"
#include "reductions.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

// Elements [first, first + count) of an axis.
Value part(Value x, std::size_t axis, std::int64_t first, std::int64_t count) {
  Ints start(x.rank(), 0);
  Ints limit = x.shape();
  start[axis] = first;
  limit[axis] = first + count;
  return ops::slice(x, start, limit);
}

// Note [Products of all others]: on the way up, each level multiplies its first half with its second (with
// ones appended where the count is odd). On the way down, the others of an element are the others of its
// parent times its sibling. 3 n multiplications in 2 log2(n) operations.
Value products_of_others(Value x, std::size_t axis) {
  struct Level {
    Value left, right;
    std::int64_t count;
  };
  Emitter& emitter = *x.emitter();
  std::vector<Level> levels;
  for (std::int64_t n = x.shape()[axis]; n > 1; n = (n + 1) / 2) {
    const std::int64_t half = (n + 1) / 2;
    const Value left = part(x, axis, 0, half);
    Value right = part(x, axis, half, n - half);
    if (n % 2 != 0) {
      IntLists one_more(x.rank(), Ints{0, 0, 0});
      one_more[axis][1] = 1;
      right = ops::pad(right, ops::full(emitter, Type(x.dtype()), 1.0), one_more);
    }
    levels.push_back({left, right, n});
    if (half > 1) x = ops::mul(left, right);
  }
  if (levels.empty()) return ops::full_like(x, 1.0);
  std::optional<Value> others;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    const Value of_left = others ? ops::mul(*others, level->right) : level->right;
    const Value of_right = others ? ops::mul(*others, level->left) : level->left;
    const std::int64_t half = (level->count + 1) / 2;
    const std::vector<Value> halves{of_left, part(of_right, axis, 0, level->count - half)};
    others = ops::concatenate(halves, static_cast<std::int64_t>(axis));
  }
  return *others;
}

// The reduced axes are merged into one, in place if they are neighbours, which moves no elements; others are
// first moved to the end.
Value others_of(Value x, const Ints& axes) {
  if (axes.empty()) return ops::full_like(x, 1.0);
  Ints sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  const std::int64_t count = num_elements(extents_at(x.shape(), sorted));
  if (sorted.back() - sorted.front() + 1 == static_cast<std::int64_t>(sorted.size())) {
    const Shape& shape = x.shape();
    const auto first = static_cast<std::size_t>(sorted.front());
    Shape merged(shape.begin(), shape.begin() + sorted.front());
    merged.push_back(count);
    merged.insert(merged.end(), shape.begin() + sorted.back() + 1, shape.end());
    return ops::reshape(products_of_others(ops::reshape(x, merged), first), shape);
  }
  const Ints kept = remaining(x.rank(), sorted);
  const Ints order = joined({kept, sorted});
  const Value moved = ops::transpose(x, order);
  Shape flat = extents_at(x.shape(), kept);
  flat.push_back(count);
  const Value others = products_of_others(ops::reshape(moved, flat), kept.size());
  return ops::transpose(ops::reshape(others, moved.shape()), inverse_permutation(order));
}

}  // namespace

// y = Π x over `axes`          dy = Σ_i dx_i Π_{j≠i} x_j
constinit const Primitive reduce_prod{.name = "reduce_prod",
                                      .attributes = reduction_axes,
                                      .traits = Trait::reduction | Trait::combines,
                                      .infer =
                                          [](InferContext& c) {
                                            require_numeric(c, 0);
                                            infer_reduction(c);
                                          },
                                      .jvp = [](JvpContext& c) -> Derivatives {
                                        const Ints& axes = c.op().ints("axes");
                                        return ops::reduce_sum(
                                            ops::mul(*c.tangent(0), others_of(c.primal(0), axes)), axes);
                                      },
                                      .batch = batch_reduction,
                                      .factors = factors_of_reduction};

}  // namespace tidu::prim
