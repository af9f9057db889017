// rules.cpp - the list of all tables of rules, and finding in it.
#include "cuda/rules.hpp"

#include <algorithm>
#include <vector>

#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/library_rules.hpp"

namespace tidu::cuda_detail {

namespace {

// Sorted by name.
std::vector<RuleEntry> all_rules() {
  std::vector<RuleEntry> all;
  const RuleTable tables[] = {expression_rules(),    layout_rules(),   reduction_rules(),   scan_rules(),
                              scatter_rules(),       matmul_rules(),   convolution_rules(), sorting_rules(),
                              factorization_rules(), spectral_rules(), collective_rules()};
  for (const RuleTable& table : tables) all.insert(all.end(), table.begin(), table.end());
  std::sort(all.begin(), all.end(),
            [](const RuleEntry& a, const RuleEntry& b) { return a.primitive < b.primitive; });
  return all;
}

}  // namespace

const RuleEntry* find_rule(std::string_view primitive) {
  static const std::vector<RuleEntry> rules = all_rules();
  const auto at =
      std::lower_bound(rules.begin(), rules.end(), primitive,
                       [](const RuleEntry& entry, std::string_view name) { return entry.primitive < name; });
  return at != rules.end() && at->primitive == primitive ? &*at : nullptr;
}

Plan plan_operation(const PlanRequest& request) {
  const RuleEntry* const entry = find_rule(request.op.name());
  if (entry == nullptr) return {};
  const bool nothing =
      std::all_of(request.out.begin(), request.out.end(), [](Type type) { return type.size() == 0; });
  if (!nothing) return entry->rule(request);
  Plan plan;
  plan.supported = true;
  return plan;
}

}  // namespace tidu::cuda_detail
