// operation_hash.hpp - the hash by which equal operations are found.
#pragma once

#include <cstdint>
#include <span>

#include "tidu/graph/graph.hpp"

namespace tidu::detail {

/// A hash of an op and its operands; equal operations have the same.
inline std::uint64_t hash_operation(const OpRecord* op, std::span<const ValueId> operands) {
  std::uint64_t hash = op->key.low;
  for (const ValueId id : operands) hash = fold(hash ^ id, 0x9fb21c651e98df25ULL);
  return hash;
}

}  // namespace tidu::detail
