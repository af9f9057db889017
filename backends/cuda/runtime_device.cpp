// runtime_device.cpp - the device of the CUDA runtime. The runtime is linked statically and finds the driver
// when it is first called, so that a machine without one is an error like others.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>

#include "cuda/device.hpp"
#include "cuda/device_scope.hpp"
#include "cuda/kernels/kernel_compiler.hpp"
#include "cuda/libraries/libraries.hpp"
#include "cuda/rules/library_rules.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

// Kernels may use so much shared memory without asking.
constexpr std::uint32_t usual_shared_bytes = 48 * 1024;

[[noreturn]] void raise(cudaError_t error, const char* call) {
  const ErrorKind kind = error == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::execution;
  (void)cudaGetLastError();  // what is not sticky is over with this
  throw Error(kind,
              detail::str("[cuda] ", call, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error)));
}
void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) [[unlikely]]
    raise(error, call);
}

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t native(Event event) { return static_cast<cudaEvent_t>(event.handle); }
cudaGraphExec_t native(ReplayGraph graph) { return static_cast<cudaGraphExec_t>(graph.handle); }

// Does this thread capture? All of one capture comes from one thread, and a thread has one at a time.
thread_local bool is_capturing = false;

class RuntimeDevice final : public Device {
 public:
  RuntimeDevice(int ordinal, const cudaDeviceProp& properties, const std::string& cache_folder,
                std::uint64_t cache_bytes)
      : ordinal_(ordinal),
        compiler_(properties.major, properties.minor, cache_folder, cache_bytes),
        libraries_(make_libraries()) {
    properties_.name = properties.name;
    properties_.major = properties.major;
    properties_.minor = properties.minor;
    properties_.multiprocessors = properties.multiProcessorCount;
    properties_.memory_bytes = properties.totalGlobalMem;
    properties_.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  }
  ~RuntimeDevice() override {
    const DeviceScope scope(ordinal_, std::nothrow);
    libraries_.reset();
    for (const auto& [text, loaded] : kernels_) cudaLibraryUnload(loaded.library);
  }

  const DeviceProperties& properties() const override { return properties_; }
  DeviceCounters counters() const override {
    return {synchronizations_, compiled_, launches_, graph_launches_, captures_};
  }

