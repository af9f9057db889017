// kernel_table.hpp - which rule plans the operations of which primitive.
#pragma once

#include <string_view>
#include <unordered_map>

#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

/// Immutable once an executor has it.
class KernelTable {
 public:
  /// The standard kernels.
  KernelTable();
  /// The plan of an operation; without a function where there is no kernel for these types. Operands and
  /// results of 16-bit types are widened around kernels that do not know them.
  Plan plan(const PlanRequest& request) const;
  bool supports(std::string_view name, DType dtype) const;

 private:
  std::unordered_map<std::string_view, KernelEntry> entries_;
};

}  // namespace tidu::cpu_detail
