// gemm_functions.hpp - the table of GEMM kernels of one instruction set. Only gemm_avx512.cpp, gemm_avx2.cpp
// and gemm_baseline.cpp include it: see gemm_kernels.hpp.
#pragma once

#include "cpu/matmul/gemm_kernels.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

template <class T, bool Complex, AOrder Order>
constexpr GemmUpdates update_function() {
  if constexpr (!Complex && static_cast<T>(0.5) != static_cast<T>(0)) {  // not for integers
    return update_rows<T, Order>;
  } else {
    return nullptr;
  }
}

template <class T, bool Complex>
constexpr GemmFunctions functions_of() {
  return {Matmul<T, Complex>::run,
          PanelsOfB<T, Complex>::pack,
          {update_function<T, Complex, AOrder::rows>(), update_function<T, Complex, AOrder::columns>()},
          kPacksCrowded};
}

extern const GemmFunctions functions[6];  // by GemmType

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
