// The products' kernels for the instruction set that the whole library is built for: see gemm_kernels.hpp.
#define TIDU_GEMM_ISA baseline
#include "cpu/gemm_kernels.hpp"

namespace tidu::cpu_detail::baseline {

const GemmKernel kernels[6] = {Product<float, false>::run,         Product<double, false>::run,
                               Product<float, true>::run,          Product<double, true>::run,
                               Product<std::uint32_t, false>::run, Product<std::uint64_t, false>::run};
const GemmPack packs[6] = {Product<float, false>::pack,         Product<double, false>::pack,
                           Product<float, true>::pack,          Product<double, true>::pack,
                           Product<std::uint32_t, false>::pack, Product<std::uint64_t, false>::pack};

}  // namespace tidu::cpu_detail::baseline
