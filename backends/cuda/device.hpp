// device.hpp - Device: all that the executor asks of a GPU, in handles that name no type of CUDA's. The real
// one is in runtime_device.cpp; tests have one that records what it is asked, runs it in the host's memory
// and checks that nothing is read before what made it was waited for.
//
// Work is put on streams and runs later, in the order of each stream; only synchronize() waits. Addresses of
// device memory are not for the host to read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cuda/plan.hpp"

namespace tidu::cuda_detail {

/// What a device is.
struct DeviceProperties {
  std::string name;
  int major = 9, minor = 0;  ///< compute capability
  int multiprocessors = 132;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
};

/// Handles are the device's; null is none. A null Stream is the device's default stream.
struct Stream {
  void* handle = nullptr;
  friend bool operator==(Stream, Stream) = default;
};
/// CUDA's default stream (cudaStreamLegacy), which a null cudaStream_t is, too. A null Stream is the
/// executor's default, which does not wait for that one.
// NOLINTNEXTLINE(performance-no-int-to-ptr): a handle that CUDA defines so
inline Stream legacy_stream() { return {reinterpret_cast<void*>(std::uintptr_t{1})}; }
/// The stream that a caller names.
inline Stream stream_of_caller(void* stream) { return stream != nullptr ? Stream{stream} : legacy_stream(); }
struct Event {
  void* handle = nullptr;
};
/// A loaded kernel, which lives as long as the device.
struct Kernel {
  void* handle = nullptr;
};
/// NCCL's ncclUniqueId.
using CommunicatorKey = std::array<std::byte, 128>;
/// What was captured, made ready to be launched.
struct ReplayGraph {
  void* handle = nullptr;
};

/// A piece of device memory.
struct Memory {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
};

/// The addresses of the buffers of a plan in one run.
struct Bindings {
  std::span<const Memory> operands;
  std::span<const Memory> results;
  Memory scratch;

  /// The rest of the buffer from that offset on.
  Memory memory(const BufferRef& ref) const {
    const Memory& whole = ref.kind == BufferRef::Kind::operand  ? operands[ref.index]
                          : ref.kind == BufferRef::Kind::result ? results[ref.index]
                                                                : scratch;
    return {whole.at + ref.offset, whole.bytes - ref.offset};
  }
  std::byte* at(const BufferRef& ref) const { return memory(ref).at; }
};

/// How often a device was asked for what costs time.
struct DeviceCounters {
  std::uint64_t synchronizations = 0;  ///< the host waited for work of the device
  std::uint64_t kernels_compiled = 0;  ///< by NVRTC, not found in a cache
  std::uint64_t launches = 0;          ///< kernels launched one by one
  std::uint64_t graph_launches = 0;    ///< captured programs launched
  std::uint64_t captures = 0;
};

/// A device. Any thread may call anything at any time, but what is done to one stream, or within one capture,
/// comes from one thread at a time. All throw Error: execution for what the device refused, with CUDA's name
/// for it; out_of_memory.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device();

  virtual const DeviceProperties& properties() const = 0;
  virtual DeviceCounters counters() const = 0;

  // --- memory

  /// Memory for whoever uses it on any stream from now on, aligned to 256 bytes; null when there is none
  /// left. May wait for the device. Never called while something is captured on the calling thread.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// May wait for the device.
  virtual void deallocate(std::byte* at, std::size_t bytes) noexcept = 0;
  /// Memory of the host that copies are fast from and to; null when there is none left.
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  virtual void deallocate_pinned(std::byte* at, std::size_t bytes) noexcept = 0;

  /// `from` is pinned memory, which stays as it is until the copy is done.
  virtual void copy_to_device(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) = 0;
  /// `to` is pinned memory, which is written when the stream is there.
  virtual void copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) = 0;
  /// Within the device; no overlap.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) = 0;
  /// Zeroes.
  virtual void clear(std::byte* at, std::size_t bytes, Stream stream) = 0;

  // --- streams and events

  /// One that waits for no other by itself.
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  /// `timed`: elapsed() may be asked of it.
  virtual Event create_event(bool timed = false) = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  /// The event is now the point behind all that was put on the stream.
  virtual void record(Event event, Stream stream) = 0;
  /// What is put on the stream from now on runs after that point.
  virtual void wait(Stream stream, Event event) = 0;
  /// Has that point been passed?
  virtual bool is_done(Event event) = 0;
  /// Milliseconds between two points that have been passed.
  virtual double elapsed(Event begin, Event end) = 0;
  /// Waits until all that was put on the stream is done. Throws what failed on the device.
  virtual void synchronize(Stream stream) = 0;
  /// Waits until all work on the device is done, that of streams which others have made too. Throws as
  /// synchronize().
  virtual void synchronize_all() = 0;

  // --- work

  /// The kernel for this text, compiled at most once for the device and kept on disk where there is a folder
  /// for that. Throws Error (internal) with the compiler's log for a text that does not compile.
  virtual Kernel load(const KernelSource& source) = 0;
  /// `launch.kernel` was loaded as `kernel`.
  virtual void launch(const Launch& launch, Kernel kernel, const Bindings& at, Stream stream) = 0;
  /// By the libraries.
  virtual void run(const GemmStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const ConvolutionStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const SortStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const SolverStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const CollectiveStep& step, const Bindings& at, Stream stream) = 0;
  /// Bytes that a library works in; 0 for steps of other kinds. Never called while something is captured.
  virtual std::size_t workspace_bytes(const Step& step) const = 0;
  /// May the step be captured? Not where the library waits for the device.
  virtual bool can_capture(const Step& step) const = 0;

  // --- communicators

  /// What the ranks of a new communicator agree on.
  virtual CommunicatorKey communicator_id() = 0;
  /// This device's rank in it. Returns when all ranks have come.
  virtual void* join(const CommunicatorKey& id, int rank, int ranks) = 0;
  virtual void leave(void* communicator) noexcept = 0;

  // --- capture

  /// From here on, work put on the stream, and on streams that wait for events recorded there, is not run but
  /// kept.
  virtual void begin_capture(Stream stream) = 0;
  /// What was kept. `previous`, when there is one, is changed to it where that is possible, and destroyed
  /// where not. When it throws, nothing is being captured, and `previous` is destroyed.
  virtual ReplayGraph end_capture(Stream stream, ReplayGraph previous) = 0;
  /// Ends a capture of which nothing is wanted.
  virtual void abandon_capture(Stream stream) noexcept = 0;
  virtual void launch(ReplayGraph graph, Stream stream) = 0;
  virtual void destroy_graph(ReplayGraph graph) noexcept = 0;
};

/// Device `ordinal` of this machine by the CUDA runtime. Kernels that were compiled are kept in
/// `cache_folder`, in at most `cache_bytes`, unless it is empty. Throws Error (execution) in one line when
/// there is no such device, or no driver.
std::shared_ptr<Device> open_device(int ordinal, const std::string& cache_folder, std::uint64_t cache_bytes);

}  // namespace tidu::cuda_detail
