// gemm_eigen.cpp - Eigen's matmul, compiled for the machine at hand (bench/CMakeLists.txt) and under a
// separate name, so that none of these templates is used by code built with other flags.
#define Eigen EigenForThisMachine
#include "gemm_eigen.hpp"

#include <Eigen/Core>
#include <complex>

namespace tidu::bench {

namespace {

template <class T>
void matmul(const cpu_detail::GemmCall& g, const void* a, const void* b, void* c) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Input = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
  const Input left(static_cast<const T*>(a), g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k,
                   Eigen::OuterStride<>(g.lda));
  const Input right(static_cast<const T*>(b), g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n,
                    Eigen::OuterStride<>(g.ldb));
  Eigen::Map<Matrix, 0, Eigen::OuterStride<>> out(static_cast<T*>(c), g.m, g.n, Eigen::OuterStride<>(g.ldc));
  if (g.trans_a && g.trans_b) {
    out.noalias() = left.transpose() * right.transpose();
  } else if (g.trans_a) {
    out.noalias() = left.transpose() * right;
  } else if (g.trans_b) {
    out.noalias() = left * right.transpose();
  } else {
    out.noalias() = left * right;
  }
}

}  // namespace

void eigen_matmul(const cpu_detail::GemmCall& g, const void* a, const void* b, void* c) {
  using cpu_detail::GemmType;
  switch (g.type) {
    case GemmType::f32: return matmul<float>(g, a, b, c);
    case GemmType::f64: return matmul<double>(g, a, b, c);
    case GemmType::c64: return matmul<std::complex<float>>(g, a, b, c);
    case GemmType::c128: return matmul<std::complex<double>>(g, a, b, c);
    case GemmType::i32: return matmul<std::int32_t>(g, a, b, c);
    case GemmType::i64: return matmul<std::int64_t>(g, a, b, c);
  }
}

void eigen_threads(int threads) { Eigen::setNbThreads(threads); }

}  // namespace tidu::bench
