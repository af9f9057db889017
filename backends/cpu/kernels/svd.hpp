// svd.hpp - the singular value decomposition of one matrix in double precision, by LAPACK if tidu was built
// with it, else by Jacobi rotations.
#pragma once

#include <complex>
#include <cstdint>

namespace tidu::cpu_detail {

/// The outcome of an attempt: `done` if the library reports success, `failed` if it reports a failure, `none`
/// if there is no such method.
enum class Attempt : std::uint8_t { done, failed, none };

/// Decomposes the m x n matrix X into U diag(s) Vh with k = min(m, n) singular values in descending order. X
/// is row-major at `x`, finite, and overwritten; U [m, k] and Vh [k, n] are row-major. `attempt` numbers the
/// methods from 0: LAPACK's divide and conquer (gesdd) and QR iteration (gesvd), or rotations alone. The
/// caller must check the factors, since libraries do not report every failure. Throws std::bad_alloc.
[[nodiscard]] Attempt decompose_singular(int attempt, double* x, double* u, double* s, double* vh,
                                         std::int64_t m, std::int64_t n);
[[nodiscard]] Attempt decompose_singular(int attempt, std::complex<double>* x, std::complex<double>* u,
                                         double* s, std::complex<double>* vh, std::int64_t m, std::int64_t n);

/// Approximate number of elements of the matrix' type in an attempt's own memory.
[[nodiscard]] double singular_workspace(double m, double n) noexcept;

}  // namespace tidu::cpu_detail
