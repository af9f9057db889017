// strict_plans.hpp - the arrays of a plan for the strict emulator: operands, results and scratch memory, and
// what steps that are no launch read and write of them.
#pragma once

#include <vector>

#include "cuda/device.hpp"
#include "cuda/strict.hpp"

namespace tidu::test {

/// Operands, results and scratch memory, in this order. `initialised`: all may be read from the beginning, as
/// where it is not known what wrote them; else operands alone.
std::vector<StrictMemory> arrays_of(const cuda_detail::Bindings& at, bool initialised);
/// Notes what the step, which is no launch, has written; throws std::runtime_error when it read what nothing
/// had. A call of a library is taken to write all results and all scratch memory.
void note_step(const cuda_detail::Step& step, const cuda_detail::Bindings& at,
               std::vector<StrictMemory>& arrays);
/// Throws std::runtime_error when a byte of a result was not written.
void check_results(const cuda_detail::Bindings& at, const std::vector<StrictMemory>& arrays);

}  // namespace tidu::test
