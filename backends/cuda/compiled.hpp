// compiled.hpp - what a CudaExecutable is: the nodes of a planned program over addresses, run one after
// another or replayed.
//
// Note [Replay]: the first run puts each step on the caller's stream, which loads and sets up whatever the
// device needs. The second run captures the steps, with independent nodes on streams of their own, and
// launches them as one; later runs on the same addresses launch the capture again. The addresses are those of
// inputs, outputs and workspace. The pool returns the same addresses to the same sequence of requests, so a
// loop soon meets the same ones. Up to four captures are kept, and the longest unused one is changed for new
// addresses. If no addresses recur, the steps are put on the stream one by one, as in the first run. A
// capture is made on streams that nothing else uses: the caller's may be one that cannot be captured.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/communicator.hpp"
#include "cuda/fuse.hpp"
#include "cuda/kept_memory.hpp"
#include "cuda/layout.hpp"
#include "cuda/runtime.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::cuda_detail {

/// Does $TIDU_CONVOLUTIONS ask for cuDNN's convolutions ("cudnn") instead of tidu's own ("own", and unset)?
/// Throws Error (invalid_argument) for another word.
bool prefers_cudnn();

class ActivitySpan;
class EventLease;

struct CompileOptions {
  bool fuse = true;
  bool tf32 = false;
  bool cudnn = prefers_cudnn();  ///< for convolutions
  bool replay = true;
  std::size_t constant_bytes = OptimizeOptions().constant_bytes;
  std::uint32_t streams = 4;         ///< streams that independent nodes may run on
  std::shared_ptr<const Axes> axes;  ///< of collectives; null: none
};

class Compiled {
 public:
  /// Throws Error (execution, out_of_memory).
  Compiled(std::shared_ptr<Runtime> runtime, Graph graph, const CompileOptions& options);
  ~Compiled();
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  /// Puts a run on `stream`. Throws Error (invalid_argument, type, execution, out_of_memory).
  void run_into(std::span<const Tensor* const> inputs, std::span<Tensor> outputs, Stream stream) const;
  const Graph& graph() const { return graph_; }
  Runtime& runtime() const { return *runtime_; }
  std::size_t num_steps() const { return num_steps_; }
  std::size_t workspace_bytes() const { return layout_.workspace_bytes; }
  /// Bytes that it keeps from run to run: constants on the device and, roughly, captures.
  std::size_t kept_bytes() const;

 private:
  struct LoadedNode {
    Node node;
    std::vector<Kernel> kernels;  // by step that is a launch
    std::uint32_t first_memory;   // of its operands, then its results
  };
  // What addresses are in one run.
  struct Addresses {
    std::vector<std::byte*> inputs, outputs;
    std::byte* workspace = nullptr;
    friend bool operator==(const Addresses&, const Addresses&) = default;
  };
  struct Replay {
    Addresses addresses;
    ReplayGraph graph;
    std::uint64_t last_used = 0;
  };

  void load(std::vector<Node> nodes);
  void make_constants(const std::vector<Node>& constants);
  Kernel load_kernel(const Node& node, const Launch& launch);
  std::byte* address(const Spot& spot, const Addresses& at) const;
  void bind(const Addresses& at, std::vector<Memory>& table) const;
  void issue_steps(const LoadedNode& node, const Bindings& at, Stream stream) const;
  void issue(const LoadedNode& node, const Addresses& at, const std::vector<Memory>& table,
             Stream stream) const;
  void issue_copies(const Addresses& at, Stream stream) const;
  void run_plainly(const Addresses& at, Stream stream) const;
  void enter(const Node& node, ActivitySpan& span) const;
  void launch(ReplayGraph graph, Stream stream) const;
  bool replay(const Addresses& at, Stream stream) const;
  // `previous` is taken once it cannot be lost any more.
  ReplayGraph capture(const Addresses& at, ReplayGraph& previous) const;
  void issue_on_streams(const Addresses& at, std::span<const Stream> streams, EventLease& events) const;
  [[noreturn]] void explain(const Error& error, const Node& node) const;

  std::shared_ptr<Runtime> runtime_;
  Graph graph_;
  CompileOptions options_;
  Layout layout_;
  std::vector<LoadedNode> nodes_;
  std::vector<Spot> spots_;  // by place in the table of memory
  StreamPlan streams_of_nodes_;
  std::unique_ptr<KeptMemory> constants_;
  std::size_t num_steps_ = 0;
  bool can_replay_ = false;
  std::vector<Type> input_types_, output_types_;

  mutable std::mutex mutex_;
  mutable std::vector<Replay> replays_;
  mutable std::uint64_t runs_ = 0;
  mutable std::uint64_t misses_ = 0;  // captures in a row that were not launched again
  mutable std::uint32_t failed_captures_ = 0;
  mutable bool refuses_capture_ = false;
};

}  // namespace tidu::cuda_detail
