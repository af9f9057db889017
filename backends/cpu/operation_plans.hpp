// operation_plans.hpp - OperationPlans: plans of single operations of a program, from the kernel table. It
// knows the demanded elements and the fixed inputs of the call site.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/demanded_elements.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::cpu_detail {

/// Holds references to all constructor arguments.
class OperationPlans {
 public:
  OperationPlans(const Program& program, const CompileOptions& options, const KernelTable& kernels,
                 std::shared_ptr<Arena> arena, const CallSite& call_site);

  /// Computes demanded elements (see find_reads); later plans use them.
  void find_reads(std::span<const std::byte* const> constant_at);
  /// Demanded elements by value; empty: all.
  std::span<const ReadElements> reads() const { return reads_; }
  /// Demanded elements of the operation's only result; null: all.
  const std::vector<bool>* reads_of(std::uint32_t operation) const;

  /// Throws Error (execution) with the name of the operation.
  Plan plan(std::uint32_t operation);
  /// A plan that adds to the result; `run` is null if no kernel supports that.
  Plan plan_adding(std::uint32_t operation);
  /// Do all operations with this op and these types have the same plan?
  bool is_general(std::uint32_t operation) const;

 private:
  Plan make(std::uint32_t operation, bool adding);
  std::uint32_t fixed_of(std::uint32_t operation) const;

  const Program& program_;
  const Graph& graph_;
  const CompileOptions& options_;
  const KernelTable& kernels_;
  const std::shared_ptr<Arena> arena_;
  const CallSite& call_site_;
  std::vector<ReadElements> reads_;
  std::vector<Type> in_, out_;
};

}  // namespace tidu::cpu_detail
