// ternary.cpp - records of the operations that select between operands element by element: select_n and
// clamp.
#include "primitives/elementwise_rules.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

void infer_select_n(InferContext& c) {
  c.require(c.num_operands() >= 2, "expected `which` and at least one case, got ", c.num_operands(),
            " operands");
  const Type which = c.operand(0), type = c.operand(1);
  for (std::size_t i = 2; i < c.num_operands(); ++i) {
    c.require(c.operand(i) == type, "expected cases of one type, got ", type, " and ", c.operand(i),
              " (operand ", i, ')');
  }
  c.require(is_bool(which.dtype()) || which.dtype() == DType::i32,
            "expected `which` of dtype bool or i32, got ", which);
  c.require(!is_bool(which.dtype()) || c.num_operands() == 3,
            "expected 2 cases for `which` of dtype bool, got ", c.num_operands() - 1);
  c.require(which.rank() == 0 || which.shape() == type.shape(),
            "expected `which` to be a scalar or of the cases' shape, got ", which, " and ", type);
  c.result(type);
}

void infer_clamp(InferContext& c) {
  const Type x = c.operand(1);
  require_kind(c, 1, kinds::ordered);
  for (const std::size_t i : {0U, 2U}) {
    const Type bound = c.operand(i);
    c.require(bound.dtype() == x.dtype() && (bound.rank() == 0 || bound == x), "expected the ",
              i == 0 ? "lower" : "upper", " bound to be a scalar or of x's shape, and of its dtype, got ",
              bound, " and ", x);
  }
  c.result(x);
}

}  // namespace

// z = cases[which]   linear in the cases: dz = dcases[which], ct_case = ct where it was taken, else 0
constinit const Primitive select_n{
    .name = "select_n",
    .arity = variadic,
    .traits = Trait::elementwise,
    .linearity = linearity::linear_in(~1U),
    .infer = infer_select_n,
    .transpose = [](TransposeContext& c) -> Derivatives {
      Derivatives result = Derivatives::absent(c.num_operands());
      const Value zero = tidu::zeros(c.emitter(), c.cotangent()->type());
      for (std::size_t i = 1; i < c.num_operands(); ++i) {
        if (!c.linear(i)) continue;
        Values cases;
        for (std::size_t j = 1; j < c.num_operands(); ++j) cases.push_back(i == j ? *c.cotangent() : zero);
        result.set(i, ops::select_n(c.operand(0), cases));
      }
      return result;
    },
    .batch = batch_elementwise,
    .simplify = simplify_select_n,
};

// z = min(max(x, lo), hi)      dz = dx where lo < x < hi, dlo where x <= lo < hi, dhi where hi <= max(x, lo):
// one of the three wherever no operand is NaN
constinit const Primitive clamp{
    .name = "clamp",
    .arity = 3,
    .traits = Trait::elementwise,
    .infer = infer_clamp,
    .jvp = [](JvpContext& c) -> Derivatives {
      const Value x = c.primal(1);
      const auto full_shape = [&](Value v) {
        return v.type() == x.type() ? v : ops::broadcast_scalar(v, x.shape());
      };
      const Value lo = full_shape(c.primal(0)), hi = full_shape(c.primal(2)),
                  zero = tidu::zeros(c.emitter(), x.type());
      const auto masked = [&](Value mask, Value t) { return ops::select_n(mask, zero, full_shape(t)); };
      std::optional<Value> result;
      if (c.active(0)) {
        const Value below = ops::le(x, lo), at_lo = ops::logical_and(below, ops::lt(lo, hi));
        result = masked(at_lo, *c.tangent(0));
      }
      if (c.active(1)) {
        const Value above = ops::lt(lo, x), between = ops::logical_and(above, ops::lt(x, hi));
        result = sum(result, masked(between, *c.tangent(1)));
      }
      if (c.active(2)) result = sum(result, masked(ops::le(hi, ops::max(x, lo)), *c.tangent(2)));
      return result;
    },
    .batch = batch_elementwise,
    .simplify = simplify_elementwise,
};

}  // namespace tidu::prim
