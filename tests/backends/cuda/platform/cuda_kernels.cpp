// cuda_kernels.cpp - the runtime's libraries of kernels and their launches, and sorting in place of CUB.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "cuda/libraries/library_sorting.hpp"
#include "cuda/platform/kernels.hpp"
#include "cuda/platform/state.hpp"
#include "cuda/strict.hpp"

namespace tidu::test::platform {
namespace {

struct KernelHandle {
  std::string entry;
  HostKernel kernel;
  std::vector<Parameter> parameters;
  std::size_t shared_bytes = std::size_t{48} << 10;
};
// The machine code of NVRTC here: the entry's name in the first line, then the text.
struct Library {
  std::string entry, text;
  std::unique_ptr<KernelHandle> kernel;
};

using Values = std::vector<std::array<std::byte, 8>>;

const std::byte* address_of(const std::array<std::byte, 8>& value) {
  const std::byte* at = nullptr;
  std::memcpy(&at, value.data(), sizeof at);
  return at;
}

// How much a kernel reads and writes its declaration does not say; where it begins to is enough to tell
// whether anything orders it after others.
std::vector<Touch> touches_of(const KernelHandle& kernel, const Values& values) {
  std::vector<Touch> touches;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (kernel.parameters[i] != Parameter::value && address_of(values[i]) != nullptr)  // of no elements
      touches.push_back({address_of(values[i]), 1, kernel.parameters[i] == Parameter::writes});
  return touches;
}

bool fits(const KernelHandle& kernel, const dim3& grid, const dim3& block, std::size_t shared_bytes) {
  constexpr unsigned max_blocks = 0x7fffffff, max_across = 65535, max_threads = 1024, warp = 32;
  const bool whole_warps = !kernel.kernel.waits || block.x % warp == 0;
  return grid.x >= 1 && grid.x <= max_blocks && grid.y >= 1 && grid.y <= max_across && grid.z >= 1 &&
         grid.z <= max_across && block.x >= 1 && block.x <= max_threads && block.y == 1 && block.z == 1 &&
         whole_warps && shared_bytes <= kernel.shared_bytes;
}

void run_kernel(const KernelHandle& kernel, const dim3& grid, std::uint32_t threads, Values values) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::vector<void*> arguments;
  for (auto& value : values) arguments.push_back(value.data());
  run_strictly(
      {kernel.entry, kernel.kernel.call, arguments.data(), {grid.x, grid.y, grid.z}, threads, {}, {}}, {});
}

std::uint64_t key_at(const void* keys, std::size_t index, std::size_t bytes) {
  std::uint64_t key = 0;
  std::memcpy(&key, static_cast<const char*>(keys) + index * bytes, bytes);
  return key;
}

void sort(const cuda_detail::SortCall& call) {
  const auto length = static_cast<std::size_t>(call.length), size = std::size_t{call.key_bytes};
  std::vector<std::size_t> order(length);
  for (std::size_t first = 0; first < length * static_cast<std::size_t>(call.segments); first += length) {
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return key_at(call.keys, a, size) < key_at(call.keys, b, size);
    });
    for (std::size_t i = 0; i < length; ++i) {
      std::memcpy(static_cast<char*>(call.keys_out) + (first + i) * size,
                  static_cast<const char*>(call.keys) + order[i] * size, size);
      call.values_out[first + i] = call.values[order[i]];
    }
  }
}

}  // namespace
}  // namespace tidu::test::platform

using namespace tidu::test::platform;

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  TIDU_PLATFORM_ENTER();
  const std::string all = static_cast<const char*>(code);
  const std::size_t end = all.find('\n');
  auto made = std::make_unique<Library>(Library{all.substr(0, end), all.substr(end + 1), nullptr});
  try {
    (void)compiled_kernel(made->entry, made->text);
  } catch (const std::exception& error) {
    const Lock lock(state().mutex);
    return refuse(cudaErrorInvalidKernelImage, error.what());
  }
  const Lock lock(state().mutex);
  ++state().kernels;
  *library = reinterpret_cast<cudaLibrary_t>(made.release());
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  TIDU_PLATFORM_ENTER();
  Library& from = *reinterpret_cast<Library*>(library);
  if (from.entry != name) return give(cudaErrorSymbolNotFound);
  from.kernel = std::make_unique<KernelHandle>(
      KernelHandle{from.entry, compiled_kernel(from.entry, from.text), parameters_of(from.entry, from.text)});
  *kernel = reinterpret_cast<cudaKernel_t>(from.kernel.get());
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  const Lock lock(state().mutex);
  --state().kernels;
  delete reinterpret_cast<Library*>(library);
  return state().sticky;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  TIDU_PLATFORM_ENTER();
  constexpr int max_shared = 227 << 10;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value > max_shared)
    return give(cudaErrorInvalidValue);
  const_cast<KernelHandle*>(static_cast<const KernelHandle*>(function))->shared_bytes =
      static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t handle) {
  TIDU_PLATFORM_ENTER();
  const auto* const kernel = static_cast<const KernelHandle*>(function);
  {
    const Lock lock(state().mutex);
    const CUstream_st* const stream = find_stream(handle);
    if (kernel == nullptr || stream == nullptr || stream->device != current_device())
      return refuse(cudaErrorInvalidResourceHandle, "a launch of no kernel, or on another device's stream");
    if (!fits(*kernel, grid, block, shared_bytes))
      return refuse(cudaErrorInvalidConfiguration, kernel->entry + " is launched beyond CUDA's limits");
  }
  Values values(kernel->parameters.size());
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(values[i].data(), arguments[i], 8);
  return put(handle, {{"kernel " + kernel->entry, touches_of(*kernel, values),
                       [kernel, grid, block, values] { run_kernel(*kernel, grid, block.x, values); }},
                      {}});
}
}

namespace tidu::cuda_detail {

int sort_by_radix(const SortCall& call, void* workspace, std::size_t& bytes) {
  if (const cudaError_t told = enter("sort_by_radix"); told != cudaSuccess) return told;
  const auto count = static_cast<std::size_t>(call.segments * call.length);
  const std::size_t needed = count * (call.key_bytes + 4) + 256;
  if (workspace == nullptr) {
    bytes = needed;
    return cudaSuccess;
  }
  if (bytes < needed) {
    const Lock lock(state().mutex);
    return refuse(cudaErrorInvalidValue, "a sort with too little workspace");
  }
  const std::vector<Touch> touches{{call.keys, count * call.key_bytes, false},
                                   {call.values, count * 4, false},
                                   {call.keys_out, count * call.key_bytes, true},
                                   {call.values_out, count * 4, true},
                                   {workspace, needed, true}};
  return put(static_cast<cudaStream_t>(call.stream), {{"sort", touches,
                                                       [call, workspace, needed] {
                                                         std::memset(workspace, 0x5a, needed);
                                                         sort(call);
                                                       }},
                                                      {}});
}

}  // namespace tidu::cuda_detail
