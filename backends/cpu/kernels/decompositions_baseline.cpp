// Decompositions for any CPU of this architecture: see decompositions.hpp.
#define TIDU_DECOMPOSITIONS_ISA baseline
#include "cpu/kernels/decompositions_functions.hpp"

namespace tidu::cpu_detail::baseline {

constinit const AllDecompositions all{decompositions_of<double>(), decompositions_of<std::complex<double>>()};

}  // namespace tidu::cpu_detail::baseline
