// kernel_table.hpp - KernelTable: the planning rule of each primitive, and custom kernels by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cpu/kernel.hpp"
#include "tidu/tensor/kernel.hpp"

namespace tidu::cpu_detail {

/// An executor's table is immutable.
class KernelTable : public std::enable_shared_from_this<KernelTable> {
 public:
  /// The standard kernels.
  KernelTable();
  /// The plan of an operation; its `run` is null if there is no kernel for these types. If a kernel does not
  /// support 16-bit types, the plan widens operands to f32 and rounds results.
  Plan plan(const PlanRequest& request) const;
  /// A plan that adds to the present contents of the result; its `run` is null if no kernel supports that.
  Plan plan_adding(PlanRequest request) const;
  /// A copy of this table with a kernel for the named primitive; it replaces any earlier one.
  std::shared_ptr<const KernelTable> with(std::string_view primitive, Kernel kernel,
                                          tidu::DTypes supported) const;
  /// Does the table have custom kernels? They implement whole operations only.
  bool has_custom() const { return !custom_.empty(); }
  bool supports(std::string_view name, DType dtype) const;

 private:
  struct Custom {
    Kernel kernel;
    tidu::DTypes supported;
  };
  std::unordered_map<std::string_view, KernelEntry> entries_;
  std::unordered_map<std::string, Custom> custom_;  // custom kernels; they precede `entries_`
};

}  // namespace tidu::cpu_detail
