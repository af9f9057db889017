// spectral.cpp - eigh and svd over Eigen: QR iteration on the tridiagonal matrix, and divide and conquer on
// the bidiagonal one (Jacobi's method for small ones). What is not finite, or does not converge, gives NaN.
//
// Note [Divide and conquer]: Eigen 3.4's BDCSVD says that it succeeded where the vectors of many equal
// singular values are not orthogonal, or not finite: a matrix of 75 x 75 ones, a checkerboard of 42 x 39. Its
// result is looked at, which takes a tenth of its time, and such matrices are decomposed by Jacobi's method.
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <limits>

#include "cpu/kernels/eigen_matrices.hpp"
#include "cpu/kernels/matrices.hpp"

namespace tidu::cpu_detail {
namespace {

void fill_with_nan(double* at, std::int64_t count) {
  std::fill_n(at, count, std::numeric_limits<double>::quiet_NaN());
}
void fill_with_nan(std::complex<double>* at, std::int64_t count) {
  fill_with_nan(reinterpret_cast<double*>(at), 2 * count);
}

template <class W>
void decompose_hermitian(const W* from, W* to_vectors, double* to_values, std::int64_t n) {
  MatrixOut<W> vectors(to_vectors, n, n);
  take_hermitian<W>(MatrixIn<W>(from, n, n), vectors);
  if (vectors.allFinite()) {
    const Eigen::SelfAdjointEigenSolver<ColumnMatrix<W>> solver(vectors);
    if (solver.info() == Eigen::Success) {
      vectors = solver.eigenvectors();
      std::copy_n(solver.eigenvalues().data(), n, to_values);
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
    return {size, 2 * size};
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

// Are the columns orthonormal? Not where one is not finite.
template <class W>
bool are_orthonormal(const ColumnMatrix<W>& columns) {
  constexpr double tolerance = 1e-12;  // of each column, whose rounding is some 1e-14
  const Eigen::Index n = columns.cols();
  ColumnMatrix<W> products = columns.adjoint() * columns;
  products.diagonal().array() -= W(1);
  return n == 0 || products.cwiseAbs().maxCoeff() <= tolerance * static_cast<double>(n);
}

template <class W, class Solver>
bool is_decomposed(const Solver& solver) {
  return solver.info() == Eigen::Success && are_orthonormal<W>(solver.matrixU()) &&
         are_orthonormal<W>(solver.matrixV());
}

template <class W>
void decompose(const W* from, W* to_u, double* to_s, W* to_vh, const Matrices& of) {
  const std::int64_t m = of.rows, n = of.columns, k = of.smaller();
  const MatrixIn<W> x(from, m, n);
  const auto take = [&](const auto& solver) {
    if (!is_decomposed<W>(solver)) return false;
    MatrixOut<W>(to_u, m, k) = solver.matrixU();
    std::copy_n(solver.singularValues().data(), k, to_s);
    MatrixOut<W>(to_vh, k, n) = solver.matrixV().adjoint();
    return true;
  };
  if (x.allFinite()) {
    constexpr unsigned thin = Eigen::ComputeThinU | Eigen::ComputeThinV;
    if (take(Eigen::BDCSVD<ColumnMatrix<W>>(x, thin)) || take(Eigen::JacobiSVD<ColumnMatrix<W>>(x, thin)))
      return;
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
    return {2.5 * m * n + m * k + n * k + n * n, m * n + m * k + k * n, 6 * k * k};
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
