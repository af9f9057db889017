// fused_rows.hpp - a fused group of rows as one step.
#pragma once

#include <cstddef>

#include "cpu/compiled.hpp"
#include "cpu/groups/transpose_epilogue.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// As plan_group, for a group of rows: one generated function, or, where there is none for all of its
/// operations, one operation after another on whole arrays in scratch memory. If it is among `transposed` it
/// does that transpose as well.
Plan plan_rows(const Program& program, std::size_t node, const passes::NodeValues& values,
               const CompileOptions& options, const KernelTable& kernels, const std::shared_ptr<Arena>& arena,
               const TransposedResults& transposed);

}  // namespace tidu::cpu_detail
