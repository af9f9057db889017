// distance.hpp - the distance of two tensors.
#pragma once

#include "tidu/tensor/tensor.hpp"

namespace tidu::test {

/// The largest difference, relative to the largest finite element of `a` or 1. NaN equals NaN, and an element
/// that is finite in one alone is 1e300 away. Requires equal types.
double distance(const Tensor& a, const Tensor& b);

}  // namespace tidu::test
