// executor.hpp - BackwardExecutor<Operand>: the interface that a frontend implements so that tapes of its
// operands run backward. The executor owns allocation, storage, devices and kernels; the engine owns order
// and accumulation. Three methods are required. All are const and may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tidu/eager/operands.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::eager {

/// The device and stream of an operand or of work. Device 0 is the host, driven by the calling thread; every
/// other device has its own worker thread. The executor defines the meaning of stream numbers; 0 is its
/// default stream.
struct Placement {
  std::uint32_t device = 0;  ///< 0: the host
  std::uint64_t stream = 0;  ///< 0: the device's default stream
  friend bool operator==(const Placement&, const Placement&) = default;
};

class Profile;

/// A point in the work of a stream that other streams can wait for; made and read by the executor alone.
using Event = std::shared_ptr<void>;

/// One graph that is to be run: closed (no externals), operands and results by position.
struct GraphCall {
  const Graph& graph;  ///< the graph to run
  /// Storage with the graph for this executor's compiled form of it.
  const ExecutorSlot& slot;
  Placement placement{};  ///< where
  /// The recorded invocation for which this runs ("mul (loss.cpp:17)"); its text is made on demand.
  const class NodeView* node = nullptr;
};

/// a + b of one type.
struct AddCall {
  Type type;  ///< of both operands and the sum
  /// The sum as a graph of the primitive that the set names; null when the set names none.
  const RecordedGraph* graph = nullptr;
  Placement placement{};  ///< where
};

/// The state of the thread that called backward which work on other threads needs: the frontend's grad mode,
/// current device, current stream. Captured by the calling thread, installed on workers.
class ThreadState {
 public:
  virtual ~ThreadState() = default;
  /// Installs the state on the running thread, and returns the former one.
  virtual std::shared_ptr<const ThreadState> install() const = 0;
};

namespace detail {
[[noreturn]] void wrong_number_of_values(const GraphCall& call, const char* hook, std::size_t got);
}

/// Identifies an executor by its entries in ExecutorSlots. Copies share the identity.
class ExecutorIdentity {
 public:
  ExecutorIdentity() : id_(next()) {}
  std::uint64_t id() const { return id_; }
  /// Expires when this object, not a copy, is destroyed.
  std::weak_ptr<const void> lifetime() const { return lifetime_.token; }

 protected:
  /// Kernels or options have changed: nothing that was kept before is right for this object.
  void renew_identity() { id_ = next(); }
  ~ExecutorIdentity() = default;
  ExecutorIdentity(const ExecutorIdentity&) = default;
  ExecutorIdentity& operator=(const ExecutorIdentity&) = default;

 private:
  struct Lifetime {
    Lifetime() = default;
    Lifetime(const Lifetime&) {}
    Lifetime& operator=(const Lifetime&) { return *this; }  // NOLINT(bugprone-unhandled-self-assignment)
    ~Lifetime() = default;
    std::shared_ptr<const char> token = std::make_shared<const char>();
  };
  static std::uint64_t next();
  std::uint64_t id_;
  Lifetime lifetime_;
};

/// Runs the graphs of tapes of `Operand`s.
template <class Operand>
class BackwardExecutor : public ExecutorIdentity {
 public:
  /// The type of results.
  using Values = Operands<Operand>;

  virtual ~BackwardExecutor() = default;

  // --- must be written

  /// Runs a graph of primal operations: it recomputes residuals that were not retained from values that were.
  /// Never called if all were retained. Returns one operand per output of the graph.
  virtual Result<Values> execute_forward(const GraphCall& call,
                                         std::span<const Operand* const> inputs) const = 0;
  /// Runs a transposed linear graph: inputs are residuals, then the cotangents that came in; outputs are the
  /// cotangents of the active inputs that are there.
  virtual Result<Values> run_transposed_linear(const GraphCall& call,
                                               std::span<const Operand* const> inputs) const = 0;
  /// a + b: the only method that sums cotangents of different nodes. `a` is consumed: its memory may be used
  /// for the sum if there is no other reference to it. Shared memory is never changed.
  virtual Result<Operand> add_operands(const AddCall& call, Operand a, const Operand& b) const = 0;

  // --- optional methods; each default documents its consequences

