// cuda.hpp - CudaExecutor: compiles graphs to kernels, library calls and captured programs for an NVIDIA GPU,
// and runs them on the caller's stream. Opt-in: tidu::cuda is built if there is a CUDA toolkit. This header
// names no type of CUDA; the caller's stream is passed as the pointer that cudaStream_t is. A program that
// links it starts on machines without a driver. See docs/cuda.md.
//
// A tensor that this executor makes has its elements in the device's memory. It is an ordinary Tensor: a read
// on the host waits for the elements and copies them. No other operation waits for the device. The thread's
// current CUDA device is the same after each call, unless the process has never used that one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/eager/executor.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/tensor/executor.hpp"
#include "tidu/tensor/inspect.hpp"

struct DLManagedTensorVersioned;

namespace tidu {

namespace cuda_detail {
class Compiled;
struct Communicator;
class Device;
class Runtime;
class Opener;
class Watched;
using Axes = std::map<std::string, std::shared_ptr<const Communicator>, std::less<>>;
}  // namespace cuda_detail

/// How a graph is compiled for a device.
struct CudaCompileOptions {
  bool fuse = true;            ///< may a kernel take several operations?
  OptimizeOptions optimize{};  ///< options of optimize(), which runs first
};

/// How the CUDA executor runs.
struct CudaOptions {
  int device = 0;  ///< which of this machine's, as CUDA counts them
  /// Most bytes of device memory that tensors and temporaries may hold, those kept for reuse included; 0: all
  /// that there is. Executors of one device share its memory: the last limit that is not 0 holds.
  std::size_t memory_limit = 0;
  /// Let matmuls in f32 round their operands to tf32, which has 10 bits of mantissa.
  bool tf32 = false;
  /// Let programs that run again on the same memory be captured, and launched as one.
  bool replay = true;
  /// Streams that independent operations of one program may run on at once.
  int streams = 4;
  /// The directory of compiled kernels, shared between processes. "default": $TIDU_KERNEL_CACHE, or
  /// tidu/kernels in $XDG_CACHE_HOME or ~/.cache; empty: none. If a device has several executors, the first
  /// one's option holds.
  std::string kernel_cache = "default";
  /// Most bytes of the files there; beyond them those go that were not read for longest.
  std::uint64_t kernel_cache_bytes = std::uint64_t{1} << 30;
  /// How graphs are compiled.
  CudaCompileOptions compile{};
};

/// Counters of an executor's device, and the memory that it holds.
struct CudaStatistics {
  std::size_t memory_in_use = 0;       ///< bytes of tensors and temporaries
  std::size_t memory_held = 0;         ///< bytes of the device's memory, those kept for reuse included
  std::size_t memory_peak = 0;         ///< most bytes that were in use
  std::size_t memory_limit = 0;        ///< of memory_held
  std::uint64_t allocations = 0;       ///< requests for memory to the device
  std::uint64_t synchronizations = 0;  ///< how often the host has waited for the device
  std::uint64_t kernels_compiled = 0;  ///< and not found in the cache
  std::uint64_t launches = 0;          ///< of kernels, one by one
  std::uint64_t captures = 0;          ///< programs captured
  std::uint64_t replays = 0;           ///< captured programs launched
  std::uint64_t refused_captures = 0;  ///< that failed, so that a program ran step by step
  std::string last_refusal;            ///< why the last of them was
};

class CudaExecutor;
struct CudaAxis;

/// A stream of a device: work that is put there runs in order. Copies name the same stream. One made by
/// make() is given back with its last copy, for others to use.
class CudaStream {
 public:
  /// One of its own.
  static CudaStream make(const CudaExecutor& executor);
  /// The caller's, a cudaStream_t, which outlives every tensor that was made or read on it. Null is CUDA's
  /// default stream, as everywhere in CUDA. Throws Error (invalid_argument) for cudaStreamPerThread, here and
  /// wherever a stream is taken: that is another one on each thread.
  static CudaStream of(const CudaExecutor& executor, void* stream);
  /// This thread's stream: that of the innermost CudaStreamGuard, or the executor's default, which is none of
  /// CUDA's.
  static CudaStream current(const CudaExecutor& executor);
  /// A cudaStream_t.
  void* handle() const;
  /// Waits until all work of the stream is done. Throws Error (execution) with the error of the device.
  void synchronize() const;
  /// Work that is enqueued here from now on runs after the work enqueued on `other` so far.
  void wait(const CudaStream& other) const;
  struct State;  ///< its own

