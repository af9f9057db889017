// multiplications.hpp - how much work a product is.
#pragma once

#include <span>

#include "tidu/graph/factors.hpp"

namespace tidu::passes {

/// Multiplications of a product whose primitive has factors: one for each point of all of them together.
inline double multiplications(const Op& op, std::span<const Type> operands, Type result) {
  Factors factors;
  factors.begin(op, operands, result);
  op.primitive().factors(factors);
  double count = 1;
  for (std::size_t f = 0; f < factors.size(); ++f) count *= static_cast<double>(factors.extent(f));
  return count;
}

}  // namespace tidu::passes
