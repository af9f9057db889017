// convolution_padding.hpp - NaN where a kernel element that is infinite or NaN meets padding.
//
// Note [Padding is zero]: where a window meets padding, or a zero that dilation of lhs inserts, the kernel
// element is multiplied by 0, so an infinite or NaN element gives NaN. The methods of convolution skip most
// of these multiplications; this step adds the missing NaNs after the convolution. To detect that there are
// none, it checks the kernel or the result, whichever is smaller: a kernel element that is not finite makes
// the result not finite if a window uses it with an element of lhs.
#pragma once

#include "cpu/convolution/convolution.hpp"

namespace tidu::cpu_detail {

/// Extends `convolution`, a plan of the shape for elements of T, by that step. Returns `convolution` itself
/// if no window meets a zero.
template <class T>
Plan with_zero_padding(Plan convolution, const ConvShape& shape);

}  // namespace tidu::cpu_detail
