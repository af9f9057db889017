// lapack.hpp - LAPACK's and BLAS' routines in four dtypes under one name each: what cuSOLVER and cuBLAS say
// that theirs compute. Matrices are column-major; `info` is as LAPACK has it.
#pragma once

#include <complex>
#include <vector>

namespace tidu::test::lapack {

using c64 = std::complex<float>;
using c128 = std::complex<double>;

template <class T>
struct real_of {
  using type = T;
};
template <class R>
struct real_of<std::complex<R>> {
  using type = R;
};
template <class T>
using Real = typename real_of<T>::type;

// Declares the routines of one dtype, LAPACK's letters before their names, and calls of them. The vectors of
// `more` are what complex routines work in as well.
#define TIDU_LAPACK_ROUTINES(T, x, ORGQR, SYEV, MORE, MORE_TYPES)                                            \
  extern "C" {                                                                                               \
  void x##potrf_(const char*, const int*, T*, const int*, int*);                                             \
  void x##getrf_(const int*, const int*, T*, const int*, int*, int*);                                        \
  void x##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                          \
  void ORGQR##_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);         \
  void SYEV##_(const char*, const char*, const int*, T*, const int*, Real<T>*, T*, const int* MORE_TYPES,    \
               int*);                                                                                        \
  void x##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, Real<T>*, T*, const int*, \
                 T*, const int*, T*, const int* MORE_TYPES, int*);                                           \
  void x##trsm_(const char*, const char*, const char*, const char*, const int*, const int*, const T*,        \
                const T*, const int*, T*, const int*);                                                       \
  }                                                                                                          \
  inline void potrf(const char* half, int n, T* a, int lda, int* info) {                                     \
    x##potrf_(half, &n, a, &lda, info);                                                                      \
  }                                                                                                          \
  inline void getrf(int m, int n, T* a, int lda, int* pivots, int* info) {                                   \
    x##getrf_(&m, &n, a, &lda, pivots, info);                                                                \
  }                                                                                                          \
  inline void geqrf(int m, int n, T* a, int lda, T* tau, T* work, int size, int* info) {                     \
    x##geqrf_(&m, &n, a, &lda, tau, work, &size, info);                                                      \
  }                                                                                                          \
  inline void orgqr(int m, int n, int k, T* a, int lda, const T* tau, T* work, int size, int* info) {        \
    ORGQR##_(&m, &n, &k, a, &lda, tau, work, &size, info);                                                   \
  }                                                                                                          \
  inline void syev(const char* half, int n, T* a, int lda, Real<T>* values, int* info) {                     \
    int size = 64 * n + 64;                                                                                  \
    std::vector<T> work(static_cast<std::size_t>(size));                                                     \
    std::vector<Real<T>> more(static_cast<std::size_t>(8 * n + 8));                                          \
    SYEV##_("V", half, &n, a, &lda, values, work.data(), &size MORE, info);                                  \
  }                                                                                                          \
  inline void gesvd(int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* v, int ldv, int* info) {      \
    int size = 64 * (m + n) + 64;                                                                            \
    std::vector<T> work(static_cast<std::size_t>(size));                                                     \
    std::vector<Real<T>> more(static_cast<std::size_t>(8 * n + 8));                                          \
    x##gesvd_("S", "S", &m, &n, a, &lda, s, u, &ldu, v, &ldv, work.data(), &size MORE, info);                \
  }                                                                                                          \
  inline void trsm(const char* side, const char* half, const char* operation, const char* diagonal, int m,   \
                   int n, T alpha, const T* a, int lda, T* b, int ldb) {                                     \
    x##trsm_(side, half, operation, diagonal, &m, &n, &alpha, a, &lda, b, &ldb);                             \
  }

#define TIDU_NO_MORE
#define TIDU_MORE , more.data()
#define TIDU_MORE_TYPE(T) , T*
TIDU_LAPACK_ROUTINES(float, s, sorgqr, ssyev, TIDU_NO_MORE, TIDU_NO_MORE)
TIDU_LAPACK_ROUTINES(double, d, dorgqr, dsyev, TIDU_NO_MORE, TIDU_NO_MORE)
TIDU_LAPACK_ROUTINES(c64, c, cungqr, cheev, TIDU_MORE, TIDU_MORE_TYPE(float))
TIDU_LAPACK_ROUTINES(c128, z, zungqr, zheev, TIDU_MORE, TIDU_MORE_TYPE(double))

}  // namespace tidu::test::lapack
