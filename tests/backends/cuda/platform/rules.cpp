// What the platform itself refuses and finds: rules of CUDA that the executor keeps, broken here on purpose.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <array>

#include "cuda/platform/platform.hpp"

namespace tidu::test::platform {
namespace {

struct Resources {
  static constexpr std::size_t bytes = 1024;
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  std::byte *x = nullptr, *y = nullptr, *pinned = nullptr;
  Resources() {
    CHECK(cudaSetDevice(0) == cudaSuccess);  // not where another test has left it
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    for (std::byte** const at : {&x, &y})
      CHECK(cudaMalloc(reinterpret_cast<void**>(at), bytes) == cudaSuccess);
    CHECK(cudaHostAlloc(reinterpret_cast<void**>(&pinned), bytes, cudaHostAllocDefault) == cudaSuccess);
  }
  ~Resources() {
    cudaFree(x);
    cudaFree(y);
    cudaFreeHost(pinned);
    cudaEventDestroy(event);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }
  void clear(std::byte* at, cudaStream_t on) const { (void)cudaMemsetAsync(at, 1, bytes, on); }
};

// The one fault, or what is found instead.
std::string fault() {
  const std::vector<std::string> all = take_faults();
  (void)cudaGetLastError();
  return all.size() == 1 ? all[0] : std::to_string(all.size()) + " faults";
}
bool says(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("The platform finds a missing event between streams, and none where there is one") {
  const Resources r;
  r.clear(r.x, r.a);
  (void)cudaMemcpyAsync(r.y, r.x, 8, cudaMemcpyDeviceToDevice, r.b);
  CHECK(says(fault(), "a copy reads what cudaMemsetAsync writes, and no event orders them"));
  CHECK(cudaStreamSynchronize(r.b) == cudaSuccess);
  r.clear(r.x, r.a);
  CHECK(cudaEventRecord(r.event, r.a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(r.b, r.event, 0) == cudaSuccess);
  (void)cudaMemcpyAsync(r.y, r.x, 8, cudaMemcpyDeviceToDevice, r.b);
  CHECK(cudaEventQuery(r.event) == cudaErrorNotReady);
  CHECK(cudaStreamSynchronize(r.b) == cudaSuccess);
  r.clear(r.x, r.a);  // the host has waited for the copy
  CHECK(take_faults().empty());
}

TEST_CASE("Memory of the host is written when the host has waited, and read until then") {
  const Resources r;
  (void)cudaMemsetAsync(r.x, 7, Resources::bytes, r.a);
  (void)cudaMemcpyAsync(r.pinned, r.x, 8, cudaMemcpyDeviceToHost, r.a);
  CHECK(r.pinned[3] != std::byte{7});
  CHECK(cudaStreamSynchronize(r.a) == cudaSuccess);
  CHECK(r.pinned[3] == std::byte{7});
  (void)cudaMemcpyAsync(r.y, r.pinned, 8, cudaMemcpyHostToDevice, r.a);
  r.pinned[3] = std::byte{8};
  CHECK(cudaStreamSynchronize(r.a) == cudaSuccess);
  CHECK(says(fault(), "written before a copy from it was waited for"));
}

TEST_CASE("A capture refuses memory, questions, what is outside of it, and streams that are not joined") {
  const Resources r;
  cudaGraph_t graph = nullptr;
  const auto begin = [&] { return cudaStreamBeginCapture(r.a, cudaStreamCaptureModeThreadLocal); };
  void* at = nullptr;
  CHECK(begin() == cudaSuccess);
  CHECK(cudaMalloc(&at, 8) == cudaErrorStreamCaptureUnsupported);
  CHECK(says(fault(), "cudaMalloc by a thread that captures"));
  CHECK(cudaStreamEndCapture(r.a, &graph) == cudaErrorStreamCaptureInvalidated);

  CHECK(cudaEventRecord(r.event, r.b) == cudaSuccess);
  CHECK(begin() == cudaSuccess);
  CHECK(cudaStreamWaitEvent(r.a, r.event, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(says(fault(), "waits for what is outside"));
  CHECK(cudaStreamEndCapture(r.a, &graph) == cudaErrorStreamCaptureInvalidated);

  CHECK(begin() == cudaSuccess);
  CHECK(cudaEventRecord(r.event, r.a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(r.b, r.event, 0) == cudaSuccess);
  r.clear(r.x, r.b);
  CHECK(cudaEventQuery(r.event) == cudaErrorStreamCaptureUnsupported);
  CHECK(says(fault(), "cudaEventQuery by a thread that captures"));
  CHECK(cudaStreamEndCapture(r.a, &graph) == cudaErrorStreamCaptureInvalidated);

  CHECK(begin() == cudaSuccess);
  CHECK(cudaEventRecord(r.event, r.a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(r.b, r.event, 0) == cudaSuccess);
  r.clear(r.x, r.b);
  CHECK(cudaStreamEndCapture(r.a, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(says(fault(), "that nothing waits for"));
  CHECK(held().captures == 0);
}

TEST_CASE("Calls with handles that are none, pageable memory, or another device's are refused") {
  const Resources r;
  std::array<std::byte, 8> pageable{};
  CHECK(cudaMemcpyAsync(pageable.data(), r.x, 8, cudaMemcpyDeviceToHost, r.a) == cudaErrorInvalidValue);
  CHECK(says(fault(), "not pinned"));
  CHECK(cudaMemcpyAsync(r.y, r.x, Resources::bytes + 1, cudaMemcpyDeviceToDevice, r.a) ==
        cudaErrorInvalidValue);
  CHECK(says(fault(), "beyond its memory"));
  auto* const none = reinterpret_cast<cudaStream_t>(r.x);
  CHECK(cudaStreamSynchronize(none) == cudaErrorInvalidResourceHandle);
  CHECK(says(fault(), "a handle that is none"));
  CHECK(cudaFree(r.x + 8) == cudaErrorInvalidValue);
  CHECK(says(fault(), "what was not allocated"));
  CHECK(cudaSetDevice(1) == cudaSuccess);
  cudaStream_t other = nullptr;
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  r.clear(r.x, other);
  CHECK(says(fault(), "memory of device 0 on device 1"));
  CHECK(cudaEventRecord(r.event, other) == cudaErrorInvalidResourceHandle);
  CHECK(says(fault(), "on another device"));
  cudaStreamDestroy(other);
  CHECK(cudaSetDevice(0) == cudaSuccess);
}

}  // namespace tidu::test::platform
