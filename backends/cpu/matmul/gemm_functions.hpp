// gemm_functions.hpp - the table of GEMM kernels of one instruction set. Only gemm_avx512.cpp, gemm_avx2.cpp
// and gemm_baseline.cpp include it: see gemm_kernels.hpp.
#pragma once

#include "cpu/matmul/gemm_kernels.hpp"
#include "cpu/matmul/gemm_ready.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

template <class T, bool Complex, int N>
constexpr GemmKernel narrow_function() {
  if constexpr (!Complex && 2 * N <= kLanes<T>) {
    return Matmul<T, Complex>::template run_narrow<N>;
  } else {
    return nullptr;
  }
}

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
  return {
      Matmul<T, Complex>::run,
      ReadyMatmul<T, Complex>::make,
      PanelsOfB<T, Complex>::pack,
      {narrow_function<T, Complex, 2>(), narrow_function<T, Complex, 4>(), narrow_function<T, Complex, 8>()},
      {update_function<T, Complex, AOrder::rows>(), update_function<T, Complex, AOrder::columns>()},
      kPacksCrowded};
}

extern const GemmFunctions functions[6];  // by GemmType

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
