// factor_rules.hpp - factor rules (how axes of operands and results correspond) for records of several
// families, and the ops for results of another extent.
#pragma once

#include "tidu/graph/factors.hpp"
#include "tidu/graph/op.hpp"

namespace tidu::prim {

/// For operations that keep the row-major order of elements: axes of one extent with equally many elements
/// before and after them.
void factors_of_view(Factors& f);
void factors_of_transpose(Factors& f);
/// The axes that attribute `dimensions` does not name.
void factors_of_rev(Factors& f);
void factors_of_broadcast(Factors& f);
/// The axes that attribute `axes` does not name, and, of a sum, those that it names.
void factors_of_reduction(Factors& f);
void factors_of_sum(Factors& f);
/// The axes but attribute `axis`, which the result lacks.
void factors_of_index(Factors& f);
/// The axes but attribute `axis`, of the only operand.
void factors_along(Factors& f);
void factors_of_dot(Factors& f);
/// The batch, and, without groups, the features.
void factors_of_convolution(Factors& f);
/// The axes along which a window is one element.
void factors_of_windows(Factors& f);
/// The axes that are taken whole.
void factors_of_slice(Factors& f);
void factors_of_pad(Factors& f);
void factors_of_concatenate(Factors& f);
void factors_of_take(Factors& f);
void factors_of_take_along(Factors& f);
/// Without operands: every axis of the result, except attribute `dimension` of iota.
void factors_of_full(Factors& f);
void factors_of_iota(Factors& f);

/// The op with another entry in a list.
Op with_entry(const Op& op, std::string_view list, std::size_t axis, std::int64_t value);
Op resize_shape(const Op& op, std::size_t axis, std::int64_t extent);
Op resize_new_sizes(const Op& op, std::size_t axis, std::int64_t extent);
Op resize_limits(const Op& op, std::size_t axis, std::int64_t extent);

}  // namespace tidu::prim
