// one_pass.hpp - the chain c = x^2, y = tanh(sin(x) x + e^-c) sqrt(c + 1) as one pass written by hand with
// glibc's vector functions: what element-wise work is held against.
#pragma once

#include <cstdint>

namespace bench {

/// Of `count` elements, a multiple of 16: returns the sum of y and, where it is asked for, writes its
/// gradient.
using OnePass = float (*)(const float* x, float* gradient, std::int64_t count, bool derivative);

/// The pass for the widest vectors that this CPU has; null where there is none.
OnePass one_pass();

}  // namespace bench
