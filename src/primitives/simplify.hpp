// simplify.hpp - the simplify rules of the standard set, by family, and the functions that they are written
// with. docs/optimizer.md lists them. Each is exact, bit for bit, for every operand; inexact rewrites check
// fast_math() first.
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
/// max and min of a value and itself.
Values simplify_idempotent(SimplifyContext& c);
/// eq, ne, lt, le, gt and ge of two numbers.
Values simplify_comparison(SimplifyContext& c);
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
/// A comparison of positions along axes as one of floating numbers, if the mask selects between values of
/// dtype `chosen`; nothing for other masks. See Note [Counts] in simplify_counts.cpp.
std::optional<Value> mask_of_counts(const SimplifyContext& c, Value mask, DType chosen);
/// A sum of values that are zero except in disjoint stretches.
Values sum_of_stretches(SimplifyContext& c);
/// Sinks transposes: elementwise and layout operations run before their operands are transposed.
Values before_transposes(SimplifyContext& c);
Values concatenate_before_transposes(const SimplifyContext& c);
Values pad_before_transpose(const SimplifyContext& c);
Values slice_before_transpose(const SimplifyContext& c);
Values take_before_transpose(const SimplifyContext& c);
Values product_before_transpose(const SimplifyContext& c);
/// For every element-wise operation: broadcasts and transposes of operands are moved after it.
Values simplify_elementwise(SimplifyContext& c);

// --- shapes
/// Removes identities: stop_gradient.
Values simplify_pass(SimplifyContext& c);
/// reshape, squeeze and expand_dims.
Values simplify_view(SimplifyContext& c);
Values simplify_transpose(SimplifyContext& c);
Values simplify_broadcast(SimplifyContext& c);
Values simplify_rev(SimplifyContext& c);
Values simplify_slice(SimplifyContext& c);
Values simplify_pad(SimplifyContext& c);
Values simplify_concatenate(SimplifyContext& c);

// --- reductions and matmuls
/// reduce_sum, and reductions that give equal elements unchanged.
Values simplify_sum(SimplifyContext& c);
Values simplify_idempotent_reduction(SimplifyContext& c);
Values simplify_dot(SimplifyContext& c);
/// take, of a few rows of results of matmuls.
Values simplify_take(SimplifyContext& c);
/// x + y, x - y and a sum along one axis, where an operand is scattered: see Note [Scattered once].
Values sum_with_scattered(const SimplifyContext& c);
Values difference_with_scattered(const SimplifyContext& c);
Values sum_of_scattered(const SimplifyContext& c);
/// A scatter or a pad with 0 in 16 bits, as f32: so from f32 updates, or with f32 in between. Sums of 16-bit
/// cotangents are in f32, and the rules above and sum_of_stretches then recognize their terms.
Values widened_scattered(const SimplifyContext& c, DType to);
Values widened_stretch(const SimplifyContext& c, DType to);
/// scatter_add, and a slice of it: see Note [Gather instead of scatter].
Values simplify_scatter_add(SimplifyContext& c);
Values slice_of_scattered(const SimplifyContext& c);

// --- words
/// No rule applies.
inline Values unchanged() { return Values(); }
/// Is every element of `value` that number? 0 and -0 are different numbers.
bool is_number(const SimplifyContext& c, Value value, double number);
/// The number that all elements of a value of a real dtype are, unless it is an integer beyond 2^53.
std::optional<double> number_of(const SimplifyContext& c, Value value);
/// `type` filled with the element.
Value filled(const SimplifyContext& c, Type type, const Literal& element);
/// The results, when all operands are the same literal, for a layout operation.
Values filled_like_operands(const SimplifyContext& c);
/// An axis as an index.
inline std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }
/// Integers, and floating numbers: complex products have cross terms.
inline bool is_real(Type type) { return !is_complex(type.dtype()) && !is_bool(type.dtype()); }

}  // namespace tidu::prim
