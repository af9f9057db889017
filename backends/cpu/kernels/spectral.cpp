// spectral.cpp - eigh by Eigen, QR iteration on the tridiagonal matrix, or by the svd of a shifted matrix
// (hermitian_svd.hpp) where that fails, and svd by a library (svd.hpp). A matrix that is not finite, or that
// does not converge, gives NaN.
//
// Note [A library's svd]: divide and conquer reports success with factors that are not orthonormal, or whose
// product is another matrix (Eigen 3.4 does so for many block-diagonal matrices). So both are checked for
// each matrix, and what fails is decomposed by another method. The check takes about a tenth of the
// decomposition's time.
//
// Note [A library's eigh]: Eigen 3.4 does not converge for some matrices of low rank, since it compares what
// is beside the diagonal with its neighbours on it, where all of these are rounding. Each result is checked
// with one vector z, x z = V diag(w) V^H z and z = V V^H z, which costs four products of a matrix and a
// vector.
#include <Eigen/Eigenvalues>
#include <limits>

#include "cpu/kernels/eigen_matrices.hpp"
#include "cpu/kernels/hermitian_svd.hpp"
#include "cpu/kernels/matrices.hpp"
#include "cpu/kernels/svd.hpp"

namespace tidu::cpu_detail {
namespace {

void fill_with_nan(double* at, std::int64_t count) {
  std::fill_n(at, count, std::numeric_limits<double>::quiet_NaN());
}
void fill_with_nan(std::complex<double>* at, std::int64_t count) {
  fill_with_nan(reinterpret_cast<double*>(at), 2 * count);
}

// The power of two by which the largest element is divided, to lie in [1, 2): so no square of an element
// leaves the range of double, in the library or in the check.
double scale_of(double largest) { return largest > 0 ? std::ldexp(1.0, std::ilogb(largest)) : 1.0; }

// Is x z = V diag(w) V^H z and z = V V^H z, to rounding, for one z? Not where an element is NaN.
template <class W, class Vectors, class Values>
bool is_spectrum(const RowMatrix<W>& x, const Vectors& v, const Values& w) {
  constexpr double tolerance = 1e-13;
  const Eigen::Index n = x.rows();
  Eigen::Matrix<W, Eigen::Dynamic, 1> z(n);
  for (Eigen::Index i = 0; i < n; ++i)
    z(i) = W(1.0 + 0.5 * static_cast<double>(i * i % 7) - static_cast<double>(i % 5));
  const double bound = tolerance * static_cast<double>(std::max<Eigen::Index>(n, 10)) * z.norm();
  const Eigen::Matrix<W, Eigen::Dynamic, 1> along = v.adjoint() * z;
  const double size = n == 0 ? 0 : w.cwiseAbs().maxCoeff(), scale = size > 0 ? size : 1;
  const auto weights = (w / scale).template cast<W>();
  return ((v * along - z).norm() <= bound) &&
         ((v * weights.cwiseProduct(along) - x * (z / scale)).norm() <= bound);
}

// The spectrum of a finite matrix whose largest element is about 1.
template <class W>
bool find_spectrum(const RowMatrix<W>& x, Spectrum<W>& to) {
  const Eigen::SelfAdjointEigenSolver<ColumnMatrix<W>> solver(x);
  if (solver.info() == Eigen::Success) {
    to = {solver.eigenvectors(), solver.eigenvalues()};
    if (is_spectrum<W>(x, to.vectors, to.values)) return true;
  }
  for (int attempt = 0;; ++attempt) {
    const Attempt outcome = spectrum_by_svd<W>(attempt, x, to);
    if (outcome == Attempt::none) return false;
    if (outcome == Attempt::done && is_spectrum<W>(x, to.vectors, to.values)) return true;
  }
}

template <class W>
void decompose_hermitian(const W* from, W* to_vectors, double* to_values, std::int64_t n) {
  RowMatrix<W> x(n, n);
  take_hermitian<W>(MatrixIn<W>(from, n, n), x);
  if (x.allFinite()) {
    const double scale = scale_of(x.cwiseAbs().maxCoeff());
    x = (x / scale).eval();
    Spectrum<W> found;
    if (find_spectrum<W>(x, found)) {
      MatrixOut<W>(to_vectors, n, n) = found.vectors;
      for (std::int64_t i = 0; i < n; ++i) to_values[i] = found.values(i) * scale;
      return;
    }
  }
  fill_with_nan(to_vectors, n * n);
  fill_with_nan(to_values, n);
}

template <class T>
struct Eigh {
  static MatrixMemory memory(const Matrices& x) {
    const auto size = static_cast<double>(x.size());
    return {4 * size, 2 * size};
  }
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t n = s.x.rows, size = s.x.size();
    for_each_matrix(s.threads, n == 0 ? 0 : s.x.count, 9 * cubed(s.x), [&](std::int64_t b) {
      const Source<T> x(call.operand<T>(0) + b * size, size);
      const Sink<T> vectors(call.result<T>(0) + b * size, size);
      const Sink<RealOf<T>> values(call.result<RealOf<T>>(1) + b * n, n);
      decompose_hermitian<Wide<T>>(x.data(), vectors.data(), values.data(), n);
    });
  }
};

// Is every element of a difference within the rounding of sums of n terms whose sizes are about 1? Not where
// one is NaN.
template <class Difference>
bool is_rounding(const Difference& difference, std::int64_t n) {
  constexpr double tolerance = 1e-13;
  const double bound = tolerance * static_cast<double>(std::max<std::int64_t>(n, 10));
  return difference.size() == 0 || (difference.cwiseAbs().array() <= bound).all();
}

// Are the factors orthonormal, and is U diag(s) V^H = x?
template <class W>
bool is_decomposed(const ColumnMatrix<W>& x, const ColumnMatrix<W>& u, const double* s,
                   const ColumnMatrix<W>& v) {
  const Eigen::Index k = u.cols(), n = std::max(x.rows(), x.cols());
  const auto identity = ColumnMatrix<W>::Identity(k, k);
  if (!is_rounding(ColumnMatrix<W>(u.adjoint() * u - identity), n)) return false;
  if (!is_rounding(ColumnMatrix<W>(v.adjoint() * v - identity), n)) return false;
  ColumnMatrix<W> scaled = u;
  for (Eigen::Index i = 0; i < k; ++i) scaled.col(i) *= s[i];
  const double size = k == 0 ? 1 : std::max(1.0, s[0]);
  return is_rounding(ColumnMatrix<W>((scaled * v.adjoint() - x) / size), n);
}

template <class W>
void decompose(const W* from, W* to_u, double* to_s, W* to_vh, const Matrices& of) {
  const std::int64_t m = of.rows, n = of.columns, k = of.smaller();
  const MatrixIn<W> given(from, m, n);
  if (given.allFinite()) {
    const double scale = scale_of(given.cwiseAbs().maxCoeff());
    const ColumnMatrix<W> x = given / scale;
    for (int attempt = 0;; ++attempt) {
      RowMatrix<W> memory = x;
      const Attempt outcome = decompose_singular(attempt, memory.data(), to_u, to_s, to_vh, m, n);
      if (outcome == Attempt::none) break;
      if (outcome == Attempt::failed ||
          !is_decomposed<W>(x, MatrixOut<W>(to_u, m, k), to_s, MatrixOut<W>(to_vh, k, n).adjoint()))
        continue;
      for (std::int64_t i = 0; i < k; ++i) to_s[i] *= scale;
      return;
    }
  }
  fill_with_nan(to_u, m * k);
  fill_with_nan(to_s, k);
  fill_with_nan(to_vh, k * n);
}

template <class T>
struct Svd {
  static MatrixMemory memory(const Matrices& x) {
    const auto m = static_cast<double>(x.rows), n = static_cast<double>(x.columns),
               k = static_cast<double>(x.smaller());
    return {singular_workspace(m, n) + 3 * m * n + 3 * m * k + 2 * n * k + 2 * k * k, m * n + m * k + k * n,
            5 * k * k + 5 * k + 2 * std::max(m, n) * k};
  }
  static void run(const MatrixState& s, const Call& call) {
    const std::int64_t m = s.x.rows, n = s.x.columns, k = s.x.smaller();
    for_each_matrix(s.threads, k == 0 ? 0 : s.x.count, 20 * cubed(s.x), [&](std::int64_t b) {
      const Source<T> x(call.operand<T>(0) + b * m * n, m * n);
      const Sink<T> u(call.result<T>(0) + b * m * k, m * k), vh(call.result<T>(2) + b * k * n, k * n);
      const Sink<RealOf<T>> values(call.result<RealOf<T>>(1) + b * k, k);
      decompose<Wide<T>>(x.data(), u.data(), values.data(), vh.data(), s.x);
    });
  }
};

constexpr KernelEntry spectral_entries[] = {{"eigh", plan_matrices<Eigh>, floats | complexes},
                                            {"svd", plan_matrices<Svd>, floats | complexes}};

}  // namespace

std::span<const KernelEntry> spectral_kernels() { return spectral_entries; }

}  // namespace tidu::cpu_detail
