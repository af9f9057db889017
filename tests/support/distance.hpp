// distance.hpp - how far apart two tensors are.
#pragma once

#include "tidu/tensor/tensor.hpp"

namespace tidu::test {

/// Apart by how much at most, beside the largest finite element of `a` or 1; NaN is as good as NaN, and what
/// is finite in one alone is 1e300 apart. Requires equal types.
double distance(const Tensor& a, const Tensor& b);

}  // namespace tidu::test