 private:
  friend class CudaStreamGuard;
  explicit CudaStream(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// This thread's work on the stream's device goes there; backward calls carry it to the threads that work for
/// them.
class CudaStreamGuard {
 public:
  /// Until it is destroyed.
  explicit CudaStreamGuard(CudaStream stream);
  ~CudaStreamGuard();
  CudaStreamGuard(const CudaStreamGuard&) = delete;
  CudaStreamGuard& operator=(const CudaStreamGuard&) = delete;

 private:
  CudaStream stream_;
  std::shared_ptr<const CudaStream::State> before_;
};

/// A compiled program; copies share it. Any number of threads may run it at once.
class CudaExecutable {
 public:
  /// For the executor itself.
  explicit CudaExecutable(std::shared_ptr<const cuda_detail::Compiled> compiled)
      : compiled_(std::move(compiled)) {}

  /// Enqueues a run on this thread's stream, and returns the outputs, whose elements it will compute. Later
  /// work on that stream may use them, and other streams of tidu wait for them. Inputs that are not on the
  /// device are copied there. The executor remains usable after an error. Errors: invalid_argument for
  /// another number of inputs, type for an input of another type, execution for an error of the device,
  /// out_of_memory. A later call that waits for the device reports errors of running work.
  Result<std::vector<Tensor>> try_run(std::span<const Tensor> inputs) const;
  /// As try_run, but throws.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) const;
  /// On that stream.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const CudaStream& stream) const;
  /// The same at lower cost: inputs by pointer, and each of `outputs` is assigned its output. Throws Error.
  void run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const;

  /// The operations that it runs, optimized.
  const Graph& graph() const;
  /// Kernels, calls and copies of a run.
  std::size_t num_steps() const;
  /// Bytes of temporaries of a run.
  std::size_t workspace_bytes() const;
  /// Memory that it keeps between runs, also on the device; an estimate.
  std::size_t kept_bytes() const;

 private:
  friend class CudaExecutor;
  std::shared_ptr<const cuda_detail::Compiled> compiled_;
};

/// The identity of a communicator. One of its ranks makes it and sends the bytes to the others by other
/// means: MPI_Bcast, a file, a socket.
struct CudaCommunicatorId {
  std::array<std::byte, 128> bytes{};  ///< as NCCL fills them
  /// Throws Error (execution), in one line where there is no device or NCCL is not installed.
  static CudaCommunicatorId make(const CudaExecutor& executor);
};

/// One rank of a communicator of devices, each with its own process or thread, which exchange data by NCCL.
/// Copies refer to the same rank; it leaves the communicator with the last copy and the last program that
/// uses it.
class CudaCommunicator {
 public:
  /// Joins as rank `rank` of `size`. All ranks call it, on different devices; it returns when all have.
  /// Throws Error: invalid_argument for a rank that is not below size, execution as CudaCommunicatorId::make
  /// and for an error of NCCL.
  static CudaCommunicator join(const CudaExecutor& executor, const CudaCommunicatorId& id, int rank,
                               int size);
  int rank() const;
  int size() const;

 private:
  friend CudaExecutor with_axes(const CudaExecutor& executor, const std::vector<CudaAxis>& axes);
  explicit CudaCommunicator(std::shared_ptr<const cuda_detail::Communicator> held) : held_(std::move(held)) {}
  std::shared_ptr<const cuda_detail::Communicator> held_;
};

/// The name of an axis, as operations name it, and the devices along it.
struct CudaAxis {
  std::string name;               ///< as operations name it
  CudaCommunicator communicator;  ///< of the devices along it
};

/// `executor` with collectives (psum, all_gather, reduce_scatter, ppermute) over these axes, and over no
/// others but those of one rank. All ranks run the same collectives in one order, as programs that are
/// compiled from equal graphs do, from one thread at a time. Throws Error (invalid_argument) for a name that
/// is empty or bound twice, and a communicator of another device. Compiling throws Error (execution) where an
/// op's axis is not bound, or its axis_size is not the communicator's size.
CudaExecutor with_axes(const CudaExecutor& executor, const std::vector<CudaAxis>& axes);

/// Compiles each graph once (see compile_cache()) and runs it on a device. The device is opened on first use;
/// without a device, calls that need it throw Error (execution) in one line. Results equal the reference
/// executor's up to rounding, and are the same to the last bit from run to run.
class CudaExecutor final : public Executor, public TensorOperands<eager::BackwardExecutor<Tensor>> {
 public:
  /// On the device that `options` name.
  explicit CudaExecutor(const CudaOptions& options = CudaOptions());
  /// On a device of tidu's tests, or another that speaks its interface.
  CudaExecutor(std::shared_ptr<cuda_detail::Device> device, const CudaOptions& options);

  std::string_view name() const override { return "cuda"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override;
  /// Needs no device.
  bool supports(const Primitive& primitive, DType dtype) const override;

  /// Each graph is compiled the first time, and kept in its slot in front of compile_cache().
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override;
  Result<Values> run_transposed_linear(const eager::GraphCall& call,
                                       std::span<const Tensor* const> inputs) const override;
  void run_at(const eager::GraphCall& call, bool linear, std::span<const Tensor* const> inputs,
              Tensor* out) const override;
  Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override;
  /// It does.
  bool wide_accumulation() const override { return true; }

  /// 1 + the device's number for tensors that are there; none for the host's, which any device takes.
  std::optional<std::uint32_t> device_of(const Tensor& tensor) const override;
  bool watch_finite(const Tensor& tensor, const std::function<void()>& report) const override;
  void check_watched() const override;
  /// The tensor on this device; itself where it is there.
  Result<Tensor> put(const Tensor& tensor) const override;
  /// This thread's stream (CudaStreamGuard); the number is the handle's address.
  eager::Placement current_placement() const override;
  eager::Event record(eager::Placement placement) const override;
  void wait(eager::Placement placement, const eager::Event& event) const override;
  std::shared_ptr<const eager::ThreadState> thread_state() const override;
  /// Records steps of programs, replayed programs and copies, of all threads, with the begin and end of each
  /// on its stream. It enqueues events there, and events() of the profile reads them. If there are two
  /// profiles at a time, the later one receives them. Opens the device.
  std::shared_ptr<const void> profile_device(eager::Profile& profile) const override;

  /// The executable may come from compile_cache(); a graph with its own options is always compiled. Control
  /// flow is unrolled, and the graph optimized. Errors: those of optimize; execution for a missing kernel,
  /// naming operation and source location, or without a device; out_of_memory.
  Result<CudaExecutable> try_compile(const Graph& graph) const;
  Result<CudaExecutable> try_compile(const Graph& graph, const CudaCompileOptions& options) const;
  CudaExecutable compile(const Graph& graph) const { return std::move(try_compile(graph)).value(); }
  CudaExecutable compile(const Graph& graph, const CudaCompileOptions& options) const {
    return std::move(try_compile(graph, options)).value();
  }

  /// Opens the device unless it is open. Throws Error (execution) in one line when there is none.
  void open() const;
  /// Waits until all work of this thread's stream is done. Throws Error (execution) with the error.
  void synchronize() const;
  /// Gives memory that is kept for reuse back to the device; returns its bytes.
  std::size_t trim() const;
  CudaStatistics device_statistics() const;
  /// Device memory in DLPack's form (kDLCUDA), shared with the tensor, which is copied to the device if it is
  /// not there. Work on this thread's stream is done before work that is enqueued on `consumer`, a
  /// cudaStream_t, later. If `consumer` is null, the call waits, and the deleter of the result waits for all
  /// work on the device. Throws Error.
  DLManagedTensorVersioned* to_dlpack(const Tensor& tensor, void* consumer) const;
  /// A tensor over device memory of someone else's, compact and row-major, which is ready on `producer`, a
  /// cudaStream_t (null: CUDA's default stream). Consumes `managed` in any case. When the last tensor of it
  /// is gone, work that is put on `producer` later comes after all that was done with it; with null, which
  /// says less of who lends it, who lets go of that tensor waits until it is done. Bools, whose bytes may be
  /// any, are copied on the device, so that theirs is let go of at once. Throws Error (invalid_argument,
  /// type).
  Tensor from_dlpack(DLManagedTensorVersioned* managed, void* producer) const;
  const CudaOptions& options() const { return options_; }

 private:
  friend class CudaStream;
  friend class CudaCommunicator;
  friend struct CudaCommunicatorId;
  friend CudaExecutor with_axes(const CudaExecutor& executor, const std::vector<CudaAxis>& axes);
  cuda_detail::Runtime& runtime() const;
  CudaOptions options_;
  std::shared_ptr<const cuda_detail::Axes> axes_;
  std::shared_ptr<cuda_detail::Opener> opener_;
  std::shared_ptr<cuda_detail::Watched> watched_;
};

/// The executor of that device with default options; made once, and opened: throws Error (execution) in one
/// line when there is no such device, or no driver.
const CudaExecutor& cuda(int device = 0);

}  // namespace tidu
