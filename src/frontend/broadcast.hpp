// broadcast.hpp - what the functions of Arrays share when they write themselves down as operations: promotion
// of dtypes, NumPy's broadcasting, and numbers as tensors.
#pragma once

#include <string_view>

#include "frontend/context.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::frontend_detail {

/// Throws Error (type) that shows both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view function);
Value broadcast(Value x, const Shape& shape);
inline Value convert(Value x, DType dtype) {
  return x.dtype() == dtype ? x : ops::convert_element_type(x, dtype);
}
/// f64 for integers and bools, else what it is.
inline DType inexact(DType dtype) { return is_inexact(dtype) ? dtype : f64; }
/// A scalar, which may be that of an earlier call with the same value: to be read and not given away.
Tensor known_number(DType dtype, double value);
/// The dtype that a number takes beside an Array of `dtype`.
DType number_dtype(const ArrayLike& number, DType dtype);

/// An operand that may be a number, as an input of invoke.
class Operand {
 public:
  /// `partner`: the dtype of what a number meets.
  Operand(const ArrayLike& x, DType partner)
      : number_(x.array() != nullptr ? Tensor() : known_number(number_dtype(x, partner), x.number())),
        input_(x.array() != nullptr ? Input(*x.array()) : Input(nullptr, nullptr)) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  Input input() const { return input_.tensor != nullptr ? input_ : Input(nullptr, &number_); }

 private:
  Tensor number_;
  Input input_;
};

inline DType dtype_of(const ArrayLike& x) { return x.array() != nullptr ? x.array()->dtype() : x.dtype(); }

}  // namespace tidu::frontend_detail
