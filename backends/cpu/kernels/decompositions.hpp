// decompositions.hpp - decompositions of one matrix, which lies row by row, in f64 and c128, compiled for
// several instruction sets.
#pragma once

#include <complex>
#include <cstdint>

#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail {

/// The triangle a of a x = b, or of x a = b, which is solved as the transposed equation; x has so many rows
/// and columns. All but the first are of the equation from the left.
struct TriangleSolve {
  std::int64_t rows, columns;
  bool left, transposed, lower, conjugated, unit;
};

template <class W>
struct Decompositions {
  /// The lower factor of half the sum of x and its adjoint, NaN in its triangle where that is not positive
  /// definite.
  void (*cholesky)(const W* x, W* l, std::int64_t n);
  void (*solve_triangle)(const TriangleSolve& s, const W* a, const W* b, W* x);
  /// Both factors of an m x n matrix in one, and for each step the row that it exchanged with its own.
  void (*lu)(const W* x, W* factors, std::int32_t* pivots, std::int64_t m, std::int64_t n);
  /// With as many columns of q as rows of r, the smaller extent.
  void (*qr)(const W* x, W* q, W* r, std::int64_t m, std::int64_t n);
};

/// Those of the best instruction set that the CPU has, no better than `limit`: AVX2, for which AVX-512 gains
/// nothing in Eigen, or the baseline. Of double and std::complex<double>.
template <class W>
const Decompositions<W>& decompositions(InstructionSet limit = InstructionSet::avx2);

/// One instruction set's.
struct AllDecompositions {
  Decompositions<double> real;
  Decompositions<std::complex<double>> complex;
};

}  // namespace tidu::cpu_detail
