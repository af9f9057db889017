// cusolver.cpp - the routines of cuSOLVER that tidu calls, by LAPACK, whose names and arguments they have.
// They refuse less workspace than they asked for, and shapes that cuSOLVER does not take.
#include <cusolverDn.h>

#include "cuda/platform/libraries/solver.hpp"

using namespace tidu::test::platform;
namespace lapack = tidu::test::lapack;

namespace {

using Handle = cusolverDnHandle_t;
using Status = cusolverStatus_t;
template <class T>
using RealOf = lapack::Real<typename HostNumber<T>::type>;

// Elements that a routine works in, for each column.
constexpr int work_of_column = 64;
Status ask(int columns, int* size) {
  *size = columns * work_of_column;
  return CUSOLVER_STATUS_SUCCESS;
}

Status put(Handle handle, const char* name, std::vector<Touch> touches, std::function<void()> run) {
  return static_cast<Status>(
      put_routine(handle, name, std::move(touches), std::move(run), CUSOLVER_STATUS_EXECUTION_FAILED));
}
Status refuse(const char* why) {
  return static_cast<Status>(refuse_call(CUSOLVER_STATUS_INVALID_VALUE, std::string("cuSOLVER: ") + why));
}
std::int64_t area(int leading, int columns) { return std::int64_t{leading} * columns; }
bool is_enough(int size, int columns) { return size >= columns * work_of_column; }

template <class T>
Status potrf(Handle handle, cublasFillMode_t fill, int n, T* a, int lda, T* work, int size, int* info) {
  if (lda < n || !is_enough(size, n)) return refuse("potrf with too little memory");
  return put(handle, "potrf", {array(a, area(lda, n)), array(work, size), array(info, 1)},
             [=] { lapack::potrf(letter(fill), n, host(a), lda, info); });
}
template <class T>
Status getrf(Handle handle, int m, int n, T* a, int lda, T* work, int* pivots, int* info) {
  if (lda < m) return refuse("getrf with a leading dimension that is too small");
  return put(handle, "getrf",
             {array(a, area(lda, n)), array(work, area(work_of_column, n)), array(pivots, std::min(m, n)),
              array(info, 1)},
             [=] { lapack::getrf(m, n, host(a), lda, pivots, info); });
}
template <class T>
Status geqrf(Handle handle, int m, int n, T* a, int lda, T* tau, T* work, int size, int* info) {
  if (lda < m || !is_enough(size, n)) return refuse("geqrf with too little memory");
  return put(handle, "geqrf",
             {array(a, area(lda, n)), array(tau, std::min(m, n)), array(work, size), array(info, 1)},
             [=] { lapack::geqrf(m, n, host(a), lda, host(tau), host(work), size, info); });
}
template <class T>
Status orgqr(Handle handle, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size, int* info) {
  if (m < n || n < k || lda < m || !is_enough(size, n)) return refuse("orgqr with too little memory");
  return put(handle, "orgqr", {array(a, area(lda, n)), array(tau, k), array(work, size), array(info, 1)},
             [=] { lapack::orgqr(m, n, k, host(a), lda, host(tau), host(work), size, info); });
}
template <class T>
Status syevd(Handle handle, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* a, int lda,
             RealOf<T>* values, T* work, int size, int* info) {
  if (mode != CUSOLVER_EIG_MODE_VECTOR || lda < n || !is_enough(size, n))
    return refuse("syevd with too little memory, or without vectors");
  return put(handle, "syevd", {array(a, area(lda, n)), array(values, n), array(work, size), array(info, 1)},
             [=] { lapack::syev(letter(fill), n, host(a), lda, values, info); });
}
template <class T>
Status gesvd(Handle handle, signed char with_u, signed char with_v, int m, int n, T* a, int lda, RealOf<T>* s,
             T* u, int ldu, T* v, int ldv, T* work, int size, int* info) {
  if (m < n || with_u != 'S' || with_v != 'S' || lda < m || ldu < m || ldv < n || !is_enough(size, n))
    return refuse("gesvd with too little memory, or more columns than rows");
  return put(handle, "gesvd",
             {array(a, area(lda, n)), array(s, n), array(u, area(ldu, n)), array(v, area(ldv, n)),
              array(work, size), array(info, 1)},
             [=] { lapack::gesvd(m, n, host(a), lda, s, host(u), ldu, host(v), ldv, info); });
}
template <class T>
Status potrf_batched(Handle handle, cublasFillMode_t fill, int n, T** a, int lda, int* info, int batch) {
  return put(handle, "potrfBatched", {array(static_cast<T* const*>(a), batch), array(info, batch)}, [=] {
    for (int i = 0; i < batch; ++i) lapack::potrf(letter(fill), n, host(a[i]), lda, info + i);
  });
}
template <class T>
Status syevj_batched(Handle handle, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* a, int lda,
                     RealOf<T>* values, T* work, int size, int* info, syevjInfo_t rotations, int batch) {
  if (n > 32 || lda < n || mode != CUSOLVER_EIG_MODE_VECTOR || rotations == nullptr ||
      !is_enough(size, batch))
    return refuse("syevjBatched of large matrices, or with too little memory");
  return put(
      handle, "syevjBatched",
      {array(a, area(lda, n) * batch), array(values, area(n, batch)), array(work, size), array(info, batch)},
      [=] {
        for (int i = 0; i < batch; ++i)
          lapack::syev(letter(fill), n, host(a) + area(lda, n) * i, lda, values + area(n, i), info + i);
      });
}

}  // namespace

