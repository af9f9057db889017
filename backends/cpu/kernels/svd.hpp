// svd.hpp - the singular value decomposition of one matrix in double precision: by LAPACK where tidu was
// built with it, else by Jacobi rotations.
#pragma once

#include <complex>
#include <cstdint>

namespace tidu::cpu_detail {

/// What became of an attempt: `done` if the library reports success, `failed` if it does not, `none` if there
/// are no more methods.
enum class Attempt : std::uint8_t { done, failed, none };

/// Decomposes the m x n matrix X, row by row at `x`, finite and written over, into U diag(s) Vh with k =
/// min(m, n) singular values in descending order; U [m, k] and Vh [k, n] are row by row. `attempt` counts
/// methods from 0: LAPACK's divide and conquer (gesdd) and QR iteration (gesvd), or rotations alone. The
/// caller checks the factors, since libraries do not report every failure. Throws std::bad_alloc.
[[nodiscard]] Attempt decompose_singular(int attempt, double* x, double* u, double* s, double* vh,
                                         std::int64_t m, std::int64_t n);
[[nodiscard]] Attempt decompose_singular(int attempt, std::complex<double>* x, std::complex<double>* u,
                                         double* s, std::complex<double>* vh, std::int64_t m, std::int64_t n);

/// About how many elements of the matrix' type an attempt has in memory of its own.
[[nodiscard]] double singular_workspace(double m, double n) noexcept;

}  // namespace tidu::cpu_detail
