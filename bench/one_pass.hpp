// one_pass.hpp - the chain c = x^2, y = tanh(sin(x) x + e^-c) sqrt(c + 1) as one pass written by hand: the
// bound of element-wise work.
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

/// For `count` elements, a multiple of 16, each |x| < 2^15: returns the sum of y and, with `derivative`,
/// writes its gradient.
using OnePass = float (*)(const float* x, float* gradient, std::int64_t count, bool derivative);

/// The passes that this CPU can run: with the library's own vector functions, written out by hand for AVX-512
/// and for AVX2, and with glibc's.
std::vector<OnePass> one_passes();

// Each null where the compiler had no such vectors.
OnePass one_pass_avx512();
OnePass one_pass_avx2();

}  // namespace bench
