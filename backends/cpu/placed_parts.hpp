// placed_parts.hpp - parts of a concatenate that are made where it wants them.
#pragma once

#include <vector>

#include "cpu/step_fusions.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Of concatenates along the first axis of more than one element, so that each operand is one stretch of the
/// result, which are outputs: the operands that a group, a loop or an operation makes for nothing else, of
/// some cache lines and from one on. The kernel leaves alone what it finds in its place.
std::vector<passes::PlacedPart> find_placed_parts(const Program& program, const StepFusions& step_fusions);

}  // namespace tidu::cpu_detail
