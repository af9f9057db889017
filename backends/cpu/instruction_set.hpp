// instruction_set.hpp - instruction sets for which the library compiles variants of its kernels.
#pragma once

#include <cstdint>

namespace tidu::cpu_detail {

/// `baseline`: the target of the whole library. `avx2`: AVX2 with FMA. `avx512`: AVX-512 F, DQ, BW and VL,
/// with AVX2 and FMA.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };

/// Does this CPU have the instruction set?
bool cpu_has(InstructionSet set);

/// Does this CPU execute 64-byte vectors in two halves, as AMD's Zen 4 does?
bool computes_in_halves();

}  // namespace tidu::cpu_detail
