// kernels.hpp - the table of the standard kernels: one function per family gives its rows.
#pragma once

#include <string_view>
#include <vector>

#include "tidu/reference/executor.hpp"

namespace tidu::ref {

struct NamedKernel {
  std::string_view primitive;
  DTypes supported;
  Kernel kernel;
};

std::vector<NamedKernel> constant_kernels();
std::vector<NamedKernel> unary_kernels();
std::vector<NamedKernel> binary_kernels();  // and comparisons, ternary
std::vector<NamedKernel> shape_kernels();
std::vector<NamedKernel> dynamic_kernels();
std::vector<NamedKernel> indexing_kernels();
std::vector<NamedKernel> reduction_kernels();
std::vector<NamedKernel> cumulative_kernels();
std::vector<NamedKernel> sorting_kernels();
std::vector<NamedKernel> product_kernels();  // and calls
std::vector<NamedKernel> control_flow_kernels();
std::vector<NamedKernel> random_kernels();
std::vector<NamedKernel> window_kernels();  // and convolution
std::vector<NamedKernel> linalg_kernels();
std::vector<NamedKernel> collective_kernels();

}  // namespace tidu::ref
