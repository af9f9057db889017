// cublas.cpp - the routines of cuBLAS that the solver needs, by BLAS and LAPACK.
#include "cuda/platform/libraries/solver.hpp"

using namespace tidu::test::platform;
namespace lapack = tidu::test::lapack;

namespace {

template <class T>
cublasStatus_t trsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                    cublasOperation_t operation, cublasDiagType_t diagonal, int m, int n, const T* alpha,
                    const T* a, int lda, T* b, int ldb) {
  const int order = side == CUBLAS_SIDE_LEFT ? m : n;
  const auto factor = *host(alpha);
  if (lda < order || ldb < m)
    return static_cast<cublasStatus_t>(refuse_call(CUBLAS_STATUS_INVALID_VALUE, "trsm: leading dimensions"));
  return static_cast<cublasStatus_t>(put_routine(
      handle, "trsm", {array(a, std::int64_t{lda} * order), array(b, std::int64_t{ldb} * n)},
      [=] {
        lapack::trsm(letter(side), letter(fill), letter(operation), letter(diagonal), m, n, factor, host(a),
                     lda, host(b), ldb);
      },
      CUBLAS_STATUS_EXECUTION_FAILED));
}

// Addresses of matrices lie on the device, and are read there.
template <class T>
cublasStatus_t trsm_batched(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                            cublasOperation_t operation, cublasDiagType_t diagonal, int m, int n,
                            const T* alpha, const T* const* a, int lda, T* const* b, int ldb, int batch) {
  const auto factor = *host(alpha);
  return static_cast<cublasStatus_t>(put_routine(
      handle, "trsmBatched", {array(a, batch), array(b, batch)},
      [=] {
        for (int i = 0; i < batch; ++i)
          lapack::trsm(letter(side), letter(fill), letter(operation), letter(diagonal), m, n, factor,
                       host(a[i]), lda, host(b[i]), ldb);
      },
      CUBLAS_STATUS_EXECUTION_FAILED));
}

template <class T>
cublasStatus_t getrf_batched(cublasHandle_t handle, int n, T* const* a, int lda, int* pivots, int* info,
                             int batch) {
  return static_cast<cublasStatus_t>(put_routine(
      handle, "getrfBatched",
      {array(static_cast<T* const*>(a), batch), array(pivots, std::int64_t{n} * batch), array(info, batch)},
      [=] {
        for (int i = 0; i < batch; ++i) lapack::getrf(n, n, host(a[i]), lda, pivots + i * n, info + i);
      },
      CUBLAS_STATUS_EXECUTION_FAILED));
}

}  // namespace

#define TIDU_CUBLAS_ROUTINES(X, T)                                                                           \
  cublasStatus_t cublas##X##trsm_v2(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,     \
                                    cublasOperation_t operation, cublasDiagType_t diagonal, int m, int n,    \
                                    const T* alpha, const T* a, int lda, T* b, int ldb) {                    \
    return trsm(handle, side, fill, operation, diagonal, m, n, alpha, a, lda, b, ldb);                       \
  }                                                                                                          \
  cublasStatus_t cublas##X##trsmBatched(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, \
                                        cublasOperation_t operation, cublasDiagType_t diagonal, int m,       \
                                        int n, const T* alpha, const T* const a[], int lda, T* const b[],    \
                                        int ldb, int batch) {                                                \
    return trsm_batched(handle, side, fill, operation, diagonal, m, n, alpha, a, lda, b, ldb, batch);        \
  }                                                                                                          \
  cublasStatus_t cublas##X##getrfBatched(cublasHandle_t handle, int n, T* const a[], int lda, int* pivots,   \
                                         int* info, int batch) {                                             \
    return getrf_batched(handle, n, a, lda, pivots, info, batch);                                            \
  }

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (is_told_to_fail(__func__)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return static_cast<cublasStatus_t>(make_handle(handle, SolverHandle()));
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return static_cast<cublasStatus_t>(drop_handle<SolverHandle>(handle));
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (is_told_to_fail(__func__)) return CUBLAS_STATUS_NOT_INITIALIZED;
  as<SolverHandle>(handle).stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
TIDU_CUBLAS_ROUTINES(S, float)
TIDU_CUBLAS_ROUTINES(D, double)
TIDU_CUBLAS_ROUTINES(C, cuComplex)
TIDU_CUBLAS_ROUTINES(Z, cuDoubleComplex)
}
