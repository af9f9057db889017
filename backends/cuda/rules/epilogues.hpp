// epilogues.hpp - additions of a vector to a matmul that the matmul's own library makes as it writes.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "cuda/fuse.hpp"

namespace tidu::cuda_detail {

/// A matmul with a vector added to each of its rows, as one plan.
struct BiasedMatmul {
  std::uint32_t matmul = 0;  ///< operation that makes the matmul, which nothing but the addition reads
  ValueId bias{};            ///< the vector, in memory
  Plan plan;                 ///< operands: the matmul's, then the bias; result: that of the addition
};

/// By addition: the matmuls of the graph that take it. `needed` tells which operations count as readers,
/// `roots` whose memory a value shares (passes::alias_roots). Those of f32, f16 and bf16, of which no batch
/// is asked: the sum is rounded once, in 16 bits too. What else may follow a matmul stays in kernels; relu
/// does because the library does not say that it keeps not-a-numbers, which max(x, 0) does.
std::map<std::uint32_t, BiasedMatmul> find_biased_matmuls(const Graph& graph, std::span<const ValueId> roots,
                                                          const std::vector<bool>& needed,
                                                          const NodeOptions& options);

}  // namespace tidu::cuda_detail
