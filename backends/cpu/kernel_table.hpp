// kernel_table.hpp - which rule plans the operations of which primitive.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cpu/kernel.hpp"
#include "tidu/tensor/kernel.hpp"

namespace tidu::cpu_detail {

/// Immutable once an executor has it.
class KernelTable : public std::enable_shared_from_this<KernelTable> {
 public:
  /// The standard kernels.
  KernelTable();
  /// The plan of an operation; without a function where there is no kernel for these types. Operands and
  /// results of 16-bit types are widened around kernels that do not know them.
  Plan plan(const PlanRequest& request) const;
  /// Likewise of an operation whose result is added to what is there; without a function where no kernel does
  /// that.
  Plan plan_adding(PlanRequest request) const;
  /// This table and a kernel for the primitive of that name, in the place of one that was there.
  std::shared_ptr<const KernelTable> with(std::string_view primitive, Kernel kernel,
                                          tidu::DTypes supported) const;
  /// Are there kernels of other projects? They know whole operations alone.
  bool has_foreign() const { return !foreign_.empty(); }
  bool supports(std::string_view name, DType dtype) const;

 private:
  struct Foreign {
    Kernel kernel;
    tidu::DTypes supported;
  };
  std::unordered_map<std::string_view, KernelEntry> entries_;
  std::unordered_map<std::string, Foreign> foreign_;  // kernels of other projects; they come first
};

}  // namespace tidu::cpu_detail
