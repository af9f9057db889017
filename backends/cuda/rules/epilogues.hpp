// epilogues.hpp - epilogues of matmuls: additions of a vector that the library does as it writes the matmul.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "cuda/fuse.hpp"

namespace tidu::cuda_detail {

/// A matmul with a vector added to each of its rows, as one plan.
struct BiasedMatmul {
  std::uint32_t matmul = 0;  ///< the operation, which only the addition reads
  ValueId bias{};            ///< the vector, in memory
  Plan plan;                 ///< operands: the matmul's, then the bias; result: that of the addition
};

/// By addition: the matmuls of the graph that absorb it. `needed`: which operations count as readers;
/// `roots`: see passes::alias_roots. Only matmuls of f32, f16 and bf16 without a batch absorb an addition,
/// and the sum is rounded once, in 16 bits too. Other operations after a matmul stay in kernels. So does
/// relu, since the library does not promise to keep NaN, as max(x, 0) does.
std::map<std::uint32_t, BiasedMatmul> find_biased_matmuls(const Graph& graph, std::span<const ValueId> roots,
                                                          const std::vector<bool>& needed,
                                                          const NodeOptions& options);

}  // namespace tidu::cuda_detail
