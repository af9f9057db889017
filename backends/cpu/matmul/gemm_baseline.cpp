// The matmuls' kernels for the instruction set that the whole library is built for: see gemm_kernels.hpp.
#define TIDU_GEMM_ISA baseline
#include "cpu/matmul/gemm_functions.hpp"

namespace tidu::cpu_detail::baseline {

constinit const GemmFunctions functions[6] = {
    functions_of<float, false>(), functions_of<double, false>(),        functions_of<float, true>(),
    functions_of<double, true>(), functions_of<std::uint32_t, false>(), functions_of<std::uint64_t, false>()};

}  // namespace tidu::cpu_detail::baseline
