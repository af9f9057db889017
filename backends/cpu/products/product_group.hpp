// product_group.hpp - equal products side by side as one step, shared by threads.
#pragma once

#include <cstddef>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The plan of the product group at position `node` of the schedule, which reads values.operands and makes
/// values.results, in this order. Each product runs on one thread. Throws Error (execution) where a kernel is
/// missing.
Plan plan_product_group(const Program& program, std::size_t node, const passes::NodeValues& values,
                        const CompileOptions& options, const KernelTable& kernels);

}  // namespace tidu::cpu_detail
