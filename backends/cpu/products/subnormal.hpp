// subnormal.hpp - counts subnormal numbers as zeros while it lives. Intel's processors take some 150 cycles
// for each instruction that meets or makes one.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tidu::cpu_detail {

/// Of the calling thread, both operands and results; afterwards as before. Does nothing on processors other
/// than x86.
class SubnormalsAreZeros {
 public:
  explicit SubnormalsAreZeros([[maybe_unused]] bool wanted) {
#if defined(__SSE2__)
    if (!wanted) return;
    before_ = _mm_getcsr();
    changed_ = (before_ & both) != both;
    if (changed_) _mm_setcsr(before_ | both);
#endif
  }
  SubnormalsAreZeros(const SubnormalsAreZeros&) = delete;
  SubnormalsAreZeros& operator=(const SubnormalsAreZeros&) = delete;
  ~SubnormalsAreZeros() {
#if defined(__SSE2__)
    if (changed_) _mm_setcsr((_mm_getcsr() & ~both) | (before_ & both));  // the flags of exceptions stay
#endif
  }

 private:
  static constexpr unsigned both = 0x8040;  // MXCSR.FTZ and MXCSR.DAZ
  unsigned before_ = 0;
  bool changed_ = false;
};

}  // namespace tidu::cpu_detail
