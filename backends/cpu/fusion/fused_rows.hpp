// fused_rows.hpp - the plan of a row fusion as one step.
#pragma once

#include <cstddef>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// As plan_fusion, for a row fusion. The plan is one generated function; if not all operations have vector
/// code, it runs one operation after another on whole arrays in scratch memory.
Plan plan_rows(const Program& program, std::size_t node, const passes::NodeValues& values,
               const CompileOptions& options, const KernelTable& kernels,
               const std::shared_ptr<Arena>& arena);

}  // namespace tidu::cpu_detail
