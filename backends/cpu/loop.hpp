// loop.hpp - a blocked loop as one step: the program of a block, run on one block of an axis after another.
#pragma once

#include <memory>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The plan of a loop of `program`, which reads values.operands and makes values.results, in this order;
/// `reads` says by value which elements something reads, if it is not empty. Throws Error (execution,
/// out_of_memory).
Plan plan_loop(const Program& program, const BlockedLoop& loop, const passes::NodeValues& values,
               std::span<const ReadElements> reads, const CompileOptions& options, const KernelTable& kernels,
               const std::shared_ptr<Arena>& arena);

}  // namespace tidu::cpu_detail
