// library_solver.cpp - cuSOLVER's routines with LAPACK's names and cuBLAS' trsm, in four dtypes each.
#include "cuda/libraries/library_solver.hpp"

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

#include "cuda/libraries/library_calls.hpp"

namespace tidu::cuda_detail {
namespace {

const DynamicLibrary& solver() {
  // Its version is one less than CUDA's.
  static const DynamicLibrary library("cuSOLVER",
                                      versions_of("libcusolver.so", CUDART_VERSION / 1000 - 1, {12, 11}));
  return library;
}
const DynamicLibrary& blas() {
  static const DynamicLibrary library("cuBLAS", versions_of("libcublas.so", CUDART_VERSION / 1000, {13, 12}));
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
  using PotrfBatched = cusolverStatus_t(Handle, Fill, int, T**, int, int*, int);
  using SyevjBatchedSize = cusolverStatus_t(Handle, cusolverEigMode_t, Fill, int, const T*, int, const Real*,
                                            int*, syevjInfo_t, int);
  using SyevjBatched = cusolverStatus_t(Handle, cusolverEigMode_t, Fill, int, T*, int, Real*, T*, int, int*,
                                        syevjInfo_t, int);
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
  PotrfBatched* potrf_batched = find<PotrfBatched>("potrfBatched");
  SyevjBatchedSize* syevj_batched_size =
      find<SyevjBatchedSize>(std::string(Letters<T>::symmetric) + "evjBatched_bufferSize");
  SyevjBatched* syevj_batched = find<SyevjBatched>(std::string(Letters<T>::symmetric) + "evjBatched");
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
static_assert(std::is_same_v<Routines<float>::PotrfBatched, decltype(::cusolverDnSpotrfBatched)>);
static_assert(
    std::is_same_v<Routines<cuComplex>::SyevjBatchedSize, decltype(::cusolverDnCheevjBatched_bufferSize)>);
static_assert(std::is_same_v<Routines<cuComplex>::SyevjBatched, decltype(::cusolverDnCheevjBatched)>);
static_assert(std::is_same_v<Routines<cuComplex>::GesvdSize, decltype(::cusolverDnCgesvd_bufferSize)>);
static_assert(std::is_same_v<Routines<cuComplex>::Gesvd, decltype(::cusolverDnCgesvd)>);

// cuBLAS' routines of one dtype.
template <class T>
struct BlasRoutines {
  using Trsm = cublasStatus_t(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,
                              cublasDiagType_t, int, int, const T*, const T*, int, T*, int);
  using TrsmBatched = cublasStatus_t(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,
                                     cublasDiagType_t, int, int, const T*, const T* const*, int, T* const*,
                                     int, int);
  using GetrfBatched = cublasStatus_t(cublasHandle_t, int, T* const*, int, int*, int*, int);

  Trsm* trsm = find<Trsm>("trsm_v2");
  TrsmBatched* trsm_batched = find<TrsmBatched>("trsmBatched");
  GetrfBatched* getrf_batched = find<GetrfBatched>("getrfBatched");

  static const BlasRoutines& get() {
    static const BlasRoutines all;
    return all;
  }
  template <class F>
  static F* find(const std::string& name) {
    return blas().function<F>(("cublas" + std::string(Letters<T>::dtype) + name).c_str());
  }
};
static_assert(std::is_same_v<BlasRoutines<float>::Trsm, decltype(::cublasStrsm_v2)>);
static_assert(std::is_same_v<BlasRoutines<float>::TrsmBatched, decltype(::cublasStrsmBatched)>);
static_assert(std::is_same_v<BlasRoutines<float>::GetrfBatched, decltype(::cublasSgetrfBatched)>);

// Of one stream: the libraries work in memory that a handle has. The stream may be another one by now, made
// where one was that has ended with work still to do.
struct Handles {
  cusolverDnHandle_t solver = nullptr;
  cublasHandle_t blas = nullptr;
  syevjInfo_t rotations = nullptr;
  cudaEvent_t passed = nullptr;  // behind the last use
  std::uint64_t last_used = 0;
};

// Work on the stream with its handles, behind what was done with them before.
class HandlesUse {
 public:
  HandlesUse(Handles& handles, Stream stream) : handles_(handles), stream_(stream_of(stream)) {
    if (handles.passed == nullptr) {
      check_runtime("cudaEventCreateWithFlags",
                    cudaEventCreateWithFlags(&handles.passed, cudaEventDisableTiming));
    } else {
      check_runtime("cudaStreamWaitEvent", cudaStreamWaitEvent(stream_, handles.passed, 0));
    }
  }
  HandlesUse(const HandlesUse&) = delete;
  HandlesUse& operator=(const HandlesUse&) = delete;
  ~HandlesUse() {
    if (cudaEventRecord(handles_.passed, stream_) == cudaSuccess) return;
    (void)cudaGetLastError();
    (void)cudaStreamSynchronize(stream_);
  }

 private:
  Handles& handles_;
  cudaStream_t stream_;
};
bool by_blas(const SolverStep& s) {
  return s.routine == SolverStep::Routine::trsm || (s.batched && s.routine == SolverStep::Routine::getrf);
}

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
Batch<T> batch(const Bindings& at, const BufferRef& place, std::int64_t stride) {
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
  const cublasSideMode_t side = s.on_the_right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
  const cublasFillMode_t fill = s.lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
  const cublasOperation_t operation = s.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasDiagType_t diagonal = s.unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  const BlasRoutines<T>& f = BlasRoutines<T>::get();
  if (s.batched) {
    check_blas("trsmBatched", f.trsm_batched(handle, side, fill, operation, diagonal, rows, columns, &alpha,
                                             reinterpret_cast<const T* const*>(at.at(s.a_pointers)), n,
                                             reinterpret_cast<T* const*>(at.at(s.b_pointers)), rows,
                                             static_cast<int>(s.batch)));
    return;
  }
  for (std::int64_t i = 0; i < s.batch; ++i)
    check_blas("trsm",
               f.trsm(handle, side, fill, operation, diagonal, rows, columns, &alpha, a[i], n, b[i], rows));
}

constexpr cublasFillMode_t lower_half = CUBLAS_FILL_MODE_LOWER;
constexpr cusolverEigMode_t with_vectors = CUSOLVER_EIG_MODE_VECTOR;

// Elements of T that the routine works in; it looks at no address.
template <class T>
int workspace_of(const SolverStep& s, const Handles& handles) {
  using Routine = SolverStep::Routine;
  const Routines<T>& f = Routines<T>::get();
  const auto m = static_cast<int>(s.rows), n = static_cast<int>(s.columns);
  cusolverDnHandle_t const handle = handles.solver;
  int size = 0;
  switch (s.routine) {
    case Routine::potrf:
      if (!s.batched) check_solver("potrf", f.potrf_size(handle, lower_half, n, nullptr, m, &size));
      break;
    case Routine::getrf: check_solver("getrf", f.getrf_size(handle, m, n, nullptr, m, &size)); break;
    case Routine::geqrf: check_solver("geqrf", f.geqrf_size(handle, m, n, nullptr, m, &size)); break;
    case Routine::orgqr:
      check_solver("orgqr", f.orgqr_size(handle, m, n, n, nullptr, m, nullptr, &size));
      break;
    case Routine::syevd:
      if (s.batched) {
        check_solver("syevjBatched",
                     f.syevj_batched_size(handle, with_vectors, lower_half, n, nullptr, m, nullptr, &size,
                                          handles.rotations, static_cast<int>(s.batch)));
      } else {
        check_solver("syevd", f.syevd_size(handle, with_vectors, lower_half, n, nullptr, m, nullptr, &size));
      }
      break;
    case Routine::gesvd: check_solver("gesvd", f.gesvd_size(handle, m, n, &size)); break;
    case Routine::trsm: break;
  }
  return size;
}

// One call for all matrices.
template <class T>
void factor_all(const SolverStep& s, const Bindings& at, const Handles& handles) {
  using Real = typename Routines<T>::Real;
  using Routine = SolverStep::Routine;
  const auto n = static_cast<int>(s.columns), count = static_cast<int>(s.batch);
  auto* const info = reinterpret_cast<int*>(at.at(s.info));
  if (s.routine == Routine::syevd) {
    check_solver("syevjBatched",
                 Routines<T>::get().syevj_batched(
                     handles.solver, with_vectors, lower_half, n, reinterpret_cast<T*>(at.at(s.a)), n,
                     reinterpret_cast<Real*>(at.at(s.values)), reinterpret_cast<T*>(at.at(s.workspace)),
                     static_cast<int>(s.workspace_bytes / sizeof(T)), info, handles.rotations, count));
    return;
  }
  auto* const matrices = reinterpret_cast<T**>(at.at(s.a_pointers));
  if (s.routine == Routine::potrf) {
    check_solver("potrfBatched",
                 Routines<T>::get().potrf_batched(handles.solver, lower_half, n, matrices, n, info, count));
  } else {
    check_blas("getrfBatched",
               BlasRoutines<T>::get().getrf_batched(handles.blas, n, matrices, n,
                                                    reinterpret_cast<int*>(at.at(s.b)), info, count));
  }
}

template <class T>
void factor(const SolverStep& s, const Bindings& at, cusolverDnHandle_t handle) {
  using Real = typename Routines<T>::Real;
  using Routine = SolverStep::Routine;
  const Routines<T>& f = Routines<T>::get();
  const auto m = static_cast<int>(s.rows), n = static_cast<int>(s.columns);
  const std::int64_t k = std::min(s.rows, s.columns);
  const auto a = batch<T>(at, s.a, s.matrix_stride != 0 ? s.matrix_stride : s.rows * s.columns);
  const auto info = batch<int>(at, s.info, 1);
  constexpr cublasFillMode_t lower = lower_half;
  constexpr cusolverEigMode_t vectors = with_vectors;
  const auto size = static_cast<int>(s.workspace_bytes / sizeof(T));
  T* const work = reinterpret_cast<T*>(at.at(s.workspace));
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
void run_step(const SolverStep& s, const Bindings& at, const Handles& handles) {
  if (s.routine == SolverStep::Routine::trsm) {
    solve_triangular<T>(s, at, handles.blas);
  } else if (s.batched) {
    factor_all<T>(s, at, handles);
  } else {
    factor<T>(s, at, handles.solver);
  }
}

// Calls the function with a value of the step's type.
template <class Function>
auto of_type(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::f32: return function(float{});
    case DType::f64: return function(double{});
    case DType::c64: return function(cuComplex{});
    case DType::c128: return function(cuDoubleComplex{});
    default:
      throw Error(ErrorKind::internal,
                  detail::str("[cuda] expected a solver of f32, f64, c64 or c128, got ", dtype));
  }
}

}  // namespace

struct SolverLibrary::State {
  std::mutex mutex;
  std::map<void*, Handles> by_stream;
  std::uint64_t uses = 0;

