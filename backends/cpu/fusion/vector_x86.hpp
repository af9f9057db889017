// vector_x86.hpp - x86-64 code for vector programs, in AVX2 or AVX-512, by Xbyak, with calls of libmvec: the
// parts of a generator.
//
// Three generators hold the parts: the loop over elements (vector_x86.cpp), the one over rows (rows_x86.cpp)
// and straight-line kernels (straight_line_x86.cpp). Each part has the state that it names, and refers to the
// parts it uses:
//   Assembler           the code, its constants, the registers of one width
//   ArithmeticEmitter   an instruction on given registers
//   ExponentialEmitter  exp and tanh
//   CircularEmitter     sin and cos
//   RegisterAllocator   the registers and spill slots of values
//   InstructionEmitter  the instructions of straight-line code, by the four parts above
//   Sections            constants in registers that no value needs
// The generator itself is the MemoryEmitter of its loads and stores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cpu/fusion/vector_x86_instructions.hpp"
#include "cpu/fusion/vector_x86_sections.hpp"

namespace tidu::cpu_detail {

/// The code that `first` has written, or, if constants are worth holding in registers, the code that `again`
/// writes for the same instructions. See Note [Held constants] in vector_x86_sections.hpp.
template <class Generator>
std::vector<std::uint8_t> written_again(Generator& first, std::span<const std::uint8_t> written,
                                        Generator&& again) {
  std::vector<x86::Section> sections = first.sections().take();
  if (std::any_of(sections.begin(), sections.end(),
                  [](const x86::Section& s) { return s.gains_from_holding(); })) {
    again.sections().hold_by(std::move(sections));
    written = again.write();
  }
  return {written.begin(), written.end()};
}

}  // namespace tidu::cpu_detail
