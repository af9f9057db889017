// functions.hpp - functions of Arrays, with NumPy's names and broadcasting and JAX's promotion of dtypes.
// Each is one operation on the tape, even if it runs several primitives. All throw Error (type,
// invalid_argument) that names function, types and the user's source location. Windows, linear algebra and
// random numbers have their own headers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/frontend/at.hpp"
#include "tidu/frontend/creation.hpp"

namespace tidu {

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
/// Logarithms to base 2 and 10.
Array log2(const Array& x, Where where = Where::current());
Array log10(const Array& x, Where where = Where::current());
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
/// The function of that name. For integers and bools the result is x itself, not a copy, as it is for round,
/// trunc and nan_to_num.
Array floor(const Array& x, Where where = Where::current());
Array ceil(const Array& x, Where where = Where::current());
/// Rounds to the nearest integer, ties to even. Integers and bools are unchanged.
Array round(const Array& x, Where where = Where::current());
/// Drops the fraction: rounds toward 0. Integers and bools are unchanged.
Array trunc(const Array& x, Where where = Where::current());
/// max(x, 0), with derivative 0 at 0.
Array relu(const Array& x, Where where = Where::current());
/// Is the element neither infinite nor NaN? For complex numbers both parts count.
Array isfinite(const Array& x, Where where = Where::current());
/// Is the element, or a part of it, NaN?
Array isnan(const Array& x, Where where = Where::current());
/// Is the element, or a part of it, infinite, of either sign?
Array isinf(const Array& x, Where where = Where::current());
/// For complex numbers; for other x these are x itself (no copy), zeros and x itself.
Array real(const Array& x, Where where = Where::current());
Array imag(const Array& x, Where where = Where::current());
Array conj(const Array& x, Where where = Where::current());
/// re + i im of floating Arrays (f16, bf16 and integers are converted): c64 of f32, c128 of f64.
Array complex(const ArrayLike& re, const ArrayLike& im);
/// The n-th derivative of digamma, n >= 0.
Array polygamma(std::int64_t n, const Array& x, Where where = Where::current());
/// The same values; gradients do not pass.
Array stop_gradient(const Array& x, Where where = Where::current());

/// x^y. For integers the result is f64, since y may be negative. If y is a nonnegative integer constant
/// (pow(n, 2)), it is integer_pow: integers, which wrap.
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
/// rem by its other name.
inline Array fmod(const ArrayLike& x, const ArrayLike& y) { return rem(x, y); }
/// The remainder with the sign of y, as % of Python: x - y floor(x / y). Its derivative is 1 by x, and by y
/// the whole number -floor(x / y).
Array mod(const ArrayLike& x, const ArrayLike& y);
/// floor(x / y), of integers too. It has no derivative.
Array floor_divide(const ArrayLike& x, const ArrayLike& y);
/// sqrt(x² + y²), without overflow; its gradient at the origin is 0.
Array hypot(const ArrayLike& x, const ArrayLike& y);
/// log(exp(x) + exp(y)), without overflow.
Array logaddexp(const ArrayLike& x, const ArrayLike& y);
/// The number next to x in the direction of y.
Array nextafter(const ArrayLike& x, const ArrayLike& y);
/// Truth values, as bool: any number but 0 is true. The operators &, | and ! take integers bit by bit.
Array logical_and(const ArrayLike& x, const ArrayLike& y);
Array logical_or(const ArrayLike& x, const ArrayLike& y);
Array logical_xor(const ArrayLike& x, const ArrayLike& y);
/// Is it 0, or false?
Array logical_not(const Array& x, Where where = Where::current());
/// x where the condition holds, else y.
Array where(const Array& condition, const ArrayLike& x, const ArrayLike& y);
/// x between lo and hi; no gradient passes at or beyond a bound.
Array clip(const Array& x, const ArrayLike& lo, const ArrayLike& hi);
/// x with NaN and the infinities replaced by numbers. The defaults for infinities are the greatest and the
/// least number of the dtype. No gradient passes through replaced elements.
Array nan_to_num(const Array& x, double nan = 0.0, std::optional<double> posinf = std::nullopt,
                 std::optional<double> neginf = std::nullopt, Where where = Where::current());
/// |x - y| <= atol + rtol |y|, element by element, or the same infinity. NaN equals NaN only if that is
/// requested.
Array isclose(const ArrayLike& x, const ArrayLike& y, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// Is isclose true everywhere? A bool scalar.
Array allclose(const ArrayLike& x, const ArrayLike& y, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
/// Have they one shape and equal elements? A bool scalar, whatever the dtypes are.
Array array_equal(const ArrayLike& x, const ArrayLike& y);

// --- reductions over some axes, or all of them. keepdims leaves axes of extent 1.

/// Over `axes`. max and min share the gradient among equal elements.
Array sum(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array prod(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array max(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array min(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array all(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array any(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
Array mean(const Array& x, const Axes& axes = {}, bool keepdims = false, Where where = Where::current());
/// How many are not 0, as i64.
Array count_nonzero(const Array& x, const Axes& axes = {}, bool keepdims = false,
                    Where where = Where::current());
/// The mean squared distance from the mean; divided by count - ddof, and NaN where that is not positive.
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
/// Cumulative sum along an axis, each element included; from the end if `reverse`.
Array cumsum(const Array& x, std::int64_t axis = 0, bool reverse = false, Where where = Where::current());
/// Cumulative product along an axis, as cumsum.
Array cumprod(const Array& x, std::int64_t axis = 0, bool reverse = false, Where where = Where::current());
/// Cumulative maximum along an axis, as cumsum.
Array cummax(const Array& x, std::int64_t axis = 0, bool reverse = false, Where where = Where::current());
/// Cumulative minimum along an axis, as cumsum.
Array cummin(const Array& x, std::int64_t axis = 0, bool reverse = false, Where where = Where::current());
/// Cumulative logsumexp along an axis, as cumsum.
Array cumlogsumexp(const Array& x, std::int64_t axis = 0, bool reverse = false,
                   Where where = Where::current());

// --- order. Ascending; NaN is last, -0 equals 0, complex numbers are ordered by real, then by imaginary
// part. Gradients go to where the elements were.

/// x in ascending order along the axis.
Array sort(const Array& x, std::int64_t axis = -1, Where where = Where::current());
/// Positions (i32) that sort x along the axis; equal elements keep their order.
Array argsort(const Array& x, std::int64_t axis = -1, Where where = Where::current());
/// Keys in ascending order, and the values, of the keys' shape, permuted in the same way.
std::pair<Array, Array> sort_key_val(const Array& keys, const Array& values, std::int64_t axis = -1,
                                     Where where = Where::current());
/// Arrays of one shape, all permuted in the same way along the axis: sorted by the first, among equal
/// elements by the second, and so on for `num_keys` of them.
std::vector<Array> sort_all(std::span<const Array> operands, std::int64_t axis = -1,
                            std::int64_t num_keys = 1, Where where = Where::current());
inline std::vector<Array> sort_all(std::initializer_list<Array> operands, std::int64_t axis = -1,
                                   std::int64_t num_keys = 1, Where where = Where::current()) {
  return sort_all(std::span(operands.begin(), operands.size()), axis, num_keys, where);
}
/// The k greatest along an axis, descending, and their positions (i32): both have extent k there. NaN counts
/// as the greatest; equal elements keep their order.
std::pair<Array, Array> top_k(const Array& x, std::int64_t k, std::int64_t axis = -1,
                              Where where = Where::current());

/// The middle one of the sorted elements, or the mean of the two in the middle; without an axis, of all
/// elements. NaN if an element is NaN. Throws Error (type) if there is no element.
Array median(const ArrayLike& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
/// The positions at which values would be inserted into a `sorted` Array [n] so that it stays sorted: the
/// number of elements (i32; i64 if i32 cannot represent n) that are less or, with side "right", not greater.
/// The result has the shape of `values`. Throws Error (type, invalid_argument) for a `sorted` of other axes
/// and another side.
Array searchsorted(const Array& sorted, const ArrayLike& values, std::string_view side = "left",
                   Where where = Where::current());

// --- matmuls. For bools: is there a pair of which both are true?

/// As NumPy's: [k] x [k], [m,k] x [k], [..., m,k] x [..., k,n] with leading axes broadcast.
Array matmul(const Array& x, const Array& y, Where where = Where::current());
/// The sum over the last axis of x and the last but one of y (its only one); products with a scalar.
Array dot(const Array& x, const Array& y, Where where = Where::current());
/// [m] x [n] -> [m,n]; other shapes are flattened.
Array outer(const Array& x, const Array& y, Where where = Where::current());
/// The sum over the last axes of both, [..., k] and [..., k]: x's other axes, then y's; products with a
/// scalar.
Array inner(const ArrayLike& x, const ArrayLike& y);
/// Kronecker product: each element of x replaced by its product with y, of shape x.shape * y.shape.
Array kron(const ArrayLike& x, const ArrayLike& y);
/// The vector product along an axis of extent 3; other axes are broadcast.
Array cross(const ArrayLike& x, const ArrayLike& y, std::int64_t axis = -1);
/// The sum over the last `axes` axes of x and the first ones of y; the result has x's other axes, then y's.
Array tensordot(const Array& x, const Array& y, std::int64_t axes = 2, Where where = Where::current());
/// The sum over pairs of axes, as {{axes of x}, {axes of y}}.
Array tensordot(const Array& x, const Array& y, const std::pair<Axes, Axes>& axes,
                Where where = Where::current());
/// Einstein's summation as NumPy's: "ij,jk->ik" names the axes of the operands and of the result by letters
/// and sums over those that the result lacks. A letter that stands twice for one operand means its diagonal;
/// "..." stands for any further axes. Axes of one name are broadcast from extent 1. Without "->" the result
/// has the letters that stand once, in alphabetical order, after those of "...". Operands are multiplied from
/// left to right.
Array einsum(std::string_view spec, std::span<const Array> operands, Where where = Where::current());
inline Array einsum(std::string_view spec, std::initializer_list<Array> operands,
                    Where where = Where::current()) {
  return einsum(spec, std::span(operands.begin(), operands.size()), where);
}

// --- shapes

/// One extent may be -1: it is computed from the number of elements.
Array reshape(const Array& x, const Shape& shape, Where where = Where::current());
/// The elements in one axis.
Array flatten(const Array& x, Where where = Where::current());
/// Axis i of the result is axis permutation[i] of x; without a permutation, axes in reverse order.
Array transpose(const Array& x, const Axes& permutation = {}, Where where = Where::current());
/// With two axes exchanged.
Array swapaxes(const Array& x, std::int64_t a, std::int64_t b, Where where = Where::current());
/// With one axis at another position, the others in their order.
Array moveaxis(const Array& x, std::int64_t from, std::int64_t to, Where where = Where::current());
/// With new axes of extent 1 at these positions of the result.
Array expand_dims(const Array& x, const Axes& axes, Where where = Where::current());
/// Without axes, all of extent 1.
Array squeeze(const Array& x, const Axes& axes = {}, Where where = Where::current());
/// Repeated along axes, as NumPy broadcasts.
Array broadcast_to(const Array& x, const Shape& shape, Where where = Where::current());
/// Each element along `axis`, `count` times.
Array repeat(const Array& x, std::int64_t count, std::int64_t axis, Where where = Where::current());
/// The same of all elements in their order.
Array repeat(const Array& x, std::int64_t count, Where where = Where::current());
/// The whole of it, `counts` times along the last axes, or along new ones before the first.
Array tile(const Array& x, const Shape& counts, Where where = Where::current());
/// In reverse order along `axes`, or along all.
Array flip(const Array& x, const Axes& axes = {}, Where where = Where::current());
/// Rolls elements by `shift` positions along `axis`; those that leave it at its end enter at its beginning.
Array roll(const Array& x, std::int64_t shift, std::int64_t axis, Where where = Where::current());
/// The same of all elements in their order.
Array roll(const Array& x, std::int64_t shift, Where where = Where::current());
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
/// Side by side: along axis 1, of vectors and scalars along the only one.
Array hstack(std::span<const Array> parts, Where where = Where::current());
inline Array hstack(std::initializer_list<Array> parts, Where where = Where::current()) {
  return hstack(std::span(parts.begin(), parts.size()), where);
}
/// One above the other: along axis 0, where vectors and scalars are rows.
Array vstack(std::span<const Array> parts, Where where = Where::current());
inline Array vstack(std::initializer_list<Array> parts, Where where = Where::current()) {
  return vstack(std::span(parts.begin(), parts.size()), where);
}
/// Coordinates of a grid whose axes are these vectors: for each an Array of the grid's shape. With indexing
/// "ij" that is the vectors' extents in order, with "xy" the first two are exchanged.
std::vector<Array> meshgrid(std::span<const Array> axes, std::string_view indexing = "xy",
                            Where where = Where::current());
inline std::vector<Array> meshgrid(std::initializer_list<Array> axes, std::string_view indexing = "xy",
                                   Where where = Where::current()) {
  return meshgrid(std::span(axes.begin(), axes.size()), indexing, where);
}
/// Equal parts along an axis.
std::vector<Array> split(const Array& x, std::int64_t parts, std::int64_t axis = 0,
                         Where where = Where::current());
/// A part of each of the first axes.
Array slice(const Array& x, std::span<const Slice> parts, Where where = Where::current());
inline Array slice(const Array& x, std::initializer_list<Slice> parts, Where where = Where::current()) {
  return slice(x, std::span(parts.begin(), parts.size()), where);
}
/// x[start : start + sizes], where starts are integer scalars, one for each axis, each clamped to [0, extent
/// - size].
Array dynamic_slice(const Array& x, std::span<const Array> starts, const Shape& sizes,
                    Where where = Where::current());
inline Array dynamic_slice(const Array& x, std::initializer_list<Array> starts, const Shape& sizes,
                           Where where = Where::current()) {
  return dynamic_slice(x, std::span(starts.begin(), starts.size()), sizes, where);
}
/// x with `update`, of x's rank, at x[start : start + update.shape]; starts as in dynamic_slice.
Array dynamic_update_slice(const Array& x, const Array& update, std::span<const Array> starts,
                           Where where = Where::current());
inline Array dynamic_update_slice(const Array& x, const Array& update, std::initializer_list<Array> starts,
                                  Where where = Where::current()) {
  return dynamic_update_slice(x, update, std::span(starts.begin(), starts.size()), where);
}
/// `value` before and after an axis, and between its elements. Negative low and high cut.
struct PadWidth {
  std::int64_t low = 0;       ///< before
  std::int64_t high = 0;      ///< after
  std::int64_t interior = 0;  ///< between two elements
};
/// One width for each axis, or one for all.
Array pad(const Array& x, std::span<const PadWidth> widths, const ArrayLike& value = 0,
          Where where = Where::current());
inline Array pad(const Array& x, std::initializer_list<PadWidth> widths, const ArrayLike& value = 0,
                 Where where = Where::current()) {
  return pad(x, std::span(widths.begin(), widths.size()), value, where);
}
/// x of two axes or more with zero above (below) the diagonal of its last two; k shifts the diagonal up.
Array tril(const Array& x, std::int64_t k = 0, Where where = Where::current());
Array triu(const Array& x, std::int64_t k = 0, Where where = Where::current());
/// The diagonal of the last two axes: [..., m, n] -> [..., min(m, n)].
Array diagonal(const Array& x, Where where = Where::current());
/// The square matrix that has the vector x on its k-th diagonal above the main one, and zeros elsewhere. For
/// a matrix x, that diagonal.
Array diag(const ArrayLike& x, std::int64_t k = 0);
/// The difference of neighbours along an axis, n times over: x[1:] - x[:-1].
Array diff(const ArrayLike& x, std::int64_t n = 1, std::int64_t axis = -1);
/// The sub-arrays at `indices` (integers, clamped to the range, negative ones to 0; x[indices] counts these
/// from the end), of shape x.shape[:axis] + indices.shape + x.shape[axis+1:]. The gradient of a sub-array is
/// the sum over all its indices.
Array take(const Array& x, const Array& indices, std::int64_t axis = 0, Where where = Where::current());
/// Along `axis` the elements at `indices`, which has x's rank.
Array take_along_axis(const Array& x, const Array& indices, std::int64_t axis,
                      Where where = Where::current());
/// x with `updates`, of x.shape[:axis] + indices.shape + x.shape[axis+1:], added to the sub-arrays at
/// `indices` (clamped to the range). If an index occurs twice, both updates are added.
Array scatter_add(const Array& x, const Array& indices, const Array& updates, std::int64_t axis = 0,
                  Where where = Where::current());
/// x with `updates` added along `axis` at `indices`; both have x's rank.
Array scatter_add_along_axis(const Array& x, const Array& indices, const Array& updates, std::int64_t axis,
                             Where where = Where::current());
/// Converted to another dtype.
Array astype(const Array& x, DType dtype, Where where = Where::current());

}  // namespace tidu
