// copying.hpp - copies operations of a graph into a builder, with their roles, source locations and origins.
#pragma once

#include <cstdint>
#include <vector>

#include "tidu/graph/builder.hpp"

namespace tidu::detail {

/// Copies operations of a graph, in their order. Result types are known, so nothing is inferred again.
class OperationCopier {
 public:
  /// `values` maps each value of `graph` to its copy in `builder`, and is extended.
  OperationCopier(GraphBuilder& builder, const Graph& graph, std::vector<Value>& values);
  void copy(std::uint32_t index);
  /// Emits `op` for an operation: on those operands and with those results only.
  void replace(std::uint32_t index, const Op& op, const std::vector<bool>& operands,
               const std::vector<bool>& results);
  /// Emits `op` for an operation, with `operand`, which is not linear, inserted before its operand `at`.
  void extend(std::uint32_t index, const Op& op, std::size_t at, Value operand);

 private:
  /// The copy of an operand; throws for one that was not given.
  ValueId operand(std::uint32_t index, std::size_t k) const;
  GraphBuilder::Extra extra(const Operation& operation, const std::vector<bool>* operands);

  GraphBuilder& builder_;
  const Graph& graph_;
  std::vector<Value>& values_;
  bool same_set_;
  std::vector<ValueId> ids_;
  std::vector<std::uint32_t> wheres_;  // by index of a source location: the builder's
  std::vector<std::uint32_t> moved_;   // by operation: the builder's; empty where none has an origin
};

}  // namespace tidu::detail
