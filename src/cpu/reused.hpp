// reused.hpp - outputs that may lie where an input does: nothing reads it any more when they are written.
//
// Note [Reused inputs]: parameters that a step replaces by others are what most of a training step's memory
// is. Where the caller gives up an input (see Executable::run_into), an output of its type takes its memory:
// what a step writes is then in the caches already, and no other memory is touched. An output may do so where
// the first step that writes to it is the last that reads the input, and reads each element before it writes
// it.
#pragma once

#include "cpu/compiled.hpp"
#include "cpu/takeovers.hpp"
#include "tidu/program/program.hpp"

namespace tidu::cpu_detail {

/// Of the program as it runs, and who does what in it. Linear.
ReusedInputs find_reused_inputs(const Program& program, const Takeovers& takeovers,
                                const KernelTable& kernels);

}  // namespace tidu::cpu_detail
