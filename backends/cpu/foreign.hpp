// foreign.hpp - kernels of other projects, which take tensors, as plans over pointers.
#pragma once

#include <memory>

#include "cpu/kernel.hpp"
#include "cpu/kernel_table.hpp"

namespace tidu::cpu_detail {

/// Graphs that the operation holds run with the kernels of `table`.
Plan plan_foreign(const PlanRequest& request, const Kernel& kernel, std::shared_ptr<const KernelTable> table);

}  // namespace tidu::cpu_detail
