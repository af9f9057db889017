// product_places.hpp - products that read operands where others would have moved them from, and write to
// where others would move the result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

/// Where the elements of an array are: the first one, and of each axis how far the next one is.
struct StridedElements {
  std::int64_t first = 0;
  std::vector<std::int64_t> strides;
};

struct MatmulOperands {
  std::array<StridedElements, 2> operands;
  StridedElements result;
  bool into_operand = false;  ///< the result is written to the third operand
  bool add_zero = false;      ///< 0.0 is added to the result
};

/// The product of two arrays that sums over one axis of each. None where an array does not lie as one or two
/// batches of matrices, or where rows of a matrix are far apart. In product.cpp.
Plan plan_placed_product(const PlanRequest& request, const MatmulOperands& places);

}  // namespace tidu::cpu_detail
