// grouped_matmul.hpp - grouped matmul: equal independent matmuls as one step, which threads share.
#pragma once

#include <cstddef>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Plans the grouped matmul at position `node` of the schedule. It reads values.operands and writes
/// values.results, in this order. Each matmul runs on one thread. Throws Error (execution) if a kernel is
/// missing.
Plan plan_grouped_matmul(const Program& program, std::size_t node, const passes::NodeValues& values,
                         const CompileOptions& options, const KernelTable& kernels);

}  // namespace tidu::cpu_detail
