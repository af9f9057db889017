// opener.hpp - Opener: the runtime of an executor's device, opened when it is first needed and shared by the
// executors of the process that want that device; and this thread's stream.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "cuda/runtime.hpp"
#include "tidu/cuda.hpp"

namespace tidu::cuda_detail {

class Opener {
 public:
  explicit Opener(const CudaOptions& options) : options_(options) {}
  Opener(std::shared_ptr<Device> device, const CudaOptions& options)
      : options_(options), device_(std::move(device)) {}
  /// Throws Error (execution) when there is no device.
  const std::shared_ptr<Runtime>& runtime();
  /// The same, or null when it is not open.
  Runtime* peek() const { return open_.load(std::memory_order_acquire); }

 private:
  CudaOptions options_;
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;
  std::atomic<Runtime*> open_{nullptr};
};

/// The stream that this thread's work on that runtime goes to, and whether it was chosen (it is the default
/// one if not).
Stream current_stream(Runtime& runtime);
/// Throws Error (invalid_argument) for cudaStreamPerThread: what is noted of it on one thread is of another
/// stream on the next.
void refuse_stream_of_each_thread(const void* stream, std::string_view function);

}  // namespace tidu::cuda_detail

namespace tidu {

struct CudaStream::State {
  State(std::shared_ptr<cuda_detail::Runtime> r, cuda_detail::Stream s, bool l)
      : runtime(std::move(r)), stream(s), leased(l) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();
  std::shared_ptr<cuda_detail::Runtime> runtime;
  cuda_detail::Stream stream;
  bool leased;
};

}  // namespace tidu
