// device_scope.cpp - the thread's current device, chosen and given back.
#include "cuda/device_scope.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cuda/libraries/library_calls.hpp"

namespace tidu::cuda_detail {
namespace {

// A function of the driver, which is there where the runtime has found one; else null.
template <class F>
F* driver_function(const char* name) {
  constexpr unsigned since = 7000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<F*>(found) : nullptr;
}

// Has this process done anything on that device? To make another one current takes some of its memory.
bool is_in_use(int ordinal) {
  static auto* const device_of = driver_function<decltype(::cuDeviceGet)>("cuDeviceGet");
  static auto* const state_of =
      driver_function<decltype(::cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState");
  CUdevice device{};
  unsigned flags = 0;
  int active = 0;
  return device_of != nullptr && state_of != nullptr && device_of(&device, ordinal) == CUDA_SUCCESS &&
         state_of(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

}  // namespace

// A thread without a context is told to be on device 0: the first call on it sets one.
int DeviceScope::enter(int ordinal) noexcept {
  thread_local bool has_context = false;
  int current = -1;
  const bool is_known = cudaGetDevice(&current) == cudaSuccess;
  if (has_context && is_known && current == ordinal) [[likely]]
    return cudaSuccess;
  const bool comes_back = is_known && current != ordinal && is_in_use(current);
  const cudaError_t error = cudaSetDevice(ordinal);
  if (error != cudaSuccess) return error;
  has_context = true;
  if (comes_back) before_ = current;
  return cudaSuccess;
}

DeviceScope::DeviceScope(int ordinal) {
  check_runtime("cudaSetDevice", static_cast<cudaError_t>(enter(ordinal)));
}
DeviceScope::DeviceScope(int ordinal, std::nothrow_t) noexcept { (void)enter(ordinal); }
DeviceScope::~DeviceScope() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

}  // namespace tidu::cuda_detail
