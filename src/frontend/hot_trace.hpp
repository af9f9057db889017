// hot_trace.hpp - HotTrace: operations that were evaluated together, kept for their replay; and HotTraces:
// the hot traces of a trace. See Note [Replay of hot traces] in lazy.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "frontend/context.hpp"
#include "frontend/lazy_ops.hpp"
#include "frontend/lazy_program.hpp"
#include "frontend/lazy_runner.hpp"
#include "frontend/lazy_values.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::eager::detail {
struct Node;
struct Specialization;
}  // namespace tidu::eager::detail

namespace tidu::frontend_detail {

/// A call, and a bit mask of the operands that are recorded as requiring a gradient.
struct ComingCall {
  const Call& call;
  std::span<const Input> operands;
  std::uint32_t grads;
};

/// The call that was recorded at a position of a hot trace; see Note [Calls]. The fields that every call is
/// compared with are in one cache line.
struct alignas(64) RecordedCall {
  const char* name = nullptr;   // null: unknown
  const void* token = nullptr;  // of its operation, like the next members
  std::uint32_t first_operand = 0, first_value = 0;
  std::uint16_t num_operands = 0, num_static_args = 0;
  std::uint32_t grads = 0;
  std::array<const void*, max_operands> types{};
  const eager::detail::Specialization* specialization = nullptr;
  std::array<std::int64_t, max_static_args> static_args{};
  std::optional<eager::RecordedGraph> graph;  // keeps the specialization alive

  RecordedCall() = default;
  RecordedCall(const ComingCall& coming, const eager::RecordedGraph& its_graph,
               const eager::detail::Specialization* its);
  /// Operands are compared by their types alone.
  bool is(const Call& call, std::span<const Input> operands) const {
    if (name != call.name || num_operands != operands.size() || num_static_args != call.static_args.size())
      return false;
    for (std::size_t i = 0; i < num_static_args; ++i)
      if (static_args[i] != call.static_args[i]) return false;
    for (std::size_t i = 0; i < num_operands; ++i)
      if (types[i] != operands[i].tensor->type().identity()) return false;
    return true;
  }
};

/// A backward call whose operations are a range of a hot trace; see Note [Backward replay].
struct KnownBackward {
  struct Node {
    const eager::detail::Specialization* specialization;
    eager::RecordedGraph graph;  // keeps `specialization` alive
    std::uint32_t first_edge;
    std::uint32_t first_saved;
    bool freed = false;  // by the call, which may not have reached all nodes
  };
  struct Edge {
    std::uint32_t target;  // index of a node, or with leaf_bit of a leaf
    std::uint32_t slot;
  };
  static constexpr std::uint32_t leaf_bit = 0x80000000U;
  std::vector<Node> nodes;  // in descending order of sequence numbers: the root first
  // If known calls of the hot trace recorded the whole tape: operations by node, and values by leaf.
  std::vector<std::uint32_t> node_ops, leaf_values;
  int looked_for = 0;  // number of searches for these
  std::vector<Edge> edges;
  std::vector<std::uint32_t> saved;    // values; no_index: not read
  std::vector<std::uint32_t> results;  // by leaf: a value, or no_index
  struct Source {
    std::uint32_t value, node, saved;
  };
  std::vector<Source> sources;  // of leaves that occur in it, except the seed
  Tensor seed;
  std::uint64_t seed_version = 0;
  std::uint32_t seed_value = no_index;
  std::size_t begin = 0, end = 0;   // operations of the hot trace
  std::vector<const void*> tokens;  // of those operations
  std::size_t first_value = 0;      // first value of the call
};

/// While a hot trace is replayed, `values` are those of its first operations.
struct HotTrace {
  HotTrace() = default;
  /// All operations of a trace.
  HotTrace(const RecordedOps& ops, std::size_t num_values, const LazyRunner& runs);
  /// Is it one of the same operations, by the same runner?
  bool is_of(const RecordedOps& other, const LazyRunner& other_runner) const;
  bool is_run_by(const LazyRunner& other) const {
    return runner == other && executor == other.executor->id();
  }

  std::vector<LazyOp> ops;
  std::size_t num_ops = 0;
  std::vector<RecordedCall> calls;  // by operation
  std::vector<std::uint32_t> operands;
  std::vector<std::uint8_t> results;  // by value: is it a result instead of a leaf?
  std::vector<Type> types;            // by value
  std::vector<std::uint32_t> leaves;  // values, ascending
  // The node of a known call, as last recorded.
  struct Recorded {
    eager::detail::Node* node = nullptr;  // may have been destroyed, unless something holds it
    std::uint64_t counter = 0;            // of its key
    std::uint64_t replayed = 0;
    bool as_operands = false;  // was the producer of each operand the one on the tape?
  };
  std::vector<Recorded> recorded;                // by operation
  std::vector<eager::detail::Node*> leaf_nodes;  // by value, as far as this replay has come
  struct Known {
    std::vector<std::uint8_t> referred;  // by value
    std::vector<std::uint32_t> input_values, output_values;
    std::size_t num_ops = 0;  // number of needed operations
    std::shared_ptr<const LazyProgram> program;
    std::shared_ptr<DeferralUse> use;  // if the program can defer results
  };
  std::vector<Known> known;              // by the set of values that were referred to
  std::vector<KnownBackward> backwards;  // by position of their beginning
  int learned_backward = 0;              // number of backward calls that were learned
  std::size_t replaced = 0;              // number of those that were dropped for others
  LazyValues values;                     // lazy tensors without references, at their positions
  std::uint64_t executor = 0;            // its id
  LazyRunner runner;
  HotTrace* next = nullptr;  // the hot trace that followed it last time
};

/// All functions need the lock of the trace.
class HotTraces {
 public:
  /// The hot trace that is expected now: the one that followed the last evaluation before; or null.
  HotTrace* expected() const { return last_ != nullptr ? last_->next : nullptr; }
  /// A hot trace that begins with that graph, the expected one if possible; null: there is none.
  HotTrace* find(const Graph& first, const LazyRunner& runner) const;
  /// The last evaluation, if it was of a hot trace.
  HotTrace* last() const { return last_; }
  void set_last(HotTrace& hot_trace) { last_ = &hot_trace; }
  /// The hot trace follows the last evaluation.
  void note_next(HotTrace& hot_trace) {
    if (last_ != nullptr) last_->next = &hot_trace;
  }
  /// Keeps the evaluated operations, which were all of the trace and one run, as a hot trace. Returns the
  /// replaced hot trace, to be destroyed without the lock.
  std::unique_ptr<HotTrace> learn(const RecordedOps& ops, const LazyRunner& runner, const LazyRun& run,
                                  std::shared_ptr<const LazyProgram> program);
  /// Forgets all hot traces, and returns them, to be destroyed without the lock.
  std::vector<std::unique_ptr<HotTrace>> end() noexcept {
    last_ = nullptr;
    return std::exchange(all_, {});
  }

 private:
  HotTrace& keep(std::unique_ptr<HotTrace> fresh, std::unique_ptr<HotTrace>& gone);

  std::vector<std::unique_ptr<HotTrace>> all_;
  std::size_t replaced_ = 0;  // number of hot traces that were dropped for others
  HotTrace* last_ = nullptr;
};

}  // namespace tidu::frontend_detail
