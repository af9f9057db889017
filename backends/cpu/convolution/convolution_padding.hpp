// convolution_padding.hpp - NaN where an infinite element of a kernel meets padding.
//
// Note [Padding is zero]: where a window meets padding, or a zero that dilation of lhs puts between elements,
// the kernel's element is multiplied by 0, so that an infinite one and NaN make NaN. The ways to compute a
// convolution leave most such products out: here their NaN are put where they belong, behind the convolution.
// That there are none is found by a look at the kernel or at the result, whichever is smaller: what is not
// finite in the kernel is not in the result either, if a window meets an element of lhs there.
#pragma once

#include "cpu/convolution/convolution.hpp"

namespace tidu::cpu_detail {

/// `convolution`, a plan of the shape for elements of T, and then those NaN; itself where no window meets a
/// zero.
template <class T>
Plan with_zero_padding(Plan convolution, const ConvShape& shape);

}  // namespace tidu::cpu_detail
