// library.hpp - what the platform's libraries share: handles, work put on streams, refusals. A library that
// is loaded where there is no platform does its work at once.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/platform/platform.hpp"

extern "C" {
__attribute__((weak)) int tidu_platform_put(void* stream, const tidu::test::platform::Work* work);
__attribute__((weak)) void tidu_platform_count_handle(int change);
__attribute__((weak)) void tidu_platform_fault(const char* words);
__attribute__((weak)) int tidu_platform_enter(const char* function);
__attribute__((weak)) bool tidu_platform_holds(const void* at, std::size_t bytes);
}

namespace tidu::test::platform {

template <class T, class Handle>
T& as(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}
/// Makes what a handle names. Gives 0, which is every library's success.
template <class T, class Handle>
int make_handle(Handle* handle, T value) {
  *handle = reinterpret_cast<Handle>(new T(std::move(value)));
  if (tidu_platform_count_handle != nullptr) tidu_platform_count_handle(1);
  return 0;
}
template <class T, class Handle>
int drop_handle(Handle handle) {
  delete reinterpret_cast<T*>(handle);
  if (tidu_platform_count_handle != nullptr) tidu_platform_count_handle(-1);
  return 0;
}

/// Is that call told to fail?
inline bool is_told_to_fail(const char* function) {
  return tidu_platform_enter != nullptr && tidu_platform_enter(function) != 0;
}

/// Notes why a call is refused, and gives the status.
inline int refuse_call(int status, const std::string& why) {
  if (tidu_platform_fault != nullptr) tidu_platform_fault(why.c_str());
  return status;
}

inline bool is_device_memory(const void* at, std::size_t bytes) {
  return tidu_platform_holds == nullptr || tidu_platform_holds(at, bytes);
}

/// Bytes that the address is a multiple of, at most 256.
inline std::uint32_t alignment_of(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return static_cast<std::uint32_t>(
      std::min<std::uintptr_t>(256, address == 0 ? 256 : address & (~address + 1)));
}

/// Gives a cudaError_t.
inline int put_work(cudaStream_t stream, Work work) {
  if (tidu_platform_put != nullptr) return tidu_platform_put(stream, &work);
  work.run();
  return 0;
}

}  // namespace tidu::test::platform
