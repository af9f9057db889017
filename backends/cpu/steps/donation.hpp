// donation.hpp - buffer donation: finds the outputs that may take the memory of an input.
//
// Note [Reused inputs]: parameters that a training step replaces make up most of its memory. The caller may
// donate an input (see Executable::run_into); an output of the same type then takes its memory. The written
// lines are already in the caches, and the step touches no further memory. The condition: the first step that
// writes the output is the last step that reads the input, and it reads each element before it writes that
// element.
#pragma once

#include <cstddef>
#include <unordered_set>

#include "cpu/compiled.hpp"
#include "cpu/steps/step_graph.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::cpu_detail {

/// Traits of the plans of nodes (see Plan), as sets of nodes.
struct PlanTraits {
  std::unordered_set<std::size_t> in_one_pass, cannot_fail;
};

/// The donations that a program allows, which is `steps` with buffers, for the given plan traits. Linear in
/// the size of the program.
DonatedInputs find_donated_inputs(const Program& program, StepGraph& steps, const PlanTraits& traits);

}  // namespace tidu::cpu_detail
