// library_rules.hpp - rules whose plans call libraries, by family.
#pragma once

#include "cuda/rules.hpp"

namespace tidu::cuda_detail {

RuleTable matmul_rules();
RuleTable convolution_rules();
RuleTable sorting_rules();
RuleTable factorization_rules();
RuleTable spectral_rules();
RuleTable collective_rules();

/// A batch of matmuls with operands in place: strides in elements between matrices, rows and columns of A (m
/// × k), B (k × n) and the result, whose columns are adjacent.
struct Matmuls {
  DType dtype = DType::f32;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t a_matrix = 0, a_row = 0, a_column = 0;
  std::int64_t b_matrix = 0, b_row = 0, b_column = 0;
  std::int64_t out_matrix = 0, out_row = 0;
  BufferRef a, b, out;
};
/// Can a library read an operand of these strides and extents in place? Either rows or columns have
/// elements next to each other.
bool lies_as_matrix(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column);
/// The kernel that does a step whose dtype or shape the library has no algorithm for, a thread for each
/// element.
Launch own_matmul(const GemmStep& step, int multiprocessors);
/// Adds the matmuls: a GemmStep, or a kernel for integers.
void append_matmuls(Plan& plan, const Matmuls& matmuls, const PlanRequest& like);

/// Adds the convolution as a step of cuDNN's, if it is one: one that a layer has, or its gradients. False,
/// and nothing, where it is another.
bool append_library_convolution(Plan& plan, const PlanRequest& request);

}  // namespace tidu::cuda_detail
