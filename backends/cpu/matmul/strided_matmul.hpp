// strided_matmul.hpp - matmuls with strided operands and results: the layout operations before and after them
// are elided (see steps/copy_elision.cpp).
#pragma once

#include <array>

#include "cpu/access_map.hpp"
#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

/// The operands and the result as strided views, with the axes of the matmul's operands and result.
struct MatmulOperands {
  std::array<AccessMap, 2> operands;
  AccessMap result;
  bool into_operand = false;  ///< the third operand is the memory of the result
  bool add_zero = false;      ///< add 0.0 to the result
};

/// Plans a matmul of two arrays that contracts one axis of each. Returns a plan without `run` if a view is
/// not one or two batches of matrices, or if rows of a matrix are not contiguous enough. In matmul.cpp.
Plan plan_strided_matmul(const PlanRequest& request, const MatmulOperands& views);

}  // namespace tidu::cpu_detail