  std::byte* allocate(std::size_t bytes) override {
    const DeviceScope scope = here();
    void* at = nullptr;
    const cudaError_t error = cudaMalloc(&at, bytes);
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return nullptr;
    }
    check(error, "cudaMalloc");
    return static_cast<std::byte*>(at);
  }
  void deallocate(std::byte* at, std::size_t) noexcept override {
    const DeviceScope scope(ordinal_, std::nothrow);
    cudaFree(at);
  }
  std::byte* allocate_pinned(std::size_t bytes) override {
    const DeviceScope scope = here();
    void* at = nullptr;
    const cudaError_t error = cudaHostAlloc(&at, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return nullptr;
    }
    check(error, "cudaHostAlloc");
    return static_cast<std::byte*>(at);
  }
  void deallocate_pinned(std::byte* at, std::size_t) noexcept override {
    const DeviceScope scope(ordinal_, std::nothrow);
    cudaFreeHost(at);
  }

  void copy_to_device(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;  // an address of nothing may be null
    const DeviceScope scope = here();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream)), "cudaMemcpyAsync");
  }
  void copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;  // an address of nothing may be null
    const DeviceScope scope = here();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, native(stream)), "cudaMemcpyAsync");
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;  // an address of nothing may be null
    const DeviceScope scope = here();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream)), "cudaMemcpyAsync");
  }
  void clear(std::byte* at, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;  // an address of nothing may be null
    const DeviceScope scope = here();
    check(cudaMemsetAsync(at, 0, bytes, native(stream)), "cudaMemsetAsync");
  }

  Stream create_stream() override {
    const DeviceScope scope = here();
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return {stream};
  }
  void destroy_stream(Stream stream) noexcept override {
    const DeviceScope scope(ordinal_, std::nothrow);
    cudaStreamDestroy(native(stream));
  }
  Event create_event(bool timed) override {
    const DeviceScope scope = here();
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    return {event};
  }
  void destroy_event(Event event) noexcept override {
    const DeviceScope scope(ordinal_, std::nothrow);
    cudaEventDestroy(native(event));
  }
  void record(Event event, Stream stream) override {
    const DeviceScope scope = here();
    check(cudaEventRecord(native(event), native(stream)), "cudaEventRecord");
  }
  void wait(Stream stream, Event event) override {
    const DeviceScope scope = here();
    check(cudaStreamWaitEvent(native(stream), native(event), 0), "cudaStreamWaitEvent");
  }
  bool is_done(Event event) override {
    const DeviceScope scope = here();
    const cudaError_t error = cudaEventQuery(native(event));
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();  // CUB asks for it after its launches
      return false;
    }
    check(error, "cudaEventQuery");
    return true;
  }
  double elapsed(Event begin, Event end) override {
    const DeviceScope scope = here();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, native(begin), native(end)), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds);
  }
  void synchronize(Stream stream) override {
    const DeviceScope scope = here();
    ++synchronizations_;
    if (libraries_->has_communicators()) await(stream);
    check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
  }
  void synchronize_all() override {
    const DeviceScope scope = here();
    ++synchronizations_;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  Kernel load(const KernelSource& source) override;
  void launch(const Launch& launch, Kernel kernel, const Bindings& at, Stream stream) override;
  void run(const GemmStep& step, const Bindings& at, Stream stream) override {
    const DeviceScope scope = here();
    if (libraries_->run(step, at, stream)) return;
    const Launch own = own_matmul(step, properties_.multiprocessors);
    launch(own, load(*own.kernel), at, stream);
  }
  void run(const ConvolutionStep& step, const Bindings& at, Stream stream) override {
    run_step(step, at, stream);
  }
  void run(const SortStep& step, const Bindings& at, Stream stream) override { run_step(step, at, stream); }
  void run(const SolverStep& step, const Bindings& at, Stream stream) override { run_step(step, at, stream); }
  void run(const CollectiveStep& step, const Bindings& at, Stream stream) override {
    run_step(step, at, stream);
  }
  std::size_t workspace_bytes(const Step& step) const override {
    const DeviceScope scope = here();
    return libraries_->workspace_bytes(step);
  }
  CommunicatorKey communicator_id() override { return libraries_->communicator_id(); }
  void* join(const CommunicatorKey& id, int rank, int ranks) override {
    const DeviceScope scope = here();
    return libraries_->join(id, rank, ranks);
  }
  void leave(void* communicator) noexcept override {
    const DeviceScope scope(ordinal_, std::nothrow);
    libraries_->leave(communicator);
  }
  bool can_capture(const Step& step) const override {
    const DeviceScope scope = here();
    return std::holds_alternative<Launch>(step) || std::holds_alternative<CopyStep>(step) ||
           std::holds_alternative<ClearStep>(step) || libraries_->can_capture(step);
  }

  // Other threads may allocate meanwhile.
  void begin_capture(Stream stream) override {
    const DeviceScope scope = here();
    ++captures_;
    check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    is_capturing = true;
  }
  ReplayGraph end_capture(Stream stream, ReplayGraph previous) override;
  void abandon_capture(Stream stream) noexcept override {
    const DeviceScope scope(ordinal_, std::nothrow);
    is_capturing = false;
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(native(stream), &graph) == cudaSuccess && graph != nullptr)
      cudaGraphDestroy(graph);
    (void)cudaGetLastError();
  }
  void launch(ReplayGraph graph, Stream stream) override {
    const DeviceScope scope = here();
    ++graph_launches_;
    check(cudaGraphLaunch(native(graph), native(stream)), "cudaGraphLaunch");
  }
  void destroy_graph(ReplayGraph graph) noexcept override {
    if (graph.handle == nullptr) return;
    const DeviceScope scope(ordinal_, std::nothrow);
    cudaGraphExecDestroy(native(graph));
  }

 private:
  struct Loaded {
    cudaLibrary_t library = nullptr;
    cudaKernel_t kernel = nullptr;
  };
  // Until the stream is done, or a rank of a collective that it may wait for has failed.
  void await(Stream stream) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    while (cudaStreamQuery(native(stream)) == cudaErrorNotReady) {
      (void)cudaGetLastError();
      libraries_->check_communicators(Clock::now() - begin);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    libraries_->check_communicators(std::chrono::seconds(0));
  }
  // This thread's calls are for this device, whatever another library has chosen since.
  DeviceScope here() const { return DeviceScope(ordinal_); }
  template <class LibraryStep>
  void run_step(const LibraryStep& step, const Bindings& at, Stream stream) {
    const DeviceScope scope = here();
    libraries_->run(step, at, stream);
  }

  int ordinal_;
  DeviceProperties properties_;
  KernelCompiler compiler_;
  std::unique_ptr<Libraries> libraries_;
  std::mutex mutex_;
  std::unordered_map<std::string, Loaded> kernels_;  // by text
  std::atomic<std::uint64_t> synchronizations_{0}, compiled_{0}, launches_{0}, graph_launches_{0},
      captures_{0};
};

