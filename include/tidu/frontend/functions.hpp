// functions.hpp - functions of Arrays, with NumPy's names and broadcasting and JAX's promotion of dtypes.
// Each is one operation on the tape, whatever it is made of. All throw Error (type, invalid_argument) that
// names function, types and the user's place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "tidu/frontend/array.hpp"

namespace tidu {

// --- making Arrays

/// A number, or a list of such: what array() takes.
class Nested {
 public:
  /// A number: bool, i64 of integers, f64 of floating ones.
  template <class T>
  requires std::is_arithmetic_v<T> Nested(T number)
      : number_(static_cast<double>(number)),
        dtype_(std::is_same_v<T, bool> ? bool_
               : std::is_integral_v<T> ? i64
                                       : f64) {}
  /// A list of numbers or of lists of one shape.
  Nested(std::initializer_list<Nested> items) : is_list_(true), items_(items) {}
  bool is_list() const { return is_list_; }
  const std::vector<Nested>& items() const { return items_; }
  double number() const { return number_; }
  DType dtype() const { return dtype_; }

 private:
  bool is_list_ = false;
  double number_ = 0.0;
  DType dtype_ = f64;
  std::vector<Nested> items_{};
};

/// array({{1, 2}, {3, 4}}). Without a dtype floating numbers make f64, integers alone i64, bools alone bool.
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
/// Of one value everywhere.
Array zeros(const Shape& shape, DType dtype = f64, Where where = Where::current());
Array ones(const Shape& shape, DType dtype = f64, Where where = Where::current());
/// That value everywhere, converted to the dtype.
Array full(const Shape& shape, double value, DType dtype = f64, Where where = Where::current());
/// Of the type of x.
Array zeros_like(const Array& x, Where where = Where::current());
Array ones_like(const Array& x, Where where = Where::current());
/// That value everywhere, of the type of x.
Array full_like(const Array& x, double value, Where where = Where::current());
/// 0, 1, … n - 1.
Array arange(std::int64_t n, DType dtype = i64, Where where = Where::current());
/// start, start + step, … below stop.
Array arange(double start, double stop, double step = 1.0, DType dtype = f64, Where where = Where::current());
/// `count` numbers from start to stop, both included.
Array linspace(double start, double stop, std::int64_t count = 50, DType dtype = f64,
               Where where = Where::current());
/// The n x n identity.
Array eye(std::int64_t n, DType dtype = f64, Where where = Where::current());
/// [..., depth]: one where the position is that of the integer, zero elsewhere (everywhere for an integer out
/// of range).
Array one_hot(const Array& indices, std::int64_t depth, DType dtype = f64, Where where = Where::current());

// --- element by element. Integers and bools become f64 where the function needs it.

/// The mathematical function of that name, like those that follow.
Array exp(const Array& x, Where where = Where::current());
Array exp2(const Array& x, Where where = Where::current());
Array expm1(const Array& x, Where where = Where::current());
Array log(const Array& x, Where where = Where::current());
Array log1p(const Array& x, Where where = Where::current());
Array sqrt(const Array& x, Where where = Where::current());
Array rsqrt(const Array& x, Where where = Where::current());
Array cbrt(const Array& x, Where where = Where::current());
Array sin(const Array& x, Where where = Where::current());
Array cos(const Array& x, Where where = Where::current());
Array tan(const Array& x, Where where = Where::current());
Array asin(const Array& x, Where where = Where::current());
Array acos(const Array& x, Where where = Where::current());
Array atan(const Array& x, Where where = Where::current());
Array sinh(const Array& x, Where where = Where::current());
Array cosh(const Array& x, Where where = Where::current());
Array tanh(const Array& x, Where where = Where::current());
Array asinh(const Array& x, Where where = Where::current());
Array acosh(const Array& x, Where where = Where::current());
Array atanh(const Array& x, Where where = Where::current());
/// 1 / (1 + exp(-x)).
Array logistic(const Array& x, Where where = Where::current());
/// logistic by its other name.
inline Array sigmoid(const Array& x, Where where = Where::current()) { return logistic(x, where); }
/// log(1 + exp(x)), without overflow.
Array softplus(const Array& x, Where where = Where::current());
/// The mathematical function of that name, like those that follow.
Array erf(const Array& x, Where where = Where::current());
Array erfc(const Array& x, Where where = Where::current());
Array erf_inv(const Array& x, Where where = Where::current());
Array lgamma(const Array& x, Where where = Where::current());
Array digamma(const Array& x, Where where = Where::current());
Array reciprocal(const Array& x, Where where = Where::current());
Array square(const Array& x, Where where = Where::current());
Array abs(const Array& x, Where where = Where::current());
Array sign(const Array& x, Where where = Where::current());
Array floor(const Array& x, Where where = Where::current());
Array ceil(const Array& x, Where where = Where::current());
/// To the nearest integer, ties to even.
Array round(const Array& x, Where where = Where::current());
/// max(x, 0), with derivative 0 at 0.
Array relu(const Array& x, Where where = Where::current());
/// The function of that name, element by element.
Array isfinite(const Array& x, Where where = Where::current());
Array real(const Array& x, Where where = Where::current());
Array imag(const Array& x, Where where = Where::current());
Array conj(const Array& x, Where where = Where::current());
/// The same values; gradients do not pass.
Array stop_gradient(const Array& x, Where where = Where::current());

/// The function of that name, element by element.
Array pow(const ArrayLike& x, const ArrayLike& y);
/// x to an integer power, which may be negative.
Array integer_pow(const Array& x, std::int64_t y, Where where = Where::current());
/// The greater (less) of the two; a tie splits the gradient. A NaN wins.
Array maximum(const ArrayLike& x, const ArrayLike& y);
Array minimum(const ArrayLike& x, const ArrayLike& y);
/// The angle of the point (x, y).
Array atan2(const ArrayLike& y, const ArrayLike& x);
/// The remainder with the sign of x.
Array rem(const ArrayLike& x, const ArrayLike& y);
/// Of bools, or of integers bit by bit.
Array logical_and(const ArrayLike& x, const ArrayLike& y);
Array logical_or(const ArrayLike& x, const ArrayLike& y);
Array logical_xor(const ArrayLike& x, const ArrayLike& y);
/// Of bools, or of integers bit by bit.
Array logical_not(const Array& x, Where where = Where::current());
/// x where the condition holds, else y.
Array where(const Array& condition, const ArrayLike& x, const ArrayLike& y);
/// x between lo and hi; no gradient passes at or beyond a bound.
Array clip(const Array& x, const ArrayLike& lo, const ArrayLike& hi);

// --- reductions over some axes, or all of them. keepdims leaves axes of extent 1.

/// Over `axes`. max and min share the gradient among equal elements.
Array sum(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array prod(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array max(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array min(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array all(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array any(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array mean(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
/// The mean squared distance from the mean; divided by count - ddof.
Array var(const Array& x, const Axes& axes = {}, std::int64_t ddof = 0, bool keepdims = false,
          Where where = Where::current());
/// The square root of var.
Array stddev(const Array& x, const Axes& axes = {}, std::int64_t ddof = 0, bool keepdims = false,
             Where where = Where::current());
/// log(sum(exp(x))), without overflow.
Array logsumexp(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
/// exp(x) / sum(exp(x)) over `axes`, and its logarithm, without overflow.
Array softmax(const Array& x, const Axes& axes = -1, Where where = Where::current());
Array log_softmax(const Array& x, const Axes& axes = -1, Where where = Where::current());
/// Position (i32) of the greatest element, the first of equal ones; without an axis, in the flattened Array.
Array argmax(const Array& x, std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current());
Array argmin(const Array& x, std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current());
/// Of what stands up to each place, itself included; from the end when `reverse`.
Array cumsum(const Array& x, std::int64_t axis = 0, bool reverse = false, Where where = Where::current());

// --- products

/// As NumPy's: [k] x [k], [m,k] x [k], [..., m,k] x [..., k,n] with leading axes broadcast.
Array matmul(const Array& x, const Array& y, Where where = Where::current());
/// The sum over the last axis of x and the last but one of y (its only one); products with a scalar.
Array dot(const Array& x, const Array& y, Where where = Where::current());
/// [m] x [n] -> [m,n]; other shapes are flattened.
Array outer(const Array& x, const Array& y, Where where = Where::current());

// --- shapes

/// One extent may be -1: what remains.
Array reshape(const Array& x, const Shape& shape, Where where = Where::current());
/// The elements in one axis.
Array flatten(const Array& x, Where where = Where::current());
/// Axis i of the result is axis permutation[i] of x; without a permutation, axes in reverse order.
Array transpose(const Array& x, const Axes& permutation = {}, Where where = Where::current());
/// With two axes exchanged.
Array swapaxes(const Array& x, std::int64_t a, std::int64_t b, Where where = Where::current());
/// With new axes of extent 1 at these places of the result.
Array expand_dims(const Array& x, const Axes& axes, Where where = Where::current());
/// Without axes, all of extent 1.
Array squeeze(const Array& x, const Axes& axes = {}, Where where = Where::current());
/// Repeated along axes, as NumPy broadcasts.
Array broadcast_to(const Array& x, const Shape& shape, Where where = Where::current());
/// In reverse order along `axes`, or along all.
Array flip(const Array& x, const Axes& axes = {}, Where where = Where::current());
/// Along an axis that all have.
Array concatenate(std::span<const Array> parts, std::int64_t axis = 0, Where where = Where::current());
inline Array concatenate(std::initializer_list<Array> parts, std::int64_t axis = 0,
                         Where where = Where::current()) {
  return concatenate(std::span(parts.begin(), parts.size()), axis, where);
}
/// Along a new axis.
Array stack(std::span<const Array> parts, std::int64_t axis = 0, Where where = Where::current());
inline Array stack(std::initializer_list<Array> parts, std::int64_t axis = 0,
                   Where where = Where::current()) {
  return stack(std::span(parts.begin(), parts.size()), axis, where);
}
/// Equal parts along an axis.
std::vector<Array> split(const Array& x, std::int64_t parts, std::int64_t axis = 0,
                         Where where = Where::current());
/// A part of each of the first axes.
Array slice(const Array& x, std::span<const Slice> parts, Where where = Where::current());
/// x.shape[:axis] + indices.shape + x.shape[axis+1:]: the sub-arrays at `indices` (integers, moved into
/// range). The gradient adds up where an index stands twice.
Array take(const Array& x, const Array& indices, std::int64_t axis = 0, Where where = Where::current());
/// Along `axis` the elements at `indices`, which has x's rank.
Array take_along_axis(const Array& x, const Array& indices, std::int64_t axis,
                      Where where = Where::current());
/// Converted to another dtype.
Array astype(const Array& x, DType dtype, Where where = Where::current());

}  // namespace tidu
