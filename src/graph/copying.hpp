// copying.hpp - operations of a graph written into a builder, with their roles, places and origins.
#pragma once

#include <cstdint>
#include <vector>

#include "tidu/graph/builder.hpp"

namespace tidu::detail {

/// Copies operations of a graph, in their order. Result types are known, so nothing is inferred again.
class OperationCopier {
 public:
  /// `values` has, by value of `graph`, what stands for it in `builder`, and is added to.
  OperationCopier(GraphBuilder& builder, const Graph& graph, std::vector<Value>& values);
  void copy(std::uint32_t index);
  /// `op` in the place of an operation: of those operands and results of it alone.
  void replace(std::uint32_t index, const Op& op, const std::vector<bool>& operands,
               const std::vector<bool>& results);
  /// `op` in the place of an operation, with `operand`, which is not linear, before its operand `at`.
  void extend(std::uint32_t index, const Op& op, std::size_t at, Value operand);

 private:
  /// What stands for an operand; refuses one that was not given.
  ValueId operand(std::uint32_t index, std::size_t k) const;
  GraphBuilder::Extra extra(const Operation& operation, const std::vector<bool>* operands);

  GraphBuilder& builder_;
  const Graph& graph_;
  std::vector<Value>& values_;
  bool same_set_;
  std::vector<ValueId> ids_;
  std::vector<std::uint32_t> wheres_;  // by place: the builder's
  std::vector<std::uint32_t> moved_;   // by operation: the builder's; empty where none has an origin
};

}  // namespace tidu::detail
