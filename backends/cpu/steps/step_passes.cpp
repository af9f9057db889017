// step_passes.cpp - see step_passes.hpp.
#include "cpu/steps/step_passes.hpp"

namespace tidu::cpu_detail {

void run_step_passes(StepGraph& steps) {
  if (steps.has_composites()) steps.make_steps();
  const CpuPasses enabled = steps.program().options().passes;
  for (const StepPassEntry& pass : step_passes) {
    if (enabled.runs(pass.name)) pass.run(steps);
  }
}

}  // namespace tidu::cpu_detail
