// broadcast.hpp - shared helpers of functions of Arrays that emit operations: dtype promotion, NumPy's
// broadcasting, and numbers as tensors.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "frontend/context.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::frontend_detail {

/// Throws Error (type) with both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view function);
Value broadcast(Value x, const Shape& shape);
inline Value convert(Value x, DType dtype) {
  return x.dtype() == dtype ? x : ops::convert_element_type(x, dtype);
}
/// x != 0 as bool.
Value as_bool(Value x);
/// As ops::dot_general, and for bools too: is there a pair of which both are true?
Value dot_general(Value x, Value y, const ops::DotDimensionNumbers& dims);
/// The values in the dtype to which `common` and their dtypes promote.
std::vector<Value> promoted(std::span<const Value> values, DType common);
/// f64 for integers and bools; inexact dtypes are unchanged.
inline DType inexact(DType dtype) { return is_inexact(dtype) ? dtype : f64; }
/// 16-bit numbers as f32, which holds their sums and counts; others as inexact().
inline Value widened(Value x) {
  return convert(x, x.dtype() == f16 || x.dtype() == bf16 ? f32 : inexact(x.dtype()));
}
/// A scalar tensor, which earlier calls with the same value may share. It is for reading and must not be
/// given away. Throws the errors of whole_element.
Tensor known_number(DType dtype, const Number& value);
/// The dtype of a number beside an Array of `dtype`.
DType number_dtype(const ArrayLike& number, DType dtype);

/// An operand that may be a number, as an input of invoke.
class Operand {
 public:
  /// `partner`: the dtype of the operand beside a number. Throws Error (type) that names `function`.
  Operand(std::string_view function, const ArrayLike& x, DType partner)
      : number_(x.array() != nullptr ? Tensor() : tensor_of(function, x, number_dtype(x, partner))),
        input_(x.array() != nullptr ? Input(*x.array()) : Input(nullptr, nullptr)) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  Input input() const { return input_.tensor != nullptr ? input_ : Input(nullptr, &number_); }

  /// The Array x, or an Array of the number x beside y. It is for reading and must not be given away.
  static Array beside(std::string_view function, const ArrayLike& x, const ArrayLike& y);

 private:
  static Tensor tensor_of(std::string_view function, const ArrayLike& x, DType dtype);

  Tensor number_;
  Input input_;
};

/// The dtype of x's partner y if x is a number: that of the Array y, or the common dtype of two numbers.
/// Throws Error for an Array without a value.
inline DType partner(std::string_view function, const ArrayLike& x, const ArrayLike& y) {
  if (y.array() == nullptr) return promote(x.dtype(), y.dtype());
  require_value(*y.array(), function, y.where());
  return y.array()->dtype();
}
inline Array Operand::beside(std::string_view function, const ArrayLike& x, const ArrayLike& y) {
  if (x.array() != nullptr) return *x.array();
  return Array(tensor_of(function, x, number_dtype(x, partner(function, x, y))));
}
/// The Array x, or an Array of the number x.
inline Array array_of(const ArrayLike& x) {
  return x.array() != nullptr ? *x.array() : Operand::beside("", x, x).copy(x.where());
}

}  // namespace tidu::frontend_detail
