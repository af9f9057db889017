// loop.hpp - the plan of a tiled loop (BlockedLoop): the program of a tile runs on one block of an axis after
// another, and blocks are shared among threads.
#pragma once

#include <memory>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Plans a loop of `program` that reads values.operands and writes values.results, in this order. `reads` has
/// the demanded elements of each value; empty: all. Throws Error (execution, out_of_memory).
Plan plan_loop(const Program& program, const BlockedLoop& loop, const passes::NodeValues& values,
               std::span<const ReadElements> reads, const CompileOptions& options, const KernelTable& kernels,
               const std::shared_ptr<Arena>& arena);

}  // namespace tidu::cpu_detail
