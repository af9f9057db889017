// instruction_set.cpp - see instruction_set.hpp.
#include "cpu/instruction_set.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tidu::cpu_detail {

bool cpu_has(InstructionSet set) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  static const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                                 __builtin_cpu_supports("avx512vl");
  if (set == InstructionSet::avx512) return has_avx512;
  if (set == InstructionSet::avx2) return has_avx2;
#endif
  return set == InstructionSet::baseline;
}

bool computes_in_halves() {
#if defined(__x86_64__)
  static const bool is_zen4 = [] {
    constexpr unsigned zen3_and_4 = 0x19;  // the family
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__builtin_cpu_is("amd") == 0 || __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
    const unsigned family = (eax >> 8U & 0xfU) + (eax >> 20U & 0xffU);
    return family == zen3_and_4 && cpu_has(InstructionSet::avx512);
  }();
  return is_zen4;
#else
  return false;
#endif
}

}  // namespace tidu::cpu_detail
