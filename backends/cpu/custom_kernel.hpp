// custom_kernel.hpp - custom kernels, which take tensors (see Kernel), as plans over pointers.
#pragma once

#include <memory>

#include "cpu/kernel.hpp"
#include "cpu/kernel_table.hpp"

namespace tidu::cpu_detail {

/// Plans an operation with a custom kernel. Graphs inside the operation run with the kernels of `table`.
Plan plan_custom(const PlanRequest& request, const Kernel& kernel, std::shared_ptr<const KernelTable> table);

}  // namespace tidu::cpu_detail
