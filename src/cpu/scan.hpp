// scan.hpp - scan as one step: the program of its body, run step by step.
#pragma once

#include <memory>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"

namespace tidu::cpu_detail {

/// Is it an operation that plan_scan plans?
bool is_scan(const Operation& operation);

/// The plan of a scan, whose body becomes a program by these options. Throws Error (execution,
/// out_of_memory).
Plan plan_scan(const Operation& operation, const ProgramOptions& program_options,
               const CompileOptions& options, const KernelTable& kernels,
               const std::shared_ptr<Arena>& arena);

}  // namespace tidu::cpu_detail
