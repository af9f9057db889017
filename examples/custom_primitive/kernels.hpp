// kernels.hpp - executors that run the primitives of primitives.hpp beside the standard ones.
#pragma once

#include <tidu/cpu/executor.hpp>
#include <tidu/reference/executor.hpp>

namespace demo {

/// The given executor with a kernel for demo.rms_norm and demo.circulant, in f32 and f64.
tidu::CpuExecutor with_kernels(const tidu::CpuExecutor& executor);
tidu::ReferenceExecutor with_kernels(const tidu::ReferenceExecutor& executor);

}  // namespace demo
