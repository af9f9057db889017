// lazy_replay.hpp - LazyReplay: the replay of a hot trace, operation by operation. See Note [Replay of hot
// traces] in lazy.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "frontend/context.hpp"
#include "frontend/hot_trace.hpp"
#include "frontend/lazy_ops.hpp"
#include "frontend/lazy_values.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// Owns the hot traces of a trace, and the position in one of them. All functions need the lock of the trace.
class LazyReplay {
 public:
  /// Is a hot trace replayed? All functions without another comment need that.
  bool is_active() const { return hot_trace_ != nullptr; }
  HotTrace& hot_trace() const { return *hot_trace_; }
  /// The values of the operations so far.
  LazyValues& values() { return hot_trace_->values; }
  const LazyValues& values() const { return hot_trace_->values; }
  /// Number of operations so far.
  std::size_t position() const { return at_; }
  std::span<const LazyOp> ops() const { return {hot_trace_->ops.data(), at_}; }
  bool is_at_end() const { return at_ == hot_trace_->num_ops; }
  /// Number of replays that began. Needs no replay.
  std::uint64_t count() const { return count_; }

  /// Begins the replay of a hot trace whose first operation is that graph, if there is one. There must be no
  /// pending operations.
  bool start(const Graph& first, const LazyRunner& runner);
  /// Replays the graph on `inputs`, and puts its lazy tensors into `out`, if it is the next operation.
  /// Otherwise leaves of it that were recorded stay.
  bool replay(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out,
              const LazyTensorFactory& factory);
  /// Replays a call, if it is the known call of the next operation; it may begin a replay if `may_start`.
  /// Otherwise returns null. Needs no replay.
  Body* replay_call(Context& c, const Call& call, std::span<const Input> operands, const Where& where,
                    const LazyRunner& runner, const LazyTensorFactory& factory, bool may_start);
  /// Stores `call`, which was the last one, as the known one of its position, if its graph is that of the
  /// operation there; `call` is then the former one. Needs no replay.
  void learn_call(RecordedCall& call);
  /// As HotTraces::learn. There must be no replay.
  std::unique_ptr<HotTrace> learn(const RecordedOps& ops, const LazyRunner& runner, const LazyRun& run,
                                  std::shared_ptr<const LazyProgram> program) {
    return hot_traces_.learn(ops, runner, run, std::move(program));
  }
  /// Counts operations as replayed, up to number `end`, whose values were added.
  void skip_to(std::size_t end) { at_ = end; }

  /// The known program for the values that are referred to now, if the hot trace has come to its end; else
  /// null.
  const HotTrace::Known* find_known(const LazyRunner& runner) const;
  /// As RecordedOps::is_unique.
  bool is_unique(const Tensor& old, const tidu::detail::LazyStorage* lazy_storage);
  /// Ends the replay of a hot trace that was evaluated. `dropped`: receives the tensors that the hot trace
  /// does not keep.
  void finish(const HotTrace::Known& known, std::vector<Tensor>& dropped);
  /// Ends the replay, and records the operations so far. If there is none, leaves that were recorded for the
  /// first one have no reader: they are put into `dropped`.
  void leave(RecordedOps& ops, std::vector<LazyValue>& dropped);
  /// Ends the replay, and forgets all hot traces. Returns them, to be destroyed without the lock. Needs no
  /// replay.
  std::vector<std::unique_ptr<HotTrace>> end() noexcept {
    stop();
    return hot_traces_.end();
  }

 private:
  void start(HotTrace& hot_trace);
  void stop() noexcept {
    hot_trace_ = nullptr;
    at_ = 0;
  }
  Body* replay_known(Context& c, const RecordedCall& known, std::span<const Input> operands,
                     const Where& where, const LazyTensorFactory& factory);
  bool replay_operand(std::uint32_t id, const Tensor& tensor, bool watched, bool on_host);
  Tensor& replay_result(std::uint32_t first_value, const LazyTensorFactory& factory);
  Body* result_of_call(Context& c, const RecordedCall& known, std::span<const Input> operands,
                       const Where& where, const Tensor& result);
  bool note_edge(std::uint32_t id, eager::detail::Node* target);

  HotTraces hot_traces_;
  HotTrace* hot_trace_ = nullptr;
  std::size_t at_ = 0;
  std::uint64_t count_ = 0;
};

// Is it the same leaf, unchanged?
inline bool is_leaf_again(const Tensor& tensor, const Tensor& leaf, std::uint64_t version) {
  return tensor.shares_storage_with(leaf) && tensor.type() == leaf.type() && tensor.version() == version &&
         tensor.place() == leaf.place();
}

// Is `tensor` the operand with that number in the hot trace? A leaf that occurs for the first time is added.
// Unless `watched`, nothing else can write to it; `on_host`: it must be on the host.
[[gnu::always_inline]] inline bool LazyReplay::replay_operand(std::uint32_t id, const Tensor& tensor,
                                                              bool watched, bool on_host) {
  HotTrace& hot_trace = *hot_trace_;
  LazyValues& values = hot_trace.values;
  if (id < values.size()) {
    const LazyValue& value = values[id];
    if (value.result != nullptr) return tensor.lies_in(*value.result);  // no result has elements yet
    return tensor.pending() == nullptr && is_leaf_again(tensor, value.tensor, value.version);
  }
  if (id != values.size() || hot_trace.results[id] != 0 || tensor.pending() != nullptr || tensor.borrowed())
    return false;
  if (on_host && tensor.device() != 0) return false;
  values.emplace_back(tensor);
  hot_trace.leaf_nodes[id] = nullptr;
  if (watched) tensor.watch();
  return true;
}

// The lazy tensor of the next result of the next operation, whose results begin at `first_value`. If it
// throws, nothing of the operation remains.
[[gnu::always_inline]] inline Tensor& LazyReplay::replay_result(std::uint32_t first_value,
                                                                const LazyTensorFactory& factory) {
  LazyValues& values = hot_trace_->values;
  if (LazyValue* const kept = values.kept(); kept != nullptr) [[likely]] {
    values.take_kept();
    return kept->tensor;
  }
  try {
    const auto id = static_cast<std::uint32_t>(values.size());
    return values.emplace_back(factory.make(hot_trace_->types[id], id), static_cast<std::uint32_t>(at_))
        .tensor;
  } catch (...) {
    values.truncate(first_value);
    throw;
  }
}

}  // namespace tidu::frontend_detail
