// decompositions.hpp - decompositions of one row-major matrix, in f64 and c128, compiled for several
// instruction sets.
#pragma once

#include <complex>
#include <cstdint>

#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail {

/// The triangle a in a x = b, or in x a = b, which is solved as the transposed equation. x has `rows` rows
/// and `columns` columns. All fields except `left` refer to the equation from the left.
struct TriangleSolve {
  std::int64_t rows, columns;
  bool left, transposed, lower, conjugated, unit;
};

template <class W>
struct Decompositions {
  /// The lower Cholesky factor of half the sum of x and its adjoint; NaN in its triangle if that matrix is
  /// not positive definite.
  void (*cholesky)(const W* x, W* l, std::int64_t n);
  void (*solve_triangle)(const TriangleSolve& s, const W* a, const W* b, W* x);
  /// Both factors of an m x n matrix in one matrix, and the row that each step exchanged with its own.
  void (*lu)(const W* x, W* factors, std::int32_t* pivots, std::int64_t m, std::int64_t n);
  /// q has as many columns as r has rows: the smaller extent.
  void (*qr)(const W* x, W* q, W* r, std::int64_t m, std::int64_t n);
};

/// The functions for the best instruction set of this CPU, at most `limit`: AVX2 (AVX-512 gains nothing in
/// Eigen) or the baseline. W is double or std::complex<double>.
template <class W>
const Decompositions<W>& decompositions(InstructionSet limit = InstructionSet::avx2);

/// The functions of one instruction set.
struct AllDecompositions {
  Decompositions<double> real;
  Decompositions<std::complex<double>> complex;
};

}  // namespace tidu::cpu_detail
