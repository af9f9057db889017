// library_calls.hpp - what calls of the toolkit's libraries share: functions found when they are first
// needed, statuses made errors.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/device.hpp"
#include "cuda/dynamic_library.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {

/// Throws Error (execution) with the library's words unless the status is 0, which is every library's
/// success.
inline void check_call(const char* library, const char* routine, int status, const char* words = nullptr) {
  if (status == 0) return;
  throw Error(ErrorKind::execution,
              detail::str("[cuda] expected ", routine, " of ", library, " to succeed, got status ", status,
                          words != nullptr ? ", " : "", words != nullptr ? words : ""));
}
inline void check_runtime(const char* routine, cudaError_t status) {
  if (status != cudaSuccess) (void)cudaGetLastError();  // what is not sticky is over with this
  if (status == cudaErrorMemoryAllocation) {
    throw Error(ErrorKind::out_of_memory, detail::str("[cuda] expected memory from ", routine, ", got none"));
  }
  check_call("the CUDA runtime", routine, static_cast<int>(status), cudaGetErrorString(status));
}
inline cudaStream_t stream_of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

}  // namespace tidu::cuda_detail
