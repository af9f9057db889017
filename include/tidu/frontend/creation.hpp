// creation.hpp - Arrays from numbers. All throw Error (type, invalid_argument) that names function, types and
// the user's source location.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "tidu/frontend/array.hpp"

namespace tidu {

/// A number, or a nested list of numbers: the argument of array().
class Nested {
 public:
  /// A number: bool, i64 of integers, f64 of floating ones.
  template <class T>
  requires std::is_arithmetic_v<T> Nested(T number) : number_(number) {}
  /// A list of numbers or of lists of one shape.
  Nested(std::initializer_list<Nested> items) : is_list_(true), items_(items) {}
  bool is_list() const { return is_list_; }
  const std::vector<Nested>& items() const { return items_; }
  const Number& number() const { return number_; }
  DType dtype() const { return number_.dtype() == i32 ? i64 : number_.dtype(); }

 private:
  bool is_list_ = false;
  Number number_ = 0.0;
  std::vector<Nested> items_{};
};

/// array({{1, 2}, {3, 4}}). Without a dtype floating numbers make f64, integers alone i64, bools alone bool.
/// Throws Error (type) for a number that an integer dtype does not hold; fractions are cut off.
Array array(const Nested& elements, std::optional<DType> dtype = std::nullopt,
            Where where = Where::current());
/// The elements in row-major order under another shape.
Array array(const Nested& elements, const Shape& shape, std::optional<DType> dtype = std::nullopt,
            Where where = Where::current());
template <class T>
Array array(std::span<const T> elements, const Shape& shape) {
  return Array(Tensor::from(shape, elements));
}
template <class T>
Array array(const std::vector<T>& elements, const Shape& shape) {
  return array(std::span<const T>(elements), shape);
}
/// All elements 0.
Array zeros(const Shape& shape, DType dtype = f64, Where where = Where::current());
Array ones(const Shape& shape, DType dtype = f64, Where where = Where::current());
/// That value everywhere, converted to the dtype, as array() does.
Array full(const Shape& shape, Number value, DType dtype = f64, Where where = Where::current());
/// All elements 0, of the type of x.
Array zeros_like(const Array& x, Where where = Where::current());
Array ones_like(const Array& x, Where where = Where::current());
/// That value everywhere, of the type of x.
Array full_like(const Array& x, Number value, Where where = Where::current());
/// 0, 1, … n - 1.
Array arange(std::int64_t n, DType dtype = i64, Where where = Where::current());
/// start, start + step, … below stop: start + i * step. Integers are exact except for the rounding of the
/// dtype. Throws Error (invalid_argument) for a step of 0 and for an infinite sequence, Error (type) for a
/// number that an integer dtype cannot represent.
Array arange(Number start, Number stop, Number step = 1, DType dtype = f64, Where where = Where::current());
/// 0, 1, … below n.
template <class T>
requires std::is_floating_point_v<T> Array arange(T n, DType dtype = f64, Where where = Where::current()) {
  return arange(0.0, n, 1.0, dtype, where);
}
/// `count` numbers from start to stop, both included. For an integer dtype they are rounded down; for bools
/// they are true unless 0. Throws Error (invalid_argument) for a count below 0.
Array linspace(double start, double stop, std::int64_t count = 50, DType dtype = f64,
               Where where = Where::current());
/// The n x n identity.
Array eye(std::int64_t n, DType dtype = f64, Where where = Where::current());
/// [..., depth]: one where the position is that of the integer, zero elsewhere (everywhere for an integer out
/// of range).
Array one_hot(const Array& indices, std::int64_t depth, DType dtype = f64, Where where = Where::current());

}  // namespace tidu
