// lazy_replay.cpp - see lazy_replay.hpp. Known calls are replayed in hot_call.cpp.
#include "frontend/lazy_replay.hpp"

#include <algorithm>

#include "eager/cached_graph.hpp"

namespace tidu::frontend_detail {

void LazyReplay::start(HotTrace& hot_trace) {
  hot_trace.values.make_room(hot_trace.results.size());
  hot_traces_.note_next(hot_trace);
  hot_trace_ = &hot_trace;
  at_ = 0;
  ++count_;
}

bool LazyReplay::start(const Graph& first, const LazyRunner& runner) {
  HotTrace* const hot_trace = hot_traces_.find(first, runner);
  if (hot_trace != nullptr) start(*hot_trace);
  return hot_trace != nullptr;
}

bool LazyReplay::replay(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out,
                        const LazyTensorFactory& factory) {
  HotTrace& hot_trace = *hot_trace_;
  if (at_ == hot_trace.ops.size()) return false;
  const LazyOp& op = hot_trace.ops[at_];
  if (&op.graph.data() != &graph.data() || inputs.size() != op.num_operands) return false;
  for (std::uint32_t k = 0; k < op.num_operands; ++k)
    if (!replay_operand(hot_trace.operands[op.first_operand + k], *inputs[k], true, false)) return false;
  if (hot_trace.values.size() != op.first_value) return false;
  for (std::uint32_t slot = 0; slot < op.num_values; ++slot) replay_result(op.first_value, factory);
  for (std::uint32_t slot = 0; slot < op.num_values; ++slot)
    out[slot] = hot_trace.values[op.first_value + slot].tensor;
  ++at_;
  return true;
}

void LazyReplay::leave(RecordedOps& ops, std::vector<LazyValue>& dropped) {
  HotTrace& hot_trace = *hot_trace_;
  if (at_ == 0) {
    hot_trace.values.swap(dropped);
  } else {
    hot_trace.values.drop_kept();
  }
  const std::span<const LazyOp> done = this->ops();
  const std::size_t num_operands = done.empty() ? 0 : done.back().first_operand + done.back().num_operands;
  const std::span<const std::uint32_t> read(hot_trace.operands.data(), num_operands);
  ops.take({done.begin(), done.end()}, {read.begin(), read.end()}, hot_trace.values);
  stop();
}

// Every evaluation except the run of a whole hot trace leaves the hot trace, so here all of its results are
// pending.
const HotTrace::Known* LazyReplay::find_known(const LazyRunner& runner) const {
  const HotTrace& hot_trace = *hot_trace_;
  if (!is_at_end()) return nullptr;
  if (hot_trace.executor != runner.executor->id()) return nullptr;  // assigned to in the meantime
  for (const std::uint32_t id : hot_trace.leaves)
    if (hot_trace.values[id].tensor.version() != hot_trace.values[id].version) return nullptr;
  const auto fits = [&hot_trace](const HotTrace::Known& known) {
    const LazyValue* value = hot_trace.values.begin();
    for (const std::uint8_t expected : known.referred) {
      if (value->result != nullptr && value->is_referred() != (expected != 0)) return false;
      ++value;
    }
    return true;
  };
  const auto found = std::find_if(hot_trace.known.begin(), hot_trace.known.end(), fits);
  return found != hot_trace.known.end() ? &*found : nullptr;
}

// There is no table of leaves, and one may occur several times.
bool LazyReplay::is_unique(const Tensor& old, const tidu::detail::LazyStorage* lazy_storage) {
  LazyValues& values = hot_trace_->values;
  const std::uint32_t references =
      lazy_storage != nullptr ? lazy_storage->references.load(std::memory_order_acquire) : 0;
  LazyValue* held = nullptr;
  std::uint32_t times = 0;
  for (const std::uint32_t id : hot_trace_->leaves) {
    if (1 + times == references || id >= values.size()) break;
    if (!values[id].tensor.shares_storage_with(old)) continue;
    held = &values[id];
    ++times;
  }
  if (lazy_storage != nullptr) return references == 1 + times;
  if (times == 0) return old.exclusive();
  if (times != 1 || held->tensor.type() != old.type()) return false;
  held->tensor = Tensor();
  const bool unique = old.exclusive();
  held->tensor = old;
  return unique;
}

void LazyReplay::finish(const HotTrace::Known& known, std::vector<Tensor>& dropped) {
  HotTrace& hot_trace = *hot_trace_;
  const auto take = [&](LazyValue& value) {
    dropped.push_back(std::move(value.tensor));
    value.result = nullptr;
  };
  for (const std::uint32_t id : hot_trace.leaves) take(hot_trace.values[id]);
  for (const std::uint32_t id : known.output_values) take(hot_trace.values[id]);
  hot_trace.values.keep_all();
  hot_traces_.set_last(hot_trace);
  stop();
}

}  // namespace tidu::frontend_detail