// Two threads may compile one text at once; the first to be done is kept.
Kernel RuntimeDevice::load(const KernelSource& source) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = kernels_.find(source.text); at != kernels_.end()) return {at->second.kernel};
  }
  bool compiled = false;
  const std::vector<char> code = compiler_.compile(source, &compiled);
  const DeviceScope scope = here();
  Loaded loaded;
  check(cudaLibraryLoadData(&loaded.library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
  const cudaError_t error = cudaLibraryGetKernel(&loaded.kernel, loaded.library, source.entry.c_str());
  if (error != cudaSuccess) {
    cudaLibraryUnload(loaded.library);
    raise(error, "cudaLibraryGetKernel");
  }
  if (compiled) ++compiled_;
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = kernels_.emplace(source.text, loaded);
  if (!fresh) cudaLibraryUnload(loaded.library);
  return {at->second.kernel};
}

void RuntimeDevice::launch(const Launch& launch, Kernel kernel, const Bindings& at, Stream stream) {
  const DeviceScope scope = here();
  std::byte* places[max_arguments];
  void* arguments[max_arguments];
  const std::size_t count = launch.arguments.size();
  if (count > max_arguments) {
    throw Error(ErrorKind::internal, detail::str("[cuda] expected at most ", max_arguments, " arguments of ",
                                                 launch.kernel->entry, ", got ", count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Argument& argument = launch.arguments[i];
    if (argument.is_place) {
      places[i] = at.at(argument.place);
      arguments[i] = static_cast<void*>(&places[i]);
    } else {
      arguments[i] = const_cast<std::byte*>(argument.value.data());
    }
  }
  if (launch.shared_bytes > usual_shared_bytes) {
    check(cudaFuncSetAttribute(kernel.handle, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(launch.shared_bytes)),
          "cudaFuncSetAttribute");
  }
  if (!is_capturing) ++launches_;
  check(cudaLaunchKernel(kernel.handle, dim3(launch.grid[0], launch.grid[1], launch.grid[2]),
                         dim3(launch.block), arguments, launch.shared_bytes, native(stream)),
        "cudaLaunchKernel");
}

ReplayGraph RuntimeDevice::end_capture(Stream stream, ReplayGraph previous) {
  const DeviceScope scope(ordinal_, std::nothrow);
  is_capturing = false;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = native(previous);
  const cudaError_t ended = cudaStreamEndCapture(native(stream), &graph);
  if (ended != cudaSuccess) {
    destroy_graph(previous);
    raise(ended, "cudaStreamEndCapture");
  }
  cudaError_t error = cudaSuccess;
  if (made != nullptr) {
    cudaGraphExecUpdateResultInfo info;
    if (cudaGraphExecUpdate(made, graph, &info) !=
        cudaSuccess) {  // the graphs differ in more than parameters
      (void)cudaGetLastError();
      destroy_graph(previous);
      made = nullptr;
    }
  }
  if (made == nullptr) error = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "cudaGraphInstantiate");
  return {made};
}

[[noreturn]] void refuse_device(int ordinal, const std::string& got) {
  throw Error(ErrorKind::execution, detail::str("no CUDA device: expected device ", ordinal, ", got ", got));
}

}  // namespace

std::shared_ptr<Device> open_device(int ordinal, const std::string& cache_folder, std::uint64_t cache_bytes) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess) refuse_device(ordinal, detail::str("none (", cudaGetErrorString(counted), ')'));
  if (ordinal < 0 || ordinal >= count) refuse_device(ordinal, detail::str("a machine with ", count));
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) refuse_device(ordinal, cudaGetErrorString(error));
  return std::make_shared<RuntimeDevice>(ordinal, properties, cache_folder, cache_bytes);
}

}  // namespace tidu::cuda_detail
