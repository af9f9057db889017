// operation_plans.hpp - plans of a program's single operations, by the kernels that there are.
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

/// Refers to all that it is made of.
class OperationPlans {
 public:
  OperationPlans(const Program& program, const CompileOptions& options, const KernelTable& kernels,
                 std::shared_ptr<Arena> arena, const Surroundings& around);

  /// From now on plans are for what is read of results: see find_reads.
  void find_reads(std::span<const std::byte* const> constant_at);
  /// By value, or empty: all is read.
  std::span<const ReadElements> reads() const { return reads_; }
  /// Of the operation's only result; null: all is read.
  const std::vector<bool>* reads_of(std::uint32_t operation) const;

  /// Throws Error (execution) that names the operation.
  Plan plan(std::uint32_t operation);
  /// Of an operation that is to add to its result: none where no kernel does that.
  Plan plan_adding(std::uint32_t operation);
  /// Has every operation of that op and those types the same plan?
  bool is_general(std::uint32_t operation) const;

 private:
  Plan make(std::uint32_t operation, bool adding);
  std::uint32_t fixed_of(std::uint32_t operation) const;

  const Program& program_;
  const Graph& graph_;
  const CompileOptions& options_;
  const KernelTable& kernels_;
  const std::shared_ptr<Arena> arena_;
  const Surroundings& around_;
  std::vector<ReadElements> reads_;
  std::vector<Type> in_, out_;
};

}  // namespace tidu::cpu_detail
