// step_passes.hpp - step fusion: the passes over a StepGraph, in order. Each pass is one function that finds
// operations which another step absorbs, and changes the steps accordingly. Examples are additions in a
// matmul's epilogue, slices in a fusion's prologue, transposes in its epilogue, and elided copies.
//
// To add a pass: add an enumerator to CpuPass, its name to to_string, and one to num_cpu_passes; write the
// function in a file of its own; add a row to `step_passes`. A pass may read anything of the graph, but
// changes steps alone. It may leave an absorbed step's values in place: StepGraph::assign_buffers clears them
// after the last pass.
#pragma once

#include "cpu/steps/step_graph.hpp"
#include "tidu/cpu/passes.hpp"

namespace tidu::cpu_detail {

using StepPass = void (*)(StepGraph& steps);

/// An operation whose result is added to an accumulator adds in place: see CallSite::sums.
void accumulate_in_place(StepGraph& steps);
/// Fusions gather columns and rows of matrices, and interleave columns that they compute: see Note [Columns]
/// in fusion/fused.cpp.
void gather_prologues(StepGraph& steps);
/// Fusions read slices, pads, broadcasts, iotas and rolls through access maps: see Note [Fused loads] in
/// fusion/fused.cpp.
void fused_loads(StepGraph& steps);
/// x + c AB in the matmul's tiles: see Note [Updates] in matmul/matmul_epilogue.hpp.
void matmul_epilogues(StepGraph& steps);
/// Layout operations and matmuls read and write through access maps: see Note [Copy elision] in
/// copy_elision.cpp.
void copy_elision(StepGraph& steps);
/// Operations that change some elements of an array update it in place: see Note [Scattered] in
/// inplace_updates.cpp.
void inplace_updates(StepGraph& steps);
/// Operands of a concatenation are computed within its result. Fills StepGraph::sub_buffers.
void concat_in_place(StepGraph& steps);

struct StepPassEntry {
  CpuPass name;  ///< the option that disables it
  StepPass run;
};
inline constexpr StepPassEntry step_passes[] = {
    {CpuPass::accumulate_in_place, accumulate_in_place},
    {CpuPass::gather_prologues, gather_prologues},
    {CpuPass::fused_loads, fused_loads},
    {CpuPass::matmul_epilogues, matmul_epilogues},
    {CpuPass::copy_elision, copy_elision},
    {CpuPass::inplace_updates, inplace_updates},
    {CpuPass::concat_in_place, concat_in_place},
};

/// Runs the enabled passes.
void run_step_passes(StepGraph& steps);

}  // namespace tidu::cpu_detail
