// lazy_backward.hpp - backward calls in a hot sequence: ObservedBackward learns the effect of one, and
// BackwardReplay replays it without running it. See Note [Backward replay] in lazy.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "frontend/hot_trace.hpp"
#include "frontend/lazy_replay.hpp"
#include "frontend/lazy_values.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/graph/key.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// A backward call that runs during a replay.
class ObservedBackward {
 public:
  explicit ObservedBackward(const Tensor& seed) : seed_(seed) {}

  /// Notes the position before the call runs. Returns false if it is not worth learning. Needs the lock of
  /// the trace.
  bool begin(const LazyReplay& replay);
  /// Reads the tape below the root, which the caller holds. Returns false if the effect of the call depends
  /// on more than the tape.
  bool read_tape(eager::detail::Node& root);
  /// After the call has run: adds it to the hot trace, if its operations were those of the hot trace. Needs
  /// the lock of the trace.
  void learn(const LazyReplay& replay, const LazyTrace* trace);

 private:
  using Node = eager::detail::Node;
  bool list_nodes(Node& root);
  std::uint32_t leaf_with(const Tensor& tensor, const HotTrace& hot_trace);
  bool name_saved(const HotTrace& hot_trace, const LazyTrace* trace);
  bool find_sources(const HotTrace& hot_trace);
  bool name_results(const LazyTrace* trace);

  Tensor seed_;
  const HotTrace* hot_trace_ = nullptr;
  std::uint64_t replay_ = 0;  // its number
  KnownBackward known_;
  std::vector<Node*> nodes_, leaves_;  // which the tape, and so the caller's root, holds
  std::vector<Tensor> saved_;
  bool is_ambiguous_ = false;
};

/// Compares a tape with that of a known call, and gives its leaves the known results.
class BackwardReplay {
 public:
  /// Replays the known call at this position, if there is one with the tape below `root`: counts its
  /// operations as replayed, and puts its results into the slots of the leaves. Otherwise returns false,
  /// without effect. Needs the lock of the trace.
  bool repeat(eager::detail::Node& root, Context& c, LazyReplay& replay, const LazyTensorFactory& factory,
              LazyStatistics& counters);
  /// After repeat(): frees the saved operands of the nodes, as the call would have done.
  void free_nodes();

 private:
  using Node = eager::detail::Node;
  static KnownBackward* find(const LazyReplay& replay);
  bool matches(KnownBackward& known, Node& root, std::uint64_t recorder, const LazyReplay& replay,
               const LazyTrace* trace);
  bool take(const KnownBackward& known, LazyReplay& replay, const LazyTensorFactory& factory);
  bool same_tape(const KnownBackward& known, Node& root);
  bool same_leaves();
  bool came_by_calls(const KnownBackward& known, const eager::Key& root, const LazyReplay& replay);
  void find_calls(KnownBackward& known, std::uint64_t source, const LazyReplay& replay) const;
  bool same_saved(const KnownBackward& known, const HotTrace& hot_trace, const LazyTrace* trace) const;
  void add_values(const KnownBackward& known, HotTrace& hot_trace, const LazyTensorFactory& factory) const;
  bool fill_slots(const KnownBackward& known, const LazyValues& values) const;

  std::vector<Node*> nodes_, leaves_;  // of the tape in comparison
  std::vector<eager::Key> keys_;       // of its leaves
};

}  // namespace tidu::frontend_detail
