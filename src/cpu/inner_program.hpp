// inner_program.hpp - the program of a graph that an operation runs: a step of a loop, a branch.
#pragma once

#include <memory>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"

namespace tidu::cpu_detail {

/// What an operation inside a program is compiled with, as that program is.
struct InnerContext {
  const ProgramOptions& program;
  const CompileOptions& options;
  const KernelTable& kernels;
  const std::shared_ptr<Arena>& arena;
};

/// The graph as a program by these options, its constants folded. Throws Error (execution, out_of_memory).
std::unique_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context,
                                              const Surroundings& around = {});

}  // namespace tidu::cpu_detail