#define TIDU_CUSOLVER_ROUTINES(X, T, R, OR, SY)                                                              \
  Status cusolverDn##X##potrf_bufferSize(Handle, cublasFillMode_t, int n, T*, int, int* size) {              \
    return ask(n, size);                                                                                     \
  }                                                                                                          \
  Status cusolverDn##X##potrf(Handle handle, cublasFillMode_t fill, int n, T* a, int lda, T* work, int size, \
                              int* info) {                                                                   \
    return potrf(handle, fill, n, a, lda, work, size, info);                                                 \
  }                                                                                                          \
  Status cusolverDn##X##getrf_bufferSize(Handle, int, int n, T*, int, int* size) { return ask(n, size); }    \
  Status cusolverDn##X##getrf(Handle handle, int m, int n, T* a, int lda, T* work, int* pivots, int* info) { \
    return getrf(handle, m, n, a, lda, work, pivots, info);                                                  \
  }                                                                                                          \
  Status cusolverDn##X##geqrf_bufferSize(Handle, int, int n, T*, int, int* size) { return ask(n, size); }    \
  Status cusolverDn##X##geqrf(Handle handle, int m, int n, T* a, int lda, T* tau, T* work, int size,         \
                              int* info) {                                                                   \
    return geqrf(handle, m, n, a, lda, tau, work, size, info);                                               \
  }                                                                                                          \
  Status cusolverDn##X##OR##gqr_bufferSize(Handle, int, int n, int, const T*, int, const T*, int* size) {    \
    return ask(n, size);                                                                                     \
  }                                                                                                          \
  Status cusolverDn##X##OR##gqr(Handle handle, int m, int n, int k, T* a, int lda, const T* tau, T* work,    \
                                int size, int* info) {                                                       \
    return orgqr(handle, m, n, k, a, lda, tau, work, size, info);                                            \
  }                                                                                                          \
  Status cusolverDn##X##SY##evd_bufferSize(Handle, cusolverEigMode_t, cublasFillMode_t, int n, const T*,     \
                                           int, const R*, int* size) {                                       \
    return ask(n, size);                                                                                     \
  }                                                                                                          \
  Status cusolverDn##X##SY##evd(Handle handle, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* a,   \
                                int lda, R* values, T* work, int size, int* info) {                          \
    return syevd(handle, mode, fill, n, a, lda, values, work, size, info);                                   \
  }                                                                                                          \
  Status cusolverDn##X##gesvd_bufferSize(Handle, int, int n, int* size) { return ask(n, size); }             \
  Status cusolverDn##X##gesvd(Handle handle, signed char with_u, signed char with_v, int m, int n, T* a,     \
                              int lda, R* s, T* u, int ldu, T* v, int ldv, T* work, int size, R*,            \
                              int* info) {                                                                   \
    return gesvd(handle, with_u, with_v, m, n, a, lda, s, u, ldu, v, ldv, work, size, info);                 \
  }                                                                                                          \
  Status cusolverDn##X##potrfBatched(Handle handle, cublasFillMode_t fill, int n, T** a, int lda, int* info, \
                                     int batch) {                                                            \
    return potrf_batched(handle, fill, n, a, lda, info, batch);                                              \
  }                                                                                                          \
  Status cusolverDn##X##SY##evjBatched_bufferSize(Handle, cusolverEigMode_t, cublasFillMode_t, int,          \
                                                  const T*, int, const R*, int* size, syevjInfo_t,           \
                                                  int batch) {                                               \
    return ask(batch, size);                                                                                 \
  }                                                                                                          \
  Status cusolverDn##X##SY##evjBatched(Handle handle, cusolverEigMode_t mode, cublasFillMode_t fill, int n,  \
                                       T* a, int lda, R* values, T* work, int size, int* info,               \
                                       syevjInfo_t rotations, int batch) {                                   \
    return syevj_batched(handle, mode, fill, n, a, lda, values, work, size, info, rotations, batch);         \
  }

extern "C" {

Status cusolverDnCreate(Handle* handle) {
  if (is_told_to_fail(__func__)) return CUSOLVER_STATUS_NOT_INITIALIZED;
  return static_cast<Status>(make_handle(handle, SolverHandle()));
}
Status cusolverDnDestroy(Handle handle) { return static_cast<Status>(drop_handle<SolverHandle>(handle)); }
Status cusolverDnSetStream(Handle handle, cudaStream_t stream) {
  if (is_told_to_fail(__func__)) return CUSOLVER_STATUS_NOT_INITIALIZED;
  as<SolverHandle>(handle).stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
Status cusolverDnCreateSyevjInfo(syevjInfo_t* info) {
  if (is_told_to_fail(__func__)) return CUSOLVER_STATUS_ALLOC_FAILED;
  return static_cast<Status>(make_handle(info, 0));
}
Status cusolverDnDestroySyevjInfo(syevjInfo_t info) { return static_cast<Status>(drop_handle<int>(info)); }
TIDU_CUSOLVER_ROUTINES(S, float, float, or, sy)
TIDU_CUSOLVER_ROUTINES(D, double, double, or, sy)
TIDU_CUSOLVER_ROUTINES(C, cuComplex, float, un, he)
TIDU_CUSOLVER_ROUTINES(Z, cuDoubleComplex, double, un, he)
}
