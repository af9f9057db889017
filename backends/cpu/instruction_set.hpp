// instruction_set.hpp - sets of instructions for which code of the library is compiled.
#pragma once

#include <cstdint>

namespace tidu::cpu_detail {

/// What the whole library is built for; AVX2 with FMA; AVX-512 (F, DQ, BW, VL) with those.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };

/// Does the CPU have it?
bool cpu_has(InstructionSet set);

/// Does the CPU compute with vectors of 64 bytes in two halves, as AMD's Zen 4 does?
bool computes_in_halves();

}  // namespace tidu::cpu_detail
