// subnormal.hpp - SubnormalsAreZeros: flushes subnormal numbers to zero during its lifetime. Intel's
// processors take some 150 cycles for each instruction with a subnormal operand or result.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tidu::cpu_detail {

/// Affects operands and results on the calling thread, and restores the former mode at the end. Has no effect
/// on processors other than x86.
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
    if (changed_) _mm_setcsr((_mm_getcsr() & ~both) | (before_ & both));  // exception flags are kept
#endif
  }

 private:
  static constexpr unsigned both = 0x8040;  // MXCSR.FTZ and MXCSR.DAZ
  unsigned before_ = 0;
  bool changed_ = false;
};

}  // namespace tidu::cpu_detail
