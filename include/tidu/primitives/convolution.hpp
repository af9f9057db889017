// convolution.hpp - primitives that slide a window over their operand: their records (tidu::prim) and the
// functions that emit them (tidu::ops). Semantics are those of jax.lax. Low and high padding may be negative,
// to crop.
#pragma once

#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// A convolution, grouped, strided and dilated.
extern const Primitive conv_general_dilated;
/// Sums and maxima over windows.
extern const Primitive reduce_window_sum, reduce_window_max;

}  // namespace tidu::prim

namespace tidu::ops {

/// The axes of each operand and the result: batch and feature, then the spatial ones; for rhs, the kernel:
/// the result's features, the operand's features, then the spatial ones. An empty list stands for 0, 1, 2, …
struct ConvDimensionNumbers {
  Ints lhs_spec{};  ///< of the operand
  Ints rhs_spec{};  ///< of the kernel
  Ints out_spec{};  ///< of the result
};
/// The geometry of a convolution, for each spatial axis; an empty list stands for ones, empty padding for
/// none.
struct Convolution {
  Ints window_strides{};                     ///< step of the window
  IntLists padding{};                        ///< [low, high]
  Ints lhs_dilation{};                       ///< distance of elements of the operand
  Ints rhs_dilation{};                       ///< distance of elements of the kernel
  ConvDimensionNumbers dimension_numbers{};  ///< the meaning of the axes
  std::int64_t feature_group_count = 1;      ///< into how many groups the features fall
};
/// out[b, o, p] = sum over features i of o's group and kernel positions k of lhs[b, i, p strides + k
/// rhs_dilation - low] rhs[o, i, k]; lhs has lhs_dilation - 1 zeros between its elements, and zeros around
/// it. Kernels are not flipped. lhs has feature_group_count times the features of rhs.
Value conv_general_dilated(Value lhs, Value rhs, const Convolution& convolution,
                           Where where = Where::current());

/// The sum (maximum) over each window of x; padding counts as 0 (as -inf, or the least integer). Empty
/// strides stand for ones, empty padding for none. The cotangent of a maximum goes to the first element in
/// row-major order that is the greatest of its window.
Value reduce_window_sum(Value x, const Ints& window_dimensions, const Ints& window_strides = {},
                        const IntLists& padding = {}, Where where = Where::current());
Value reduce_window_max(Value x, const Ints& window_dimensions, const Ints& window_strides = {},
                        const IntLists& padding = {}, Where where = Where::current());

}  // namespace tidu::ops
