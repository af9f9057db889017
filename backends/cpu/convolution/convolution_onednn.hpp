// convolution_onednn.hpp - convolutions by oneDNN's primitives, if tidu was built with it.
//
// Note [Convolutions by oneDNN]: an f32 convolution is one of three primitives. The forward primitive is the
// default. If lhs is dilated (the cotangent of a strided convolution), it is the backward primitive in data,
// with the kernel flipped. If the kernel is larger than the result (a cotangent that serves as the kernel),
// it is the backward primitive in weights: lhs is the source, the kernel the cotangent, and the result the
// weights. Operands are reordered to the formats that the primitive asks for, in parts that stay in cache:
// some members of the batch at a time; for weights, some terms of the sum over the batch; and if there are
// too few parts, some of the result's features.
//
// oneDNN's bits depend on the sizes of a call and on its number of threads. Parts therefore depend on the
// shapes alone, and each call uses one thread. Partial sums of weights are added in the order of the parts.
// The number of threads does not change the bits.
//
// Reorders pay: with plain formats, oneDNN makes an im2col copy for features-first layouts, and is slower for
// features-last ones. tidu's own code computes the gradient in data of a layer with one feature, and layers
// whose kernel has one element, where it is faster. Measured on the layers of bench/convolution.cpp, as
// processor time on one thread of a Zen 4 server, relative to the better of PyTorch 2.15's contiguous and
// channels-last layouts:
//
//     layer                                   1     2     3     4     5
//     forward                                 0.66  0.96  1.03  1.01  0.87
//     with gradients                          0.69  0.87  1.01  0.95  0.86
//
//     share of the time taken by reorders                2 to 10 %
//     oneDNN / tidu, gradient in data, first layer       1.2
//     oneDNN / tidu, last layer                          1.1
//     plain formats / reordered, features first          2
//     plain formats / reordered, features last           up to 1.1
#pragma once

#include "cpu/convolution/convolution.hpp"

namespace tidu::cpu_detail::onednn {

/// Plans an f32 convolution by oneDNN. Returns a plan without `run` if oneDNN is not built in, has no fast
/// code for the shape, or was measured slower than tidu's code.
[[nodiscard]] Plan plan_convolution(const ConvShape& shape, int threads);

}  // namespace tidu::cpu_detail::onednn
