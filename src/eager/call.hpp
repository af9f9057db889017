// call.hpp - BackwardCall: the state of one backward call: discovered nodes, ready queues, and results. It
// belongs to this call alone, so calls may run concurrently on shared parts of a tape, and nest.
//
// Invariant with several threads: the mutex of the run (parallel.cpp) guards queues, dependency counts and
// contributions. Only its thread touches a running node. Everything else is constant once the run begins.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "eager/anomaly.hpp"
#include "eager/arrivals.hpp"
#include "eager/cotangents.hpp"
#include "eager/node.hpp"
#include "eager/states.hpp"
#include "eager/watch.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/eager/host.hpp"
#include "tidu/eager/profile.hpp"

namespace tidu::eager::detail {

/// Number of backward calls in which this thread is.
extern thread_local std::uint32_t calls_on_this_thread;
class DepthGuard {
 public:
  explicit DepthGuard(std::uint32_t depth) : before_(std::exchange(calls_on_this_thread, depth)) {}
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  ~DepthGuard() { calls_on_this_thread = before_; }

 private:
  std::uint32_t before_;
};

struct BackwardCall {
  explicit BackwardCall(const BackwardRequest& backward_request);
  BackwardCall(const BackwardCall&) = delete;
  BackwardCall& operator=(const BackwardCall&) = delete;
  ~BackwardCall();

  // --- setup (discover.cpp)
  void check_roots();
  void discover();
  void mark_needed();
  bool is_wanted(const Edge& edge);
  void check_not_freed() const;
  [[noreturn]] void refuse_freed(const Node& node) const;
  void seed_roots();
  Absence why_absent(const Requested& requested);
  bool depends_on(const Requested& requested);

  // --- one node (engine.cpp)
  /// Runs a node whose cotangents have all arrived. `outgoing` is by edge; with several threads, its cells
  /// are on the devices of their targets. Touches no shared state.
  void run_node(State& state, std::span<Cell*> outgoing);

  // --- scheduling (order.cpp)
  void finish_leaf(LeafState& leaf);
  /// Sends the cotangents of a node that ran (all null if it did not) to its producers.
  void deliver(State& state, std::span<Cell*> outgoing);
  /// Runs one node, or skips it after a failure. An exception is kept, and thrown again at once or at the
  /// end.
  void run_or_keep(State& state, std::span<Cell*> outgoing);
  void finish_or_keep(LeafState& leaf);
  void run_alone();
  void push_ready(State& state);
  void push_ready(LeafState& leaf);
  void check_stop() const;
  void keep_error(std::exception_ptr error) noexcept;

  // --- the end (finish.cpp)
  BackwardOutcome finish();

  // --- on several threads (parallel.cpp)
  bool wants_threads();
  void run_threaded();

  // --- cotangents on their way (order.cpp, hooks.cpp)
  /// Takes `cell`, a cotangent of an output of `target`. `phase`: the present phase, for messages.
  void contribute(Node& target, Cell* cell, const PrimitiveSet* set, const char*& phase);
  static constexpr const char* moving = "record or wait";  ///< a phase
  void run_hooks(const HookList::Hooks& hooks, HookKind kind, Node& node, std::span<Cell*> incoming,
                 std::span<Cell*> outgoing);

  struct Ready {
    std::uint64_t priority;
    std::uint64_t source;
    State* state;
    friend bool operator<(const Ready& a, const Ready& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.source < b.source;
    }
  };
  /// Ready work of one device: leaves first, then the node with the highest priority.
  struct ReadyQueue {
    std::vector<Ready> nodes;  ///< a heap
    std::vector<std::uint32_t> leaves;
    std::size_t announced = 0;  ///< number of them that were announced to the device's thread
    bool empty() const { return nodes.empty() && leaves.empty(); }
    State* pop_node();
    std::uint32_t pop_leaf();
  };
  /// Without threads, all work is in the host's queue.
  ReadyQueue& queue_of(std::uint32_t device) {
    return device == 0 || !threaded ? host_ready : device_ready[device];
  }

  const BackwardRequest& request;
  const ErasedExecutor& host;
  const BackwardOptions& options;
  const OperandTable& table;
  Cotangents cotangents;
  bool threaded = false;
  bool folds_at_once = true;  ///< contributions arrive in the order in which they are added

  std::vector<std::uint32_t> root_slots;
  std::size_t held_roots = 0;  ///< number of leading roots of the request that are held until the call ends
  std::size_t held_requested = 0;  ///< number of requested values that are held in the same way
  States states;
  Leaves leaves;
  std::vector<State*> found;  ///< all states, in the order of discovery; only if needed
  std::map<std::pair<const Node*, std::uint32_t>, std::uint32_t> captures;  ///< (node, slot) -> request
  std::set<std::pair<const Node*, std::uint32_t>>
      depended_on;              ///< outputs that roots depend on; computed on demand
  const Node* freed = nullptr;  ///< a node that must run although its saved operands were freed
  bool has_devices = false;
  std::size_t unfinished = 0;  ///< nodes that are yet to be run or skipped
  std::size_t live = 0;        ///< cells in states and leaves
  ReadyQueue host_ready;
  std::map<std::uint32_t, ReadyQueue> device_ready;
  std::uint64_t pushed = 0;     ///< for orders other than latest first
  std::vector<Cell*> captured;  ///< by request
  Arrivals arrivals;            ///< anomaly mode
  std::vector<std::function<void()>> callbacks;
  Placement caller{};

  std::mutex error_mutex;
  std::exception_ptr first_error;
  std::mutex callbacks_mutex;
  std::uint32_t depth = 0;  ///< enclosing backward calls on its thread

 private:
  void take_incoming(State& state, std::span<Cell*> incoming);
  void capture(const Node& node, std::span<Cell* const> incoming);
  BackwardProgram& program_of(const Node& node, std::span<Cell* const> incoming,
                              std::shared_ptr<Derivation>& keep);
  void check_versions(const Node& node, const BackwardProgram& program) const;
  void run_transposed(Node& node, std::span<Cell*> incoming, std::span<Cell*> outgoing, const char*& phase);
  void record_backward(const Node& node, BackwardProgram& program, std::span<Cell* const> incoming,
                       std::byte* computed, std::span<Cell* const> results);
  using When = BackwardObserver::When;
  void tell(When when, const Node& node, std::span<Cell* const> cells) {
    if (request.observer != nullptr) [[unlikely]]
      request.observer->see(when, node, cells);
  }
  void after_hooks(When when, const Node& node, std::span<Cell* const> cells);
  void look_for_anomaly(Node& node, std::span<Cell* const> incoming, std::span<Cell* const> outgoing,
                        const std::function<std::string()>& within);
  void profile_node(ProfilePhase phase, const Node& node, std::byte* operands, std::size_t count,
                    std::int64_t begin) const;
  /// Must be called in the handler of `error`: throws it again, with the node and phase.
  [[noreturn]] static void explain_failure(const Error& error, const Node& node, const char* phase);
  void move_outgoing(const Node& node, std::span<Cell*> outgoing);
  [[gnu::cold]] void keep_failure(Node& target, const char* phase);
  void settle(const Edge& edge, bool failed);
  void accumulate();
  bool widen_alike(Cell& sum, Type held, Cell& from, const LeafState& leaf);
  Cell* for_slot(const LeafState& leaf);
  void add_to_slot(Cell* sum, Cell* from, const LeafState& leaf);
  void join_streams(std::span<Cell* const> sums);
  void run_callbacks();
};

}  // namespace tidu::eager::detail
