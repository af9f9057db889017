// instruction_set.cpp - see instruction_set.hpp.
#include "cpu/instruction_set.hpp"

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

}  // namespace tidu::cpu_detail
