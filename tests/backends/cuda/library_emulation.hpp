// library_emulation.hpp - the steps of plans that are calls of libraries, done on the host.
#pragma once

#include "cuda/emulator.hpp"
#include "cuda/plan.hpp"

namespace tidu::test {

/// Products and LAPACK's routines in 64 bits, by loops and by Eigen, and collectives of one rank. Throws
/// std::runtime_error for any other step.
void emulate_library(const cuda_detail::Step& step, const Emulator::Locate& locate);

}  // namespace tidu::test