  /// Do execute_forward and run_transposed_linear run the conversions of the set (TransformOps::convert)
  /// between 16 bits and f32? Then sums of many 16-bit cotangents are held in f32: execute_forward converts
  /// each operand before it is passed to add_operands. Default: no, and each partial sum is rounded.
  virtual bool wide_accumulation() const { return false; }

  /// The first two of the above where every nanosecond counts: constructs the outputs of the graph from `out`
  /// on, or throws and leaves none. Default: calls execute_forward, or run_transposed_linear when `linear`.
  virtual void run_at(const GraphCall& call, bool linear, std::span<const Operand* const> inputs,
                      Operand* out) const {
    Result<Values> made = linear ? run_transposed_linear(call, inputs) : execute_forward(call, inputs);
    Values& values = made.value();
    if (values.size() != call.graph.outputs().size())
      detail::wrong_number_of_values(call, linear ? "run_transposed_linear" : "execute_forward",
                                     values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ::new (static_cast<void*>(out + i)) Operand(std::move(values[i]));
  }

  /// Type of an operand. Default: none, and types of seeds and cotangents are not checked.
  virtual std::optional<Type> describe(const Operand&) const { return std::nullopt; }
  /// Device of an operand. Default: none, and devices of cotangents are not checked.
  virtual std::optional<std::uint32_t> device_of(const Operand&) const { return std::nullopt; }
  /// Ones of that type. Default: none, and a root needs a seed.
  virtual Result<std::optional<Operand>> ones_like(Type) const { return std::optional<Operand>(); }
  /// Are all elements finite? Default: unknown, and anomaly mode finds nothing.
  virtual std::optional<bool> is_finite(const Operand&) const { return std::nullopt; }
  /// The same without waiting for the computation of the elements: keeps `report`, to be called if they turn
  /// out not to be finite. `report` informs the backward call that it belongs to, or throws if it belongs to
  /// none. Returns false, and keeps nothing, if is_finite() is to be called at once (the default).
  virtual bool watch_finite(const Operand&, const std::function<void()>& report) const {
    (void)report;
    return false;
  }
  /// Waits for watched operands, and calls the reports that are due, in order, until one throws; drops all
  /// others. Called at the end of a backward call in anomaly mode. If several calls end at once, the second
  /// waits until the first has received all its reports. Default: nothing is watched.
  virtual void check_watched() const {}
  /// Are all elements zero? Default: unknown, and explain() does not find where a gradient became zero.
  virtual std::optional<bool> is_zero(const Operand&) const { return std::nullopt; }
  /// Text on an operand for anomaly mode: "f64[32,10] has 3 zeros, at [0,4] [7,1] [30,9]". Default: empty.
  virtual std::string statistics(const Operand&) const { return {}; }
  /// The number of writes to the operand's storage. Default: unknown, and changes in place are not detected.
  virtual std::optional<std::uint64_t> version(const Operand&) const { return std::nullopt; }
  /// Bytes of the operand's storage, for profiles. Default: 0.
  virtual std::size_t bytes(const Operand&) const { return 0; }

  /// The operand in memory in which this executor computes. Default: itself, which any executor reads.
  virtual Result<Operand> put(const Operand& operand) const { return operand; }

  /// Placement of new work of the running thread. Default: the host.
  virtual Placement current_placement() const { return {}; }
  /// An event after all work that was enqueued on that stream so far. Default: none, and nothing waits.
  virtual Event record(Placement) const { return nullptr; }
  /// Work that is enqueued on the stream from now on runs after the event.
  virtual void wait(Placement, const Event&) const {}
  /// Enters the steps of the executor's device in the profile until the result is destroyed; the profile may
  /// be destroyed before. Default: null, and the profile has host events only.
  virtual std::shared_ptr<const void> profile_device(Profile&) const { return nullptr; }
  /// The state of the calling thread that workers need. Default: nothing.
  virtual std::shared_ptr<const ThreadState> thread_state() const { return nullptr; }

 protected:
  BackwardExecutor() = default;
  BackwardExecutor(const BackwardExecutor&) = default;
  BackwardExecutor& operator=(const BackwardExecutor&) = default;
};

}  // namespace tidu::eager
