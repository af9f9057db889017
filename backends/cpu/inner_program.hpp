// inner_program.hpp - inner programs: compiled graphs that an operation runs, such as a loop body or a
// branch. They share the options, kernels and arena of the outermost program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "cpu/compiled.hpp"
#include "cpu/kernel_table.hpp"

namespace tidu::cpu_detail {

/// Context in which the graphs inside an operation are compiled.
struct InnerContext {
  const ProgramOptions& program;
  const CompileOptions& options;
  const KernelTable& kernels;
  const std::shared_ptr<Arena>& arena;
};

/// Inner programs by graph. A graph that occurs several times, as in branches that call one another, is
/// compiled once.
class InnerPrograms {
 public:
  /// The entry for that graph and these options; null until the graph is compiled.
  std::shared_ptr<const Compiled>& at(const Graph& graph, const CompileOptions& options);

 private:
  using Key = std::tuple<Key128, int, int, std::int64_t>;
  std::map<Key, std::shared_ptr<const Compiled>> programs_;
};

/// Compiles the graph, with constants folded, or returns the inner program of an earlier call. Throws Error
/// (execution, out_of_memory).
std::shared_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context);
/// Compiles the graph for one call site; the result is not shared.
std::shared_ptr<const Compiled> compile_inner(const Graph& graph, const InnerContext& context,
                                              const CallSite& call_site);

}  // namespace tidu::cpu_detail
