// expressions.cpp - which operations are written as expressions.
#include <unordered_map>

#include "cuda/kernels/body.hpp"

namespace tidu::cuda_detail {

ExpressionRule find_expression(std::string_view primitive) {
  static const std::unordered_map<std::string_view, ExpressionRule> rules = [] {
    std::unordered_map<std::string_view, ExpressionRule> all;
    for (const auto& family : {elementwise_expressions(), layout_expressions(), indexing_expressions()}) {
      for (const ExpressionEntry& entry : family) all.emplace(entry.name, entry.rule);
    }
    return all;
  }();
  const auto it = rules.find(primitive);
  return it != rules.end() ? it->second : nullptr;
}

bool is_expression(const Op& op) {
  if (find_expression(op.name()) == nullptr) return false;
  if (op.name() == "constant") return op.literal("value").type().size() == 1;
  if (op.name() == "polygamma") return op.integer("m") >= 0 && op.integer("m") <= 1000;
  return true;
}

}  // namespace tidu::cuda_detail
