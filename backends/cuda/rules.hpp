// rules.hpp - which rule plans which primitive. Each file of rules gives a table; all tables stand in one
// list in rules.cpp.
#pragma once

#include <span>
#include <string_view>

#include "cuda/plan.hpp"
#include "tidu/tensor/kernel.hpp"

namespace tidu::cuda_detail {

/// The rule for a primitive of that name, and the dtypes of data that it takes (see Executor::supports).
struct RuleEntry {
  std::string_view primitive;
  PlanRule rule = nullptr;
  DTypes dtypes;
};
using RuleTable = std::span<const RuleEntry>;

/// The entry for the primitive of that name, or null.
const RuleEntry* find_rule(std::string_view primitive);

/// How the operation runs; not `supported` where there is no rule, or the rule says so.
Plan plan_operation(const PlanRequest& request);

}  // namespace tidu::cuda_detail
