// multiplications.hpp - the work of a matmul or another contraction, as a number of multiplications.
#pragma once

#include <span>

#include "tidu/graph/factors.hpp"

namespace tidu::passes {

/// The product of the extents of the operation's factors. The primitive must have factors.
inline double multiplications(const Op& op, std::span<const Type> operands, Type result) {
  Factors factors;
  factors.begin(op, operands, result);
  op.primitive().factors(factors);
  double count = 1;
  for (std::size_t f = 0; f < factors.size(); ++f) count *= static_cast<double>(factors.extent(f));
  return count;
}

}  // namespace tidu::passes
