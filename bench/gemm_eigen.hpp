// gemm_eigen.hpp - Eigen's matmul as two functions, so that its templates stay in one file.
#pragma once

#include "cpu/matmul/gemm.hpp"

namespace tidu::bench {

void eigen_matmul(const cpu_detail::GemmCall& g, const void* a, const void* b, void* c);
void eigen_threads(int threads);

}  // namespace tidu::bench
