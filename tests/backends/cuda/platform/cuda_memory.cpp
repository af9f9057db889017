// cuda_memory.cpp - the runtime's memory: of devices, pinned, and copies between them.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda/platform/state.hpp"

namespace tidu::test::platform {
namespace {

constexpr std::size_t alignment = 512;

// Bytes that mean nothing, as far as they are likely to be read by mistake.
std::byte* make(std::size_t bytes) {
  constexpr std::size_t max_filled = std::size_t{4} << 20;
  auto* const at = static_cast<std::byte*>(std::aligned_alloc(
      alignment, std::max<std::size_t>(1, (bytes + alignment - 1) / alignment) * alignment));
  if (at != nullptr) std::memset(at, 0xa5, std::min(bytes, max_filled));
  return at;
}

cudaError_t free_in(Allocations& allocations, void* at, const char* function) {
  State& s = state();
  if (at == nullptr) return cudaSuccess;
  if (const cudaError_t refused = refuse_in_capture(function); refused != cudaSuccess) return refused;
  const std::size_t bytes = allocations.remove(static_cast<std::byte*>(at));
  if (bytes == 0) return refuse(cudaErrorInvalidValue, std::string(function) + " of what was not allocated");
  s.transfers.forget(static_cast<std::byte*>(at), bytes);
  std::free(at);
  return s.sticky;
}

// A copy from the host reads its memory when the device is there, and one to the host writes it then.
Task copy_task(std::byte* to, const std::byte* from, std::size_t bytes, cudaMemcpyKind kind) {
  Task task{{"a copy", {}, {}}, {}};
  if (kind != cudaMemcpyHostToDevice) task.work.touches.push_back({from, bytes, false});
  if (kind != cudaMemcpyDeviceToHost) task.work.touches.push_back({to, bytes, true});
  if (kind == cudaMemcpyDeviceToHost) {
    task.transfer = [=](std::size_t process, std::uint64_t tick) {
      state().transfers.download(to, {from, from + bytes}, process, tick);
    };
    return task;
  }
  if (kind == cudaMemcpyHostToDevice)
    task.transfer = [=](std::size_t process, std::uint64_t tick) {
      state().transfers.upload(from, bytes, process, tick);
    };
  task.work.run = [=] { std::memmove(to, from, bytes); };
  return task;
}

}  // namespace
}  // namespace tidu::test::platform

using namespace tidu::test::platform;

extern "C" {

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  if (const cudaError_t refused = refuse_in_capture("cudaMalloc"); refused != cudaSuccess) return refused;
  const int device = current_device();
  if (bytes > device_bytes - s.device.bytes_of(device)) return give(cudaErrorMemoryAllocation);
  std::byte* const made = make(bytes);
  if (made == nullptr) return give(cudaErrorMemoryAllocation);
  s.device.add(made, bytes, device);
  *at = made;
  return cudaSuccess;
}

cudaError_t cudaFree(void* at) {
  const Lock lock(state().mutex);
  return free_in(state().device, at, "cudaFree");
}

cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  if (const cudaError_t refused = refuse_in_capture("cudaHostAlloc"); refused != cudaSuccess) return refused;
  const std::size_t before = s.pinned.bytes();
  if (before + bytes > s.pinned_limit) return give(cudaErrorMemoryAllocation);
  std::byte* const made = make(bytes);
  if (made == nullptr) return give(cudaErrorMemoryAllocation);
  s.pinned.add(made, bytes, 0);
  s.pinned_peak = std::max(s.pinned_peak, before + bytes);
  *at = made;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* at) {
  const Lock lock(state().mutex);
  return free_in(state().pinned, at, "cudaFreeHost");
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  {
    const Lock lock(s.mutex);
    Allocations& target = kind == cudaMemcpyDeviceToHost ? s.pinned : s.device;
    Allocations& source = kind == cudaMemcpyHostToDevice ? s.pinned : s.device;
    if (target.find(to, bytes) == nullptr || source.find(from, bytes) == nullptr)
      return refuse(cudaErrorInvalidValue, "a copy beyond its memory, or of memory that is not pinned");
  }
  return put(stream,
             copy_task(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, kind));
}

cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  TIDU_PLATFORM_ENTER();
  {
    const Lock lock(state().mutex);
    if (state().device.find(at, bytes) == nullptr)
      return refuse(cudaErrorInvalidValue, "cudaMemsetAsync beyond its memory");
  }
  return put(stream, {{"cudaMemsetAsync", {{at, bytes, true}}, [=] { std::memset(at, value, bytes); }}, {}});
}
}
