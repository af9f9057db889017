// equations.hpp - shared helpers of linear algebra: operands as matrices of one dtype and batch shape.
#pragma once

#include "frontend/broadcast.hpp"
#include "primitives/matrices.hpp"

namespace tidu::frontend_detail {

inline Value number(Value x) { return convert(x, inexact(x.dtype())); }

[[noreturn]] inline void refuse_type(const char* name, const char* expected, Value x) {
  throw Error(ErrorKind::type, detail::str('[', name, "] expected ", expected, ", got ", x.type()));
}

inline void require_square(const char* name, Value x) {
  if (x.rank() < 2 || prim::rows_of(x.type()) != prim::columns_of(x.type()))
    refuse_type(name, "square matrices", x);
}

// x's last `rest` axes after the leading axes `batch`.
inline Value with_batch(Value x, const Shape& batch, std::size_t rest) {
  Shape shape = batch;
  shape.insert(shape.end(), x.shape().end() - static_cast<std::ptrdiff_t>(rest), x.shape().end());
  return broadcast(x, shape);
}

inline Shape leading(Value x) { return {x.shape().begin(), x.shape().end() - 2}; }

// Brings a matrix a and right-hand sides b to one dtype and batch shape, calls `solved`, and returns its
// result in the form of b.
template <class F>
Value solved_for(const char* name, Value a, Value b, bool left_side, const F& solved) {
  require_square(name, a);
  if (b.rank() == 0) refuse_type(name, "a right-hand side of one axis or more", b);
  const DType common = inexact(promote(a.dtype(), b.dtype()));
  const Value matrix = convert(a, common);
  const std::int64_t beside = left_side ? 1 : 0;
  const bool vector = b.rank() == 1;
  const Value sides = vector ? ops::expand_dims(convert(b, common), {beside}) : convert(b, common);
  const std::int64_t n = left_side ? prim::rows_of(sides.type()) : prim::columns_of(sides.type());
  if (n != prim::rows_of(a.type())) {
    throw Error(ErrorKind::type,
                detail::str('[', name, "] expected as many ", left_side ? "rows" : "columns",
                            " of the right-hand side as the matrix has, got ", a.type(), " and ", b.type()));
  }
  const Shape batch = broadcast_shapes(leading(matrix), leading(sides), name);
  const Value x = solved(matrix, with_batch(sides, batch, 2), batch);
  return vector ? ops::squeeze(x, {static_cast<std::int64_t>(batch.size()) + beside}) : x;
}

template <class F>
Array equation(const char* name, const Array& a, const Array& b, std::span<const std::int64_t> static_args,
               bool left_side, Where where, const F& solved) {
  const Input operands[] = {a, b};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return solved_for(name, v[0], v[1], left_side, solved); },
      where);
}

}  // namespace tidu::frontend_detail
