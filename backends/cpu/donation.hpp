// donation.hpp - outputs that may lie where an input does: nothing reads it any more when they are written.
//
// Note [Reused inputs]: parameters that a step replaces by others are what most of a training step's memory
// is. Where the caller gives up an input (see Executable::run_into), an output of its type takes its memory:
// what a step writes is then in the caches already, and no other memory is touched. An output may do so where
// the first step that writes to it is the last that reads the input, and reads each element before it writes
// it.
#pragma once

#include <cstddef>
#include <unordered_set>

#include "cpu/compiled.hpp"
#include "cpu/step_fusions.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::cpu_detail {

/// What plans of nodes say of themselves (see Plan).
struct ToldByPlans {
  std::unordered_set<std::size_t> in_one_pass, cannot_fail;
};

/// Of the program as it runs, who does what in it, and how. Linear.
DonatedInputs find_donated_inputs(const Program& program, const StepFusions& step_fusions,
                                  const ToldByPlans& told, const KernelTable& kernels);

}  // namespace tidu::cpu_detail