  // Those that the step needs.
  Handles& handles(const SolverStep& step, Stream stream);
  Handles& of(Stream stream);
};

namespace {

// Waits for the device where it is still at work with them.
void destroy(const Handles& handles) {
  if (handles.rotations != nullptr)
    solver().function<decltype(::cusolverDnDestroySyevjInfo)>("cusolverDnDestroySyevjInfo")(
        handles.rotations);
  if (handles.solver != nullptr)
    solver().function<decltype(::cusolverDnDestroy)>("cusolverDnDestroy")(handles.solver);
  if (handles.blas != nullptr)
    blas().function<decltype(::cublasDestroy_v2)>("cublasDestroy_v2")(handles.blas);
  if (handles.passed != nullptr) (void)cudaEventDestroy(handles.passed);
}

}  // namespace

SolverLibrary::SolverLibrary() : state_(std::make_unique<State>()) {}
SolverLibrary::~SolverLibrary() {
  if (is_ending()) {
    (void)state_.release();
    return;
  }
  for (const auto& [stream, handles] : state_->by_stream) destroy(handles);
}

// Streams of others come and go: the longest unused handles make room for those of the next.
Handles& SolverLibrary::State::of(Stream stream) {
  constexpr std::size_t max_streams = 32;
  if (by_stream.size() >= max_streams && !by_stream.contains(stream.handle)) {
    const auto oldest = std::min_element(
        by_stream.begin(), by_stream.end(),
        [](const auto& a, const auto& b) { return a.second.last_used < b.second.last_used; });
    destroy(oldest->second);
    by_stream.erase(oldest);
  }
  Handles& handles = by_stream[stream.handle];
  handles.last_used = ++uses;
  return handles;
}

Handles& SolverLibrary::State::handles(const SolverStep& step, Stream stream) {
  constexpr std::int64_t longest = std::numeric_limits<int>::max();
  if (std::max({step.rows, step.columns, step.right_hand_sides}) > longest) {
    throw Error(ErrorKind::execution,
                detail::str("[cuda] expected matrices of at most ", longest, " rows and columns, got ",
                            step.rows, " x ", std::max(step.columns, step.right_hand_sides)));
  }
  Handles& handles = of(stream);
  // None is kept that was not told its stream.
  if (by_blas(step) && handles.blas == nullptr) {
    Handles made;
    check_blas("cublasCreate", blas().function<decltype(::cublasCreate_v2)>("cublasCreate_v2")(&made.blas));
    try {
      check_blas("cublasSetStream", blas().function<decltype(::cublasSetStream_v2)>("cublasSetStream_v2")(
                                        made.blas, stream_of(stream)));
    } catch (...) {
      destroy(made);
      throw;
    }
    handles.blas = made.blas;
  }
  if (!by_blas(step) && handles.solver == nullptr) {
    Handles made;
    check_solver("cusolverDnCreate",
                 solver().function<decltype(::cusolverDnCreate)>("cusolverDnCreate")(&made.solver));
    try {
      check_solver("cusolverDnSetStream", solver().function<decltype(::cusolverDnSetStream)>(
                                              "cusolverDnSetStream")(made.solver, stream_of(stream)));
    } catch (...) {
      destroy(made);
      throw;
    }
    handles.solver = made.solver;
  }
  if (step.batched && step.routine == SolverStep::Routine::syevd && handles.rotations == nullptr) {
    check_solver("cusolverDnCreateSyevjInfo", solver().function<decltype(::cusolverDnCreateSyevjInfo)>(
                                                  "cusolverDnCreateSyevjInfo")(&handles.rotations));
  }
  return handles;
}

std::size_t SolverLibrary::workspace_bytes(const SolverStep& step) {
  if (by_blas(step)) return 0;
  const std::lock_guard lock(state_->mutex);
  const Handles& handles = state_->handles(step, Stream{});
  return of_type(step.dtype, [&]<class T>(T) {
    return static_cast<std::size_t>(workspace_of<T>(step, handles)) * sizeof(T);
  });
}

void SolverLibrary::run(const SolverStep& step, const Bindings& at, Stream stream) {
  const std::lock_guard lock(state_->mutex);
  Handles& handles = state_->handles(step, stream);
  const HandlesUse use(handles, stream);
  of_type(step.dtype, [&]<class T>(T) { run_step<T>(step, at, handles); });
}

}  // namespace tidu::cuda_detail
