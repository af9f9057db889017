// simplify.hpp - the simplify rules of the standard set, by family, and the words that they are written in.
// docs/optimizer.md lists them. Each is exact, bit for bit, for every operand; what is not asks fast_math()
// first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tidu/graph/rules.hpp"
#include "tidu/graph/simplify.hpp"

namespace tidu::prim {

// --- arithmetic
Values simplify_neg(SimplifyContext& c);
Values simplify_add(SimplifyContext& c);
Values simplify_sub(SimplifyContext& c);
Values simplify_mul(SimplifyContext& c);
Values simplify_div(SimplifyContext& c);
Values simplify_multiply_no_nan(SimplifyContext& c);
Values simplify_divide_no_nan(SimplifyContext& c);
/// abs, square: the sign of the operand does not count.
Values simplify_even(SimplifyContext& c);
Values simplify_integer_pow(SimplifyContext& c);
/// f32 and f64 as executors compute it, by e^-|x|, which its derivative reads.
Values simplify_logistic(SimplifyContext& c);
/// max and min: of a value and itself.
Values simplify_idempotent(SimplifyContext& c);
Values simplify_and(SimplifyContext& c);
Values simplify_or(SimplifyContext& c);
Values simplify_xor(SimplifyContext& c);
Values simplify_not(SimplifyContext& c);
Values simplify_select_n(SimplifyContext& c);
Values simplify_convert(SimplifyContext& c);
/// real, imag, complex and conj.
Values simplify_real(SimplifyContext& c);
Values simplify_imag(SimplifyContext& c);
Values simplify_complex(SimplifyContext& c);
Values simplify_conj(SimplifyContext& c);
/// A comparison of positions along axes as one of floating numbers, where what its mask chooses has `chosen`;
/// nothing of other masks. See Note [Counts] in simplify_counts.cpp.
std::optional<Value> mask_of_counts(const SimplifyContext& c, Value mask, DType chosen);
/// A sum of values that are zero but in stretches apart from each other.
Values sum_of_stretches(SimplifyContext& c);
/// What computes or moves elements is done before they are transposed, not behind.
Values before_transposes(SimplifyContext& c);
Values concatenate_before_transposes(const SimplifyContext& c);
Values pad_before_transpose(const SimplifyContext& c);
Values slice_before_transpose(const SimplifyContext& c);
Values take_before_transpose(const SimplifyContext& c);
Values product_before_transpose(const SimplifyContext& c);
/// Of every element-wise operation: on broadcast operands it is done before they are broadcast, on transposed
/// ones before they are transposed.
Values simplify_elementwise(SimplifyContext& c);

// --- shapes
/// What passes its operand through: stop_gradient.
Values simplify_pass(SimplifyContext& c);
/// reshape, squeeze and expand_dims.
Values simplify_view(SimplifyContext& c);
Values simplify_transpose(SimplifyContext& c);
Values simplify_broadcast(SimplifyContext& c);
Values simplify_rev(SimplifyContext& c);
Values simplify_slice(SimplifyContext& c);
Values simplify_pad(SimplifyContext& c);
Values simplify_concatenate(SimplifyContext& c);

// --- reductions and products
/// reduce_sum, and those of which a fold of equal elements is that element.
Values simplify_sum(SimplifyContext& c);
Values simplify_idempotent_reduction(SimplifyContext& c);
Values simplify_dot(SimplifyContext& c);
/// take, of a few rows of what products make.
Values simplify_take(SimplifyContext& c);
/// x + y, x - y and a sum along one axis, where an operand is scattered: see Note [Scattered once].
Values sum_with_scattered(const SimplifyContext& c);
Values difference_with_scattered(const SimplifyContext& c);
Values sum_of_scattered(const SimplifyContext& c);
/// What is scattered, or padded with 0, in 16 bits, as f32: so from f32 updates, or f32 in the middle. Sums
/// of cotangents of 16 bits are in f32, and their terms are found by the rules above and sum_of_stretches.
Values widened_scattered(const SimplifyContext& c, DType to);
Values widened_stretch(const SimplifyContext& c, DType to);
/// scatter_add, and a slice of it: see Note [Taken instead].
Values simplify_scatter_add(SimplifyContext& c);
Values slice_of_scattered(const SimplifyContext& c);

// --- words
/// No rule applies.
inline Values unchanged() { return Values(); }
/// Is every element of `value` that number? Zeros are told apart by their sign.
bool is_number(const SimplifyContext& c, Value value, double number);
/// The number that all elements of a value of a real dtype are, unless it is an integer beyond 2^53.
std::optional<double> number_of(const SimplifyContext& c, Value value);
/// `type` filled with the element.
Value filled(const SimplifyContext& c, Type type, const Literal& element);
/// The results, when all operands are the same literal, for an operation that moves elements.
Values filled_like_operands(const SimplifyContext& c);
/// An axis as an index.
inline std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }
/// Integers, and floating numbers: complex products have cross terms.
inline bool is_real(Type type) { return !is_complex(type.dtype()) && !is_bool(type.dtype()); }

}  // namespace tidu::prim
