// streams.cpp - opening devices; streams that users see, and the one of a thread.
#include <cstdint>
#include <map>
#include <vector>

#include "cuda/kernels/kernel_compiler.hpp"
#include "cuda/opener.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace cuda_detail {
namespace {

// The streams that a thread has chosen, at most one for each device.
using Chosen = std::vector<std::shared_ptr<const CudaStream::State>>;
thread_local Chosen chosen_streams;

// The runtimes of this process by device. Never destroyed: tensors may outlive main.
struct Runtimes {
  std::mutex mutex;
  std::map<int, std::weak_ptr<Runtime>> by_device;
};
Runtimes& runtimes() {
  static Runtimes* const known = new Runtimes;
  return *known;
}

}  // namespace

const std::shared_ptr<Runtime>& Opener::runtime() {
  if (peek() != nullptr) return runtime_;
  const std::lock_guard lock(mutex_);
  if (runtime_ != nullptr) return runtime_;
  const std::uint32_t number = 1 + static_cast<std::uint32_t>(options_.device);
  if (device_ != nullptr) {
    runtime_ = std::make_shared<Runtime>(device_, memory_limit(*device_, options_.memory_limit), number);
  } else {
    const std::lock_guard all(runtimes().mutex);
    std::weak_ptr<Runtime>& known = runtimes().by_device[options_.device];
    runtime_ = known.lock();
    if (runtime_ == nullptr) {
      const std::string folder =
          options_.kernel_cache == "default" ? default_kernel_folder() : options_.kernel_cache;
      const std::shared_ptr<Device> device =
          open_device(options_.device, folder, options_.kernel_cache_bytes);
      runtime_ = std::make_shared<Runtime>(device, memory_limit(*device, options_.memory_limit), number);
      known = runtime_;
    } else if (options_.memory_limit != 0) {
      runtime_->pool().set_limit(memory_limit(runtime_->device(), options_.memory_limit));
    }
  }
  open_.store(runtime_.get(), std::memory_order_release);
  return runtime_;
}

Stream current_stream(Runtime& runtime) {
  for (const auto& state : chosen_streams)
    if (state->runtime.get() == &runtime) return state->stream;
  return runtime.default_stream();
}

// Sets the thread's stream for a device, and returns what was set; null of either: the default one.
std::shared_ptr<const CudaStream::State> choose_stream(const Runtime* runtime,
                                                       std::shared_ptr<const CudaStream::State> state) {
  for (auto at = chosen_streams.begin(); at != chosen_streams.end(); ++at) {
    if ((*at)->runtime.get() != runtime) continue;
    std::shared_ptr<const CudaStream::State> before = std::move(*at);
    if (state != nullptr) {
      *at = std::move(state);
    } else {
      chosen_streams.erase(at);
    }
    return before;
  }
  if (state != nullptr) chosen_streams.push_back(std::move(state));
  return nullptr;
}

namespace {

class StreamsOfThread final : public eager::ThreadState {
 public:
  explicit StreamsOfThread(Chosen chosen) : chosen_(std::move(chosen)) {}
  std::shared_ptr<const ThreadState> install() const override {
    auto before = std::make_shared<StreamsOfThread>(chosen_streams);
    chosen_streams = chosen_;
    return before;
  }

 private:
  Chosen chosen_;
};

}  // namespace
}  // namespace cuda_detail

std::shared_ptr<const eager::ThreadState> CudaExecutor::thread_state() const {
  return std::make_shared<cuda_detail::StreamsOfThread>(cuda_detail::chosen_streams);
}

CudaStream::State::~State() {
  if (leased) runtime->return_streams(std::span(&stream, 1), cuda_detail::Runtime::StreamUse::work);
}

CudaStream CudaStream::make(const CudaExecutor& executor) {
  const std::shared_ptr<cuda_detail::Runtime>& runtime = executor.opener_->runtime();
  const auto streams = runtime->lease_streams(1, cuda_detail::Runtime::StreamUse::work);
  return CudaStream(std::make_shared<const State>(runtime, streams[0], true));
}

void cuda_detail::refuse_stream_of_each_thread(const void* stream, std::string_view function) {
  // cudaStreamPerThread
  if (reinterpret_cast<std::uintptr_t>(stream) != 2) return;
  throw Error(ErrorKind::invalid_argument,
              detail::str('[', function,
                          "] expected a stream that is the same on every thread, got cudaStreamPerThread"));
}

CudaStream CudaStream::of(const CudaExecutor& executor, void* stream) {
  cuda_detail::refuse_stream_of_each_thread(stream, "CudaStream::of");
  const std::shared_ptr<cuda_detail::Runtime>& runtime = executor.opener_->runtime();
  const cuda_detail::Stream handle = cuda_detail::stream_of_caller(stream);
  runtime->pool().note_foreign(handle);
  return CudaStream(std::make_shared<const State>(runtime, handle, false));
}

CudaStream CudaStream::current(const CudaExecutor& executor) {
  const std::shared_ptr<cuda_detail::Runtime>& runtime = executor.opener_->runtime();
  for (const auto& state : cuda_detail::chosen_streams)
    if (state->runtime == runtime) return CudaStream(state);
  return CudaStream(std::make_shared<const State>(runtime, runtime->default_stream(), false));
}

void* CudaStream::handle() const { return state_->stream.handle; }
void CudaStream::synchronize() const { state_->runtime->device().synchronize(state_->stream); }

void CudaStream::wait(const CudaStream& other) const {
  if (other.state_->runtime != state_->runtime) return other.synchronize();
  state_->runtime->events().join(state_->stream, other.state_->stream);
}

CudaStreamGuard::CudaStreamGuard(CudaStream stream)
    : stream_(std::move(stream)),
      before_(cuda_detail::choose_stream(stream_.state_->runtime.get(), stream_.state_)) {}
CudaStreamGuard::~CudaStreamGuard() {
  cuda_detail::choose_stream(stream_.state_->runtime.get(), std::move(before_));
}

}  // namespace tidu
