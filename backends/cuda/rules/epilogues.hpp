// epilogues.hpp - additions of a vector to a product that the product's own library makes as it writes.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "cuda/fuse.hpp"

namespace tidu::cuda_detail {

/// A product with a vector added to each of its rows, as one plan.
struct BiasedProduct {
  std::uint32_t product = 0;  ///< operation that makes the product, which nothing but the addition reads
  ValueId bias{};             ///< the vector, in memory
  Plan plan;                  ///< operands: the product's, then the bias; result: that of the addition
};

/// By addition: the products of the graph that take it. `needed` tells which operations count as readers,
/// `roots` whose memory a value shares (passes::storage_roots). Those of f32, f16 and bf16, of which no batch
/// is asked: the sum is rounded once, in 16 bits too. What else may follow a product stays in kernels; relu
/// does because the library does not say that it keeps not-a-numbers, which max(x, 0) does.
std::map<std::uint32_t, BiasedProduct> find_biased_products(const Graph& graph,
                                                            std::span<const ValueId> roots,
                                                            const std::vector<bool>& needed,
                                                            const NodeOptions& options);

}  // namespace tidu::cuda_detail
