// inner_program.hpp - the program of a graph that an operation runs: a step of a loop, a branch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

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

/// Programs of graphs that stand in several places, as branches do whose graphs call one another: each is
/// compiled once, however many places there are.
class InnerPrograms {
 public:
  /// The place of the program of that graph by these options; null until it is compiled.
  std::shared_ptr<const Compiled>& at(const Graph& graph, const CompileOptions& options);

 private:
  using Key = std::tuple<Key128, int, int, std::int64_t>;
  std::map<Key, std::shared_ptr<const Compiled>> programs_;
};

/// The graph as a program by these options, its constants folded; of several calls for one graph the same.
/// Throws Error (execution, out_of_memory).
std::shared_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context);
/// The same of a graph in a place of its own.
std::shared_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context,
                                              const Surroundings& around);

}  // namespace tidu::cpu_detail
