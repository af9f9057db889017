// call.hpp - one backward call: what it found, what is ready, what came out. Everything in it belongs to this
// call alone, so that calls may run at once on shared parts of a tape, and inside each other.
//
// Who touches what on several threads: the mutex of the run (parallel.cpp) guards queues, dependency counts
// and contributions; a node that runs is touched by its thread alone; the rest is constant once the run
// begins.
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
#include <unordered_map>
#include <vector>

#include "eager/anomaly.hpp"
#include "eager/node.hpp"
#include "eager/states.hpp"
#include "eager/watch.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/eager/host.hpp"
#include "tidu/eager/profile.hpp"

namespace tidu::eager::detail {

/// How many backward calls the thread is in.
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

/// Anomaly mode: where the first cotangent of a node came from.
struct Arrival {
  const Node* from;
  std::size_t length;  ///< of the path from a root to the node, both included
  const Node* early;   ///< the last of the first nodes of the path that messages name
};

struct BackwardCall {
  explicit BackwardCall(const BackwardRequest& backward_request);
  BackwardCall(const BackwardCall&) = delete;
  BackwardCall& operator=(const BackwardCall&) = delete;
  ~BackwardCall();

  // --- setting up (discover.cpp)
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
  /// Runs a node whose cotangents are all there; `outgoing` by edge, on several threads where their targets
  /// want them. Touches nothing that threads share.
  void run_node(State& state, std::span<Cell*> outgoing);
  void finish_leaf(LeafState& leaf);
  /// Hands the cotangents of a node that ran (or did not: all null) to its producers.
  void deliver(State& state, std::span<Cell*> outgoing);
  /// Runs one node, or skips it after a failure; what it throws is kept, and raised again at once or at the
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

  // --- cotangents (cells.cpp)
  /// Takes `cell`, on its way to an output of `target`. `phase`: what is being done.
  void contribute(Node& target, Cell* cell, const PrimitiveSet* set, const char*& phase);
  static constexpr const char* moving = "record or wait";  ///< a phase
  void move_to(Cell& cell, Placement placement);
  /// into + from, cotangents of `target`, where that is; `from` is used up whatever happens. A second
  /// cotangent of 16 bits may wait behind `into`, and the sum of three be in f32: see complete_sum().
  void fold(Cell* into, Cell* from, const PrimitiveSet* set, const Node& target);
  void add(Cell& into, const Cell& from, const PrimitiveSet* set, Placement placement);
  /// To be called before a sum that fold() made is read: adds what waits behind it, and rounds it to `type`.
  void complete_sum(Cell& sum, Type type, const PrimitiveSet* set, const Node& target) {
    if (sum.next != nullptr || sum.type != type) complete_narrow_sum(sum, type, set, target);
  }
  void complete_narrow_sum(Cell& sum, Type type, const PrimitiveSet* set, const Node& target);
  /// The cotangent in another dtype, in its place.
  void convert(Cell& cell, DType dtype, const PrimitiveSet& set, const Node& target);
  void record_in_place(Cell& cell, const RecordedGraph& graph, std::span<const RecordInput> inputs,
                       Placement placement);
  /// Is there a word for it?
  bool can_convert(const PrimitiveSet* set) const {
    return set != nullptr && set->vocabulary().convert != nullptr;
  }
  /// Folds what waits, in descending order of (sequence, source, edge) for each slot.
  void fold_waiting(Cell*& waiting, std::span<Cell*> by_slot, const PrimitiveSet* set, const Node& target);
  Cell* duplicate(const Cell& cell) const;
  void check_type(const Cell& cell, Type expected, const Node& node, const char* who, const char* what,
                  std::size_t index) const;
  /// Of what a node returned.
  void check_device(const Cell& cell, const Node& node, std::size_t input) const;
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
  /// What can run on one device: leaves first, then the node of highest priority.
  struct ReadyQueue {
    std::vector<Ready> nodes;  ///< a heap
    std::vector<std::uint32_t> leaves;
    std::size_t announced = 0;  ///< how many of them the device's thread was told of
    bool empty() const { return nodes.empty() && leaves.empty(); }
    State* pop_node();
    std::uint32_t pop_leaf();
  };
  /// Without threads everything is the host's.
  ReadyQueue& queue_of(std::uint32_t device) {
    return device == 0 || !threaded ? host_ready : device_ready[device];
  }

  const BackwardRequest& request;
  const ErasedExecutor& host;
  const BackwardOptions& options;
  const OperandTable& table;
  const bool creates_graph;
  const bool wide_accumulation;  ///< asked for, and the executor can
  const Looker looker;           ///< anomaly mode
  bool threaded = false;
  bool folds_at_once = true;  ///< contributions come in the order in which they are folded

  std::vector<std::uint32_t> root_slots;
  std::size_t held_roots = 0;      ///< of the request, from the first on: held until the call has ended
  std::size_t held_requested = 0;  ///< likewise
  States states;
  Leaves leaves;
  std::vector<State*> found;  ///< all states, in the order of discovery; only where that is needed
  std::map<std::pair<const Node*, std::uint32_t>, std::uint32_t> captures;  ///< (node, slot) -> request
  std::set<std::pair<const Node*, std::uint32_t>>
      depended_on;              ///< outputs that roots depend on; made when asked
  const Node* freed = nullptr;  ///< one that is to run and cannot
  bool has_devices = false;
  bool knows_types = false;    ///< the executor describes operands
  bool knows_devices = false;  ///< and tells their devices
  std::size_t unfinished = 0;  ///< nodes that wait to be run or skipped
  std::size_t live = 0;        ///< cells in states and leaves
  ReadyQueue host_ready;
  std::map<std::uint32_t, ReadyQueue> device_ready;
  std::uint64_t pushed = 0;                           ///< for the orders other than latest first
  std::vector<Cell*> captured;                        ///< by request
  std::unordered_map<const Node*, Arrival> arrivals;  ///< anomaly mode: by node that is no root
  std::vector<std::function<void()>> callbacks;
  Placement caller{};

  std::mutex error_mutex;
  std::exception_ptr first_error;
  std::mutex callbacks_mutex;
  std::mutex arrivals_mutex;
  std::uint32_t depth = 0;  ///< backward calls around this one on its thread

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
  void note_arrival(const Node& target, const Node& from);
  Path path_to(const Node& node);
  void look_for_anomaly(Node& node, std::span<Cell* const> incoming, std::span<Cell* const> outgoing,
                        const std::function<std::string()>& within);
  void profile_node(ProfilePhase phase, const Node& node, std::byte* operands, std::size_t count,
                    std::int64_t begin) const;
  /// From the handler that caught `error`: throws it again, with where it happened.
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

/// Destroys what is left in it, with what waits behind it.
class CellGuard {
 public:
  CellGuard(const OperandTable& operands, std::span<Cell*> guarded) : table_(operands), cells_(guarded) {}
  CellGuard(const CellGuard&) = delete;
  CellGuard& operator=(const CellGuard&) = delete;
  ~CellGuard() {
    for (Cell* cell : cells_)
      while (cell != nullptr) destroy_cell(table_, std::exchange(cell, cell->next));
  }

 private:
  const OperandTable& table_;
  std::span<Cell*> cells_;
};

}  // namespace tidu::eager::detail
