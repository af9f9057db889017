// library_solver.cpp - cuSOLVER's routines with LAPACK's names and cuBLAS' trsm, in four dtypes each.
#include "cuda/library_solver.hpp"

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

#include "cuda/library_calls.hpp"

namespace tidu::cuda_detail {
namespace {

const DynamicLibrary& solver() {
  static const DynamicLibrary library("cuSOLVER",
                                      {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"});
  return library;
}
const DynamicLibrary& blas() {
  static const DynamicLibrary library("cuBLAS", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
  return library;
}

// Letters in names of routines, by dtype.
template <class T>
struct Letters;
template <>
struct Letters<float> {
  using Real = float;
  static constexpr const char *dtype = "S", *symmetric = "sy", *orthogonal = "or";
};
template <>
struct Letters<double> {
  using Real = double;
  static constexpr const char *dtype = "D", *symmetric = "sy", *orthogonal = "or";
};
template <>
struct Letters<cuComplex> {
  using Real = float;
  static constexpr const char *dtype = "C", *symmetric = "he", *orthogonal = "un";
};
template <>
struct Letters<cuDoubleComplex> {
  using Real = double;
  static constexpr const char *dtype = "Z", *symmetric = "he", *orthogonal = "un";
};

// The routines of one dtype; their types are held against the headers' below.
template <class T>
struct Routines {
  using Real = typename Letters<T>::Real;
  using Handle = cusolverDnHandle_t;
  using Fill = cublasFillMode_t;
  using PotrfSize = cusolverStatus_t(Handle, Fill, int, T*, int, int*);
  using Potrf = cusolverStatus_t(Handle, Fill, int, T*, int, T*, int, int*);
  using GetrfSize = cusolverStatus_t(Handle, int, int, T*, int, int*);
  using Getrf = cusolverStatus_t(Handle, int, int, T*, int, T*, int*, int*);
  using Geqrf = cusolverStatus_t(Handle, int, int, T*, int, T*, T*, int, int*);
  using OrgqrSize = cusolverStatus_t(Handle, int, int, int, const T*, int, const T*, int*);
  using Orgqr = cusolverStatus_t(Handle, int, int, int, T*, int, const T*, T*, int, int*);
  using SyevdSize = cusolverStatus_t(Handle, cusolverEigMode_t, Fill, int, const T*, int, const Real*, int*);
  using Syevd = cusolverStatus_t(Handle, cusolverEigMode_t, Fill, int, T*, int, Real*, T*, int, int*);
  using GesvdSize = cusolverStatus_t(Handle, int, int, int*);
  using Gesvd = cusolverStatus_t(Handle, signed char, signed char, int, int, T*, int, Real*, T*, int, T*, int,
                                 T*, int, Real*, int*);

  PotrfSize* potrf_size = find<PotrfSize>("potrf_bufferSize");
  Potrf* potrf = find<Potrf>("potrf");
  GetrfSize* getrf_size = find<GetrfSize>("getrf_bufferSize");
  Getrf* getrf = find<Getrf>("getrf");
  GetrfSize* geqrf_size = find<GetrfSize>("geqrf_bufferSize");
  Geqrf* geqrf = find<Geqrf>("geqrf");
  OrgqrSize* orgqr_size = find<OrgqrSize>(std::string(Letters<T>::orthogonal) + "gqr_bufferSize");
  Orgqr* orgqr = find<Orgqr>(std::string(Letters<T>::orthogonal) + "gqr");
  SyevdSize* syevd_size = find<SyevdSize>(std::string(Letters<T>::symmetric) + "evd_bufferSize");
  Syevd* syevd = find<Syevd>(std::string(Letters<T>::symmetric) + "evd");
  GesvdSize* gesvd_size = find<GesvdSize>("gesvd_bufferSize");
  Gesvd* gesvd = find<Gesvd>("gesvd");

  static const Routines& get() {
    static const Routines all;
    return all;
  }
  template <class F>
  static F* find(const std::string& name) {
    return solver().function<F>(("cusolverDn" + std::string(Letters<T>::dtype) + name).c_str());
  }
};
static_assert(std::is_same_v<Routines<float>::PotrfSize, decltype(::cusolverDnSpotrf_bufferSize)>);
static_assert(std::is_same_v<Routines<float>::Potrf, decltype(::cusolverDnSpotrf)>);
static_assert(std::is_same_v<Routines<float>::GetrfSize, decltype(::cusolverDnSgetrf_bufferSize)>);
static_assert(std::is_same_v<Routines<float>::Getrf, decltype(::cusolverDnSgetrf)>);
static_assert(std::is_same_v<Routines<float>::GetrfSize, decltype(::cusolverDnSgeqrf_bufferSize)>);
static_assert(std::is_same_v<Routines<float>::Geqrf, decltype(::cusolverDnSgeqrf)>);
static_assert(std::is_same_v<Routines<cuComplex>::OrgqrSize, decltype(::cusolverDnCungqr_bufferSize)>);
static_assert(std::is_same_v<Routines<cuComplex>::Orgqr, decltype(::cusolverDnCungqr)>);
static_assert(std::is_same_v<Routines<cuComplex>::SyevdSize, decltype(::cusolverDnCheevd_bufferSize)>);
static_assert(std::is_same_v<Routines<cuComplex>::Syevd, decltype(::cusolverDnCheevd)>);
static_assert(std::is_same_v<Routines<cuComplex>::GesvdSize, decltype(::cusolverDnCgesvd_bufferSize)>);
static_assert(std::is_same_v<Routines<cuComplex>::Gesvd, decltype(::cusolverDnCgesvd)>);

template <class T>
using Trsm = cublasStatus_t(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,
                            cublasDiagType_t, int, int, const T*, const T*, int, T*, int);
static_assert(std::is_same_v<Trsm<float>, decltype(::cublasStrsm_v2)>);
template <class T>
Trsm<T>& trsm() {
  static Trsm<T>* const found =
      blas().function<Trsm<T>>(("cublas" + std::string(Letters<T>::dtype) + "trsm_v2").c_str());
  return *found;
}

// A library's handles for one stream.
struct Handles {
  cusolverDnHandle_t solver = nullptr;
  cublasHandle_t blas = nullptr;
};

void check_solver(const char* routine, cusolverStatus_t status) {
  check_call("cuSOLVER", routine, static_cast<int>(status));
}
void check_blas(const char* routine, cublasStatus_t status) {
  check_call("cuBLAS", routine, static_cast<int>(status));
}

// Where the matrices of a step lie, each as many elements behind the one before.
template <class T>
struct Batch {
  T* first;
  std::int64_t stride;
  T* operator[](std::int64_t b) const { return first + b * stride; }
};
template <class T>
Batch<T> batch(const Bindings& at, const Place& place, std::int64_t stride) {
  return {reinterpret_cast<T*>(at.at(place)), stride};
}

template <class T>
T one();
template <>
float one<float>() {
  return 1;
}
template <>
double one<double>() {
  return 1;
}
template <>
cuComplex one<cuComplex>() {
  return {1, 0};
}
template <>
cuDoubleComplex one<cuDoubleComplex>() {
  return {1, 0};
}

template <class T>
void solve_triangular(const SolverStep& s, const Bindings& at, cublasHandle_t handle) {
  const auto n = static_cast<int>(s.rows), others = static_cast<int>(s.right_hand_sides);
  const int rows = s.on_the_right ? others : n, columns = s.on_the_right ? n : others;
  const auto a = batch<const T>(at, s.a, s.rows * s.rows);
  const auto b = batch<T>(at, s.b, s.rows * s.right_hand_sides);
  const T alpha = one<T>();
  for (std::int64_t i = 0; i < s.batch; ++i) {
    check_blas("trsm", trsm<T>()(handle, s.on_the_right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT,
                                 s.lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER,
                                 s.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                 s.unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, rows, columns,
                                 &alpha, a[i], n, b[i], rows));
  }
}

template <class T>
void factor(const SolverStep& s, const Bindings& at, cusolverDnHandle_t handle, Stream stream) {
  using Real = typename Routines<T>::Real;
  using Routine = SolverStep::Routine;
  const Routines<T>& f = Routines<T>::get();
  const auto m = static_cast<int>(s.rows), n = static_cast<int>(s.columns);
  const std::int64_t k = std::min(s.rows, s.columns);
  const auto a = batch<T>(at, s.a, s.matrix_stride != 0 ? s.matrix_stride : s.rows * s.columns);
  const auto info = batch<int>(at, s.info, 1);
  constexpr cublasFillMode_t lower = CUBLAS_FILL_MODE_LOWER;
  constexpr cusolverEigMode_t vectors = CUSOLVER_EIG_MODE_VECTOR;
  int size = 0;
  switch (s.routine) {
    case Routine::potrf: check_solver("potrf", f.potrf_size(handle, lower, n, a[0], m, &size)); break;
    case Routine::getrf: check_solver("getrf", f.getrf_size(handle, m, n, a[0], m, &size)); break;
    case Routine::geqrf: check_solver("geqrf", f.geqrf_size(handle, m, n, a[0], m, &size)); break;
    case Routine::orgqr:
      check_solver("orgqr", f.orgqr_size(handle, m, n, n, a[0], m, batch<const T>(at, s.b, n)[0], &size));
      break;
    case Routine::syevd:
      check_solver("syevd", f.syevd_size(handle, vectors, lower, n, a[0], m,
                                         batch<const Real>(at, s.values, n)[0], &size));
      break;
    case Routine::gesvd: check_solver("gesvd", f.gesvd_size(handle, m, n, &size)); break;
    case Routine::trsm: break;
  }
  const CallMemory memory(static_cast<std::size_t>(size) * sizeof(T), stream);
  T* const work = static_cast<T*>(memory.at());
  for (std::int64_t i = 0; i < s.batch; ++i) {
    switch (s.routine) {
      case Routine::potrf:
        check_solver("potrf", f.potrf(handle, lower, n, a[i], m, work, size, info[i]));
        break;
      case Routine::getrf:
        check_solver("getrf", f.getrf(handle, m, n, a[i], m, work, batch<int>(at, s.b, k)[i], info[i]));
        break;
      case Routine::geqrf:
        check_solver("geqrf", f.geqrf(handle, m, n, a[i], m, batch<T>(at, s.b, k)[i], work, size, info[i]));
        break;
      case Routine::orgqr:
        check_solver("orgqr",
                     f.orgqr(handle, m, n, n, a[i], m, batch<const T>(at, s.b, n)[i], work, size, info[i]));
        break;
      case Routine::syevd:
        check_solver("syevd", f.syevd(handle, vectors, lower, n, a[i], m, batch<Real>(at, s.values, n)[i],
                                      work, size, info[i]));
        break;
      case Routine::gesvd:
        check_solver("gesvd",
                     f.gesvd(handle, 'S', 'S', m, n, a[i], m, batch<Real>(at, s.values, n)[i],
                             batch<T>(at, s.u, s.rows * s.columns)[i], m,
                             batch<T>(at, s.v, s.columns * s.columns)[i], n, work, size, nullptr, info[i]));
        break;
      case Routine::trsm: break;
    }
  }
}

template <class T>
void run_step(const SolverStep& s, const Bindings& at, const Handles& handles, Stream stream) {
  if (s.routine == SolverStep::Routine::trsm) {
    solve_triangular<T>(s, at, handles.blas);
  } else {
    factor<T>(s, at, handles.solver, stream);
  }
}

}  // namespace

struct SolverLibrary::State {
  std::mutex mutex;
  std::map<void*, Handles> by_stream;
};

SolverLibrary::SolverLibrary() : state_(std::make_unique<State>()) {}
SolverLibrary::~SolverLibrary() {
  for (const auto& [stream, handles] : state_->by_stream) {
    if (handles.solver != nullptr)
      solver().function<decltype(::cusolverDnDestroy)>("cusolverDnDestroy")(handles.solver);
    if (handles.blas != nullptr)
      blas().function<decltype(::cublasDestroy_v2)>("cublasDestroy_v2")(handles.blas);
  }
}

void SolverLibrary::run(const SolverStep& step, const Bindings& at, Stream stream) {
  constexpr std::int64_t longest = std::numeric_limits<int>::max();
  if (std::max({step.rows, step.columns, step.right_hand_sides}) > longest) {
    throw Error(ErrorKind::execution,
                detail::str("[cuda] expected matrices of at most ", longest, " rows and columns, got ",
                            step.rows, " x ", std::max(step.columns, step.right_hand_sides)));
  }
  const std::lock_guard lock(state_->mutex);
  Handles& handles = state_->by_stream[stream.handle];
  const bool by_blas = step.routine == SolverStep::Routine::trsm;
  if (by_blas && handles.blas == nullptr) {
    check_blas("cublasCreate",
               blas().function<decltype(::cublasCreate_v2)>("cublasCreate_v2")(&handles.blas));
    check_blas("cublasSetStream", blas().function<decltype(::cublasSetStream_v2)>("cublasSetStream_v2")(
                                      handles.blas, stream_of(stream)));
  }
  if (!by_blas && handles.solver == nullptr) {
    check_solver("cusolverDnCreate",
                 solver().function<decltype(::cusolverDnCreate)>("cusolverDnCreate")(&handles.solver));
    check_solver("cusolverDnSetStream", solver().function<decltype(::cusolverDnSetStream)>(
                                            "cusolverDnSetStream")(handles.solver, stream_of(stream)));
  }
  switch (step.dtype) {
    case DType::f32: return run_step<float>(step, at, handles, stream);
    case DType::f64: return run_step<double>(step, at, handles, stream);
    case DType::c64: return run_step<cuComplex>(step, at, handles, stream);
    case DType::c128: return run_step<cuDoubleComplex>(step, at, handles, stream);
    default:
      throw Error(ErrorKind::internal,
                  detail::str("[cuda] expected a solver of f32, f64, c64 or c128, got ", step.dtype));
  }
}

}  // namespace tidu::cuda_detail
