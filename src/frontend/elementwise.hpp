// elementwise.hpp - templates for element-wise functions of Arrays. Each name and set of types is one
// operation: conversions, broadcasts, and the operation that F emits.
#pragma once

#include "frontend/broadcast.hpp"

namespace tidu::frontend_detail {

/// F for one operand, and for two operands of one type.
using Unary = Value (*)(Value, Where);
using Binary = Value (*)(Value, Value, Where);
/// The operands' dtypes: any dtype; converted to an inexact one; or converted to f32 or f64, the dtypes of
/// complex parts.
enum class Takes { numbers, inexact, parts };

/// F of x; if `needs_inexact`, integers and bools are converted to f64.
template <Unary F>
Array unary(const char* name, const Array& x, Where where, bool needs_inexact = true) {
  const Input operands[] = {x};
  return invoke(
      {name}, operands,
      [needs_inexact](Emitter&, std::span<const Value> v) {
        return F(needs_inexact ? convert(v[0], inexact(v[0].dtype())) : v[0], Where{});
      },
      where);
}

/// body(x); 16-bit numbers are computed in f32 and rounded once.
template <class F>
Value of_32_bits(Value x, const F& body) {
  return convert(body(widened(x)), x.dtype());
}

/// F of x and y, promoted and broadcast.
template <Binary F>
Array binary(const char* name, const ArrayLike& x, const ArrayLike& y, Takes takes = Takes::numbers) {
  const auto build = [name, takes](Emitter&, std::span<const Value> v) {
    DType common = promote(v[0].dtype(), v[1].dtype());
    if (takes != Takes::numbers) common = inexact(common);
    if (takes == Takes::parts && (common == f16 || common == bf16)) common = f32;
    const Shape shape = broadcast_shapes(v[0].shape(), v[1].shape(), name);
    const Value left = broadcast(convert(v[0], common), shape);
    return F(left, broadcast(convert(v[1], common), shape), Where{});
  };
  if (x.array() != nullptr && y.array() != nullptr) [[likely]] {
    const Input operands[] = {*x.array(), *y.array()};
    return invoke({name}, operands, build, x.where());
  }
  const Operand left(name, x, partner(name, x, y)), right(name, y, partner(name, y, x));
  const Input operands[] = {left.input(), right.input()};
  return invoke({name}, operands, build, x.array() != nullptr ? x.where() : y.where());
}

}  // namespace tidu::frontend_detail
