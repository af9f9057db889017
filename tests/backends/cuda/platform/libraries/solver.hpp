// solver.hpp - what the platform's cuSOLVER and cuBLAS share: handles with a stream, arrays that calls read
// and write, and letters in names of routines.
#pragma once

#include <cublas_v2.h>

#include <string>

#include "cuda/platform/libraries/lapack.hpp"
#include "cuda/platform/libraries/library.hpp"

namespace tidu::test::platform {

struct SolverHandle {
  cudaStream_t stream = nullptr;
};

/// The numbers that LAPACK has for cuComplex and cuDoubleComplex.
template <class T>
struct HostNumber {
  using type = T;
};
template <>
struct HostNumber<cuComplex> {
  using type = lapack::c64;
};
template <>
struct HostNumber<cuDoubleComplex> {
  using type = lapack::c128;
};
template <class T>
auto* host(T* at) {
  using Number = typename HostNumber<std::remove_const_t<T>>::type;
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const Number, Number>*>(at);
}

inline const char* letter(cublasFillMode_t fill) { return fill == CUBLAS_FILL_MODE_LOWER ? "L" : "U"; }
inline const char* letter(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N ? "N" : operation == CUBLAS_OP_T ? "T" : "C";
}
inline const char* letter(cublasSideMode_t side) { return side == CUBLAS_SIDE_LEFT ? "L" : "R"; }
inline const char* letter(cublasDiagType_t diagonal) { return diagonal == CUBLAS_DIAG_UNIT ? "U" : "N"; }

/// An array of a call.
template <class T>
Touch array(T* at, std::int64_t count) {
  return {at, static_cast<std::size_t>(count) * sizeof(T), !std::is_const_v<T>};
}

/// Puts a routine on the handle's stream. Gives 0 or `failed`, and that too for an array that is not there.
template <class Handle>
int put_routine(Handle handle, const char* name, std::vector<Touch> touches, std::function<void()> run,
                int failed) {
  if (is_told_to_fail(name)) return failed;
  for (const Touch& touch : touches)
    if (!is_device_memory(touch.at, touch.bytes))
      return refuse_call(failed, std::string(name) + " of an array that is not there");
  return put_work(as<SolverHandle>(handle).stream, {name, std::move(touches), std::move(run)}) == 0 ? 0
                                                                                                    : failed;
}

}  // namespace tidu::test::platform
