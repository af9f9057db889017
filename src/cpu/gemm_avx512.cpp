// The products' kernels for AVX-512 (F, DQ, BW, VL) with FMA: see gemm_kernels.hpp.
#define TIDU_GEMM_ISA avx512
#if defined(__AVX512F__)
#include "cpu/gemm_kernels.hpp"

namespace tidu::cpu_detail::avx512 {

const GemmKernel kernels[6] = {Product<float, false>::run,         Product<double, false>::run,
                               Product<float, true>::run,          Product<double, true>::run,
                               Product<std::uint32_t, false>::run, Product<std::uint64_t, false>::run};
const GemmPack packs[6] = {Product<float, false>::pack,         Product<double, false>::pack,
                           Product<float, true>::pack,          Product<double, true>::pack,
                           Product<std::uint32_t, false>::pack, Product<std::uint64_t, false>::pack};

}  // namespace tidu::cpu_detail::avx512
#else
#include "cpu/gemm.hpp"

namespace tidu::cpu_detail::avx512 {

extern const GemmKernel kernels[6];
extern const GemmPack packs[6];
const GemmKernel kernels[6] = {};
const GemmPack packs[6] = {};

}  // namespace tidu::cpu_detail::avx512
#endif
