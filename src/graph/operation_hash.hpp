// operation_hash.hpp - what operations are looked up by that are equal.
#pragma once

#include <cstdint>
#include <span>

#include "tidu/graph/graph.hpp"

namespace tidu::detail {

/// Of an op and its operands, which operations that are equal have in common.
inline std::uint64_t hash_operation(const OpRecord* op, std::span<const ValueId> operands) {
  std::uint64_t hash = op->key.low;
  for (const ValueId id : operands) hash = fold(hash ^ id, 0x9fb21c651e98df25ULL);
  return hash;
}

}  // namespace tidu::detail
