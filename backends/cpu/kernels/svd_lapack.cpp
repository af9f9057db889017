// svd_lapack.cpp - singular values by LAPACK: gesdd, and gesvd where that does not converge. LAPACK reads
// matrices column by column: memory of X by rows is X^T to it, X^T = conj(V) S U^T, whose left factor by
// columns is Vh by rows, and whose right factor is U.
#include <Eigen/Core>
#include <algorithm>
#include <limits>

#include "cpu/kernels/svd.hpp"

extern "C" {
// As Fortran has them: integers of 32 bits, and the length of each text behind the arguments.
void dgesdd_(const char* job, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* iwork,
             int* info, std::size_t job_length);
void zgesdd_(const char* job, const int* m, const int* n, std::complex<double>* a, const int* lda, double* s,
             std::complex<double>* u, const int* ldu, std::complex<double>* vt, const int* ldvt,
             std::complex<double>* work, const int* lwork, double* rwork, int* iwork, int* info,
             std::size_t job_length);
void dgesvd_(const char* job_u, const char* job_vt, const int* m, const int* n, double* a, const int* lda,
             double* s, double* u, const int* ldu, double* vt, const int* ldvt, double* work,
             const int* lwork, int* info, std::size_t u_length, std::size_t vt_length);
void zgesvd_(const char* job_u, const char* job_vt, const int* m, const int* n, std::complex<double>* a,
             const int* lda, double* s, std::complex<double>* u, const int* ldu, std::complex<double>* vt,
             const int* ldvt, std::complex<double>* work, const int* lwork, double* rwork, int* info,
             std::size_t u_length, std::size_t vt_length);
}

namespace tidu::cpu_detail {
namespace {

// The arguments of one call; m and n are those of X^T.
template <class W>
struct Factors {
  int m, n, k;
  W* x;
  double* s;
  W* left;
  W* right;
};

// Eigen's memory, as the other decompositions have theirs.
template <class T>
using Memory = Eigen::Array<T, Eigen::Dynamic, 1>;

Eigen::Index count_of(double elements) { return static_cast<Eigen::Index>(std::max(1.0, elements)); }

// Runs call(work, lwork, info) twice: the first says how much memory the second wants.
template <class W, class Call>
bool with_workspace(const Call& call) {
  int info = 0;
  W wanted{};
  call(&wanted, -1, &info);
  const double count = std::real(wanted);
  if (info != 0 || !(count <= static_cast<double>(std::numeric_limits<int>::max()))) return false;
  Memory<W> work(count_of(count));
  call(work.data(), static_cast<int>(work.size()), &info);
  return info == 0;
}

// Elements of rwork, as LAPACK 3.11 documents zgesdd.
Eigen::Index real_workspace(const Factors<std::complex<double>>& f) {
  const double least = f.k, most = std::max(f.m, f.n);
  return count_of(std::max(5 * least * least + 5 * least, 2 * most * least + 2 * least * least + least));
}

bool divide_and_conquer(const Factors<double>& f) {
  Memory<int> integers(count_of(8.0 * f.k));
  return with_workspace<double>([&](double* work, int size, int* info) {
    dgesdd_("S", &f.m, &f.n, f.x, &f.m, f.s, f.left, &f.m, f.right, &f.k, work, &size, integers.data(), info,
            1);
  });
}

bool divide_and_conquer(const Factors<std::complex<double>>& f) {
  Memory<int> integers(count_of(8.0 * f.k));
  Memory<double> reals(real_workspace(f));
  return with_workspace<std::complex<double>>([&](std::complex<double>* work, int size, int* info) {
    zgesdd_("S", &f.m, &f.n, f.x, &f.m, f.s, f.left, &f.m, f.right, &f.k, work, &size, reals.data(),
            integers.data(), info, 1);
  });
}

bool qr_iteration(const Factors<double>& f) {
  return with_workspace<double>([&](double* work, int size, int* info) {
    dgesvd_("S", "S", &f.m, &f.n, f.x, &f.m, f.s, f.left, &f.m, f.right, &f.k, work, &size, info, 1, 1);
  });
}

bool qr_iteration(const Factors<std::complex<double>>& f) {
  Memory<double> reals(count_of(5.0 * f.k));
  return with_workspace<std::complex<double>>([&](std::complex<double>* work, int size, int* info) {
    zgesvd_("S", "S", &f.m, &f.n, f.x, &f.m, f.s, f.left, &f.m, f.right, &f.k, work, &size, reals.data(),
            info, 1, 1);
  });
}

template <class W>
Attempt by_lapack(int attempt, W* x, W* u, double* s, W* vh, std::int64_t m, std::int64_t n) {
  constexpr std::int64_t largest = std::numeric_limits<int>::max();
  if (attempt > 1 || m > largest || n > largest) return Attempt::none;
  const Factors<W> f{static_cast<int>(n), static_cast<int>(m), static_cast<int>(std::min(m, n)), x, s, vh, u};
  return (attempt == 0 ? divide_and_conquer(f) : qr_iteration(f)) ? Attempt::done : Attempt::failed;
}

}  // namespace

Attempt decompose_singular(int attempt, double* x, double* u, double* s, double* vh, std::int64_t m,
                           std::int64_t n) {
  return by_lapack(attempt, x, u, s, vh, m, n);
}

Attempt decompose_singular(int attempt, std::complex<double>* x, std::complex<double>* u, double* s,
                           std::complex<double>* vh, std::int64_t m, std::int64_t n) {
  return by_lapack(attempt, x, u, s, vh, m, n);
}

// Three squares of the smaller side and a copy, for gesdd's blocks.
double singular_workspace(double m, double n) noexcept {
  const double k = std::min(m, n);
  return 4 * k * k + 70 * (m + n) + m * n;
}

}  // namespace tidu::cpu_detail
