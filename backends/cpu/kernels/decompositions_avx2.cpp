// Decompositions for AVX2 with FMA: see decompositions.hpp.
#define TIDU_DECOMPOSITIONS_ISA avx2
#if defined(__AVX2__)
#include "cpu/kernels/decompositions_functions.hpp"

namespace tidu::cpu_detail::avx2 {

constinit const AllDecompositions all{decompositions_of<double>(), decompositions_of<std::complex<double>>()};

}  // namespace tidu::cpu_detail::avx2
#else
#include "cpu/kernels/decompositions.hpp"

namespace tidu::cpu_detail::avx2 {

extern const AllDecompositions all;
constinit const AllDecompositions all{};

}  // namespace tidu::cpu_detail::avx2
#endif
