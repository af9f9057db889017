// Decompositions for AVX-512 with FMA: see decompositions.hpp.
#define TIDU_DECOMPOSITIONS_ISA avx512
#if defined(__AVX512F__)
#include "cpu/kernels/decompositions_functions.hpp"

namespace tidu::cpu_detail::avx512 {

constinit const AllDecompositions all{decompositions_of<double>(), decompositions_of<std::complex<double>>()};

}  // namespace tidu::cpu_detail::avx512
#else
#include "cpu/kernels/decompositions.hpp"

namespace tidu::cpu_detail::avx512 {

extern const AllDecompositions all;
constinit const AllDecompositions all{};

}  // namespace tidu::cpu_detail::avx512
#endif
