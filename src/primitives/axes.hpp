// axes.hpp - functions that the structural records share: checks of axes and extents in type rules,
// arithmetic on lists of axes, and the transposes that batch rules need. Axes are checked before they are
// used as indices, and sums and products of extents are checked for overflow: attributes may come from an
// untrusted dump.
#pragma once

#include <string_view>

#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::prim {

// --- type rules
/// Axes in [0, rank) without repetition, in any order; `what` names the attribute in messages.
void require_axes(const InferContext& c, std::string_view what, const Ints& axes, std::size_t rank);
/// One axis in [0, rank).
void require_axis(const InferContext& c, std::string_view what, std::int64_t axis, std::size_t rank);
/// Operand `i` is integer, floating or complex.
void require_numeric(const InferContext& c, std::size_t i);
/// Operand `i` is integer or floating.
void require_real(const InferContext& c, std::size_t i);
/// Operand `i` is bool, integer or floating.
void require_ordered(const InferContext& c, std::size_t i);
/// Operand `i` is i32 or i64.
void require_integer(const InferContext& c, std::size_t i);
/// Adds a result of that type; throws for one that is too large, in the op's name.
void give(InferContext& c, DType dtype, const Shape& shape);

/// a + b and a * b, or a refusal in the op's name where int64 cannot hold them.
std::int64_t checked_add(const InferContext& c, std::int64_t a, std::int64_t b);
std::int64_t checked_mul(const InferContext& c, std::int64_t a, std::int64_t b);

// --- lists of axes
/// first, first + 1, …, last - 1.
Ints range(std::int64_t first, std::int64_t last);
/// The axes of [0, rank) that are not in `axes`, ascending.
Ints remaining(std::size_t rank, const Ints& axes);
/// The same, and not in `more` either.
Ints remaining(std::size_t rank, const Ints& axes, const Ints& more);
/// Every axis plus one: its position after a leading axis is added.
Ints shifted(Ints axes);
/// The concatenation of lists.
Ints joined(std::initializer_list<Ints> lists);
/// `leading` before the entries of `list`.
Ints prepended(std::int64_t leading, const Ints& list);
/// The permutation that undoes `permutation`.
Ints inverse_permutation(const Ints& permutation);
/// Extents of `shape` at `axes`.
Shape extents_at(const Shape& shape, const Ints& axes);

// --- emitting functions
/// Negative axes count from the end of `rank` axes. Axes out of range are unchanged, and the type rule
/// rejects them.
std::int64_t normal_axis(std::int64_t axis, std::size_t rank);
Ints normal_axes(Ints axes, std::size_t rank);

// --- rules
/// x with axis `from` moved to position `to`; x itself when they are equal.
Value move_axis(Value x, std::size_t from, std::size_t to);
/// x without the axes of `reduced`, spread over them again to `shape`.
Value spread(Value x, const Shape& shape, const Ints& reduced);
/// Zeros of that type as a linear function of x, which has an axis: the sum of none of its elements.
Value sum_of_none(Value x, Type type);
/// The primitive of `c` on `operands`, which keeps none of the old attributes but those given.
Value emit_same(const BatchContext& c, Attributes attributes, std::initializer_list<Value> operands);

}  // namespace tidu::prim
