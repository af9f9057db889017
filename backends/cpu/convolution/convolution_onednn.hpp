// convolution_onednn.hpp - convolutions by oneDNN's primitives, where tidu was built with it.
//
// Note [Convolutions by oneDNN]: a convolution in f32 is one of three primitives: the forward convolution;
// for lhs that is dilated (the cotangent of a strided convolution), the one backward in data, with the kernel
// flipped once more; and for a kernel larger than the result (a cotangent that serves as the kernel), the one
// backward in weights, lhs and kernel being its source and cotangent and the result its weights. Its operands
// are reordered to the formats that the primitive asks for. This is done in parts that stay in cache: some
// members of the batch at a time, for weights some terms of the sum over the batch, and where that gives too
// few parts some of the result's features. oneDNN's bits depend on the sizes of a call and on its number of
// threads, so parts follow from the shapes alone and each call is made with one thread; partial sums of
// weights are added up in the order of the parts. Any number of threads gives the same bits.
//
// Measured against PyTorch 2.15, the better of contiguous and channels last, processor time on one thread of
// a Zen 4 server, ours / theirs, of the layers of bench/convolution.cpp: 0.66, 0.96, 1.03, 1.01 and 0.87
// forward, 0.69, 0.87, 1.01, 0.95 and 0.86 with gradients. The reorders take 2 to 10% of that. Of the first
// layer the gradient in data, which has one feature, is ours (oneDNN 1.2 times as long), and so is
// all of the last, where the kernel has one place (1.1 times). With plain formats,
// without reorders, oneDNN takes an im2col of its own for features first, twice as long, and is up to 10%
// slower for features last.
#pragma once

#include "cpu/convolution/convolution.hpp"

namespace tidu::cpu_detail::onednn {

/// How oneDNN runs this convolution of f32; none where it was not built in, where it has no fast code for it
/// or where our own measured faster.
[[nodiscard]] Plan plan_convolution(const ConvShape& shape, int threads);

}  // namespace tidu::cpu_detail::onednn
