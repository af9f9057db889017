// placed_parts.hpp - concatenation in place: operands of a concatenate are computed within its result.
#pragma once

#include <vector>

#include "cpu/step_fusions.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The operands that become sub-buffers of a concatenate's result. The concatenate is an output, and its axis
/// is the first with more than one element, so that each operand is contiguous in the result. The operand is
/// a result of a fusion, a loop or an operation, has no other reader, and has a minimum size and cache-line
/// alignment. The concatenate's kernel skips operands that are already in place.
std::vector<passes::PlacedPart> find_placed_parts(const Program& program, const StepFusions& step_fusions);

}  // namespace tidu::cpu_detail
