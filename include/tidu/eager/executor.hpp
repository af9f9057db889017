// executor.hpp - BackwardExecutor<Operand>: what a frontend implements so that tapes of its operands run
// backward. The executor owns allocation, storage, devices and kernels; the engine owns order and
// accumulation. Three methods must be written. All are const and may be called from any thread.
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

/// Where something runs. Device 0 is the host, driven by the calling thread; every other device has a worker
/// thread of its own. What a stream number means, the executor knows; 0 is its default stream.
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
  const Graph& graph;  ///< what is to be run
  /// Kept with the graph: what this executor made of it.
  const ExecutorSlot& slot;
  Placement placement{};  ///< where
  /// The recorded invocation on whose behalf this runs ("mul (loss.cpp:17)"), made when it is asked for.
  const class NodeView* node = nullptr;
};

/// a + b of one type.
struct AddCall {
  Type type;  ///< of both operands and the sum
  /// The sum as a graph of the primitive that the set names; null when the set names none.
  const RecordedGraph* graph = nullptr;
  Placement placement{};  ///< where
};

/// What a thread must have so that work on it behaves as on the thread that called backward: the frontend's
/// grad mode, current device, current stream. Captured by the calling thread, installed on workers.
class ThreadState {
 public:
  virtual ~ThreadState() = default;
  /// Makes the state that of the running thread, and returns what there was before.
  virtual std::shared_ptr<const ThreadState> install() const = 0;
};

namespace detail {
[[noreturn]] void wrong_number_of_values(const GraphCall& call, const char* hook, std::size_t got);
}

/// Tells executors apart for what is kept in ExecutorSlots. Copies share it.
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

/// Runs what tapes of `Operand`s need.
template <class Operand>
class BackwardExecutor : public ExecutorIdentity {
 public:
  /// What hooks return.
  using Values = Operands<Operand>;

  virtual ~BackwardExecutor() = default;

  // --- must be written

  /// Runs a graph of primal operations: residuals that nobody retained, from what was retained. Never called
  /// when all were. Returns one operand per output of the graph.
  virtual Result<Values> execute_forward(const GraphCall& call,
                                         std::span<const Operand* const> inputs) const = 0;
  /// Runs a transposed linear graph: inputs are residuals, then the cotangents that came in; outputs are the
  /// cotangents of the active inputs that are there.
  virtual Result<Values> run_transposed_linear(const GraphCall& call,
                                               std::span<const Operand* const> inputs) const = 0;
  /// a + b: the one place where cotangents of different nodes are summed. `a` is given away: its memory may
  /// be used for the sum when nobody else holds it; what somebody else may hold is never changed.
  virtual Result<Operand> add_operands(const AddCall& call, Operand a, const Operand& b) const = 0;

  // --- may be written; each default says what goes without it

  /// Do execute_forward and run_transposed_linear run the conversions of the set (Vocabulary::convert)
  /// between 16 bits and f32? Sums of many cotangents of 16 bits are held in f32 then: what add_operands is
  /// given has been converted, one operand at a time, by execute_forward. Default: no, and each partial sum
  /// is rounded.
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
  /// The same without waiting for the work that makes the elements: `report` is kept for when they turn out
  /// not to be finite. It tells the backward call that it is of, or throws when it is of none. False, and
  /// nothing is kept: is_finite() is to be asked at once (the default).
  virtual bool watch_finite(const Operand&, const std::function<void()>& report) const {
    (void)report;
    return false;
  }
  /// Waits for what is watched, and calls the reports that are due, in order, until one throws; forgets all.
  /// At the end of a backward call in anomaly mode. Several calls may end at once: who comes second waits
  /// until the first was told all. Default: nothing is watched.
  virtual void check_watched() const {}
  /// Are all elements zero? Default: unknown, and explain() cannot tell where a gradient became zero.
  virtual std::optional<bool> is_zero(const Operand&) const { return std::nullopt; }
  /// What anomaly mode says of an operand: "f64[32,10] has 3 zeros, at [0,4] [7,1] [30,9]". Default: empty.
  virtual std::string statistics(const Operand&) const { return {}; }
  /// Counts how often the operand's storage was written to. Default: unknown, and changes in place go
  /// unnoticed.
  virtual std::optional<std::uint64_t> version(const Operand&) const { return std::nullopt; }
  /// Bytes of the operand's storage, for profiles. Default: 0.
  virtual std::size_t bytes(const Operand&) const { return 0; }

  /// The operand in memory in which this executor computes. Default: itself, which any executor reads.
  virtual Result<Operand> put(const Operand& operand) const { return operand; }

  /// Where the running thread puts work. Default: the host.
  virtual Placement current_placement() const { return {}; }
  /// A point behind all that was put on that stream so far. Default: none, and nobody waits.
  virtual Event record(Placement) const { return nullptr; }
  /// What is put on `stream` from now on runs after `event`.
  virtual void wait(Placement, const Event&) const {}
  /// What its device does from now on, until the result is destroyed, is entered in the profile, which may
  /// end before. Default: null, and there is nothing but what the host did.
  virtual std::shared_ptr<const void> profile_device(Profile&) const { return nullptr; }
  /// What workers need of the thread that called backward. Default: nothing.
  virtual std::shared_ptr<const ThreadState> thread_state() const { return nullptr; }

 protected:
  BackwardExecutor() = default;
  BackwardExecutor(const BackwardExecutor&) = default;
  BackwardExecutor& operator=(const BackwardExecutor&) = default;
};

}  // namespace tidu::eager
