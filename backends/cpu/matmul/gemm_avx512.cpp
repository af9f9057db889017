// The matmuls' kernels for AVX-512 (F, DQ, VL, and from clang BW) with FMA: see gemm_kernels.hpp.
#define TIDU_GEMM_ISA avx512
#if defined(__AVX512F__)
#include "cpu/matmul/gemm_functions.hpp"

namespace tidu::cpu_detail::avx512 {

constinit const GemmFunctions functions[6] = {
    functions_of<float, false>(), functions_of<double, false>(),        functions_of<float, true>(),
    functions_of<double, true>(), functions_of<std::uint32_t, false>(), functions_of<std::uint64_t, false>()};

}  // namespace tidu::cpu_detail::avx512
#else
#include "cpu/matmul/gemm.hpp"

namespace tidu::cpu_detail::avx512 {

extern const GemmFunctions functions[6];
constinit const GemmFunctions functions[6] = {};

}  // namespace tidu::cpu_detail::avx512
#endif
