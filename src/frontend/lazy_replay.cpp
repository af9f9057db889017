// lazy_replay.cpp - see lazy_replay.hpp. Known calls are replayed in hot_call.cpp.
#include "frontend/lazy_replay.hpp"

#include <algorithm>

#include "eager/cached_graph.hpp"

namespace tidu::frontend_detail {

void LazyReplay::start(LazyPattern& pattern) {
  pattern.values.make_room(pattern.results.size());
  patterns_.note_next(pattern);
  pattern_ = &pattern;
  at_ = 0;
  ++count_;
}

bool LazyReplay::start(const Graph& first, const LazyRunner& runner) {
  LazyPattern* const pattern = patterns_.find(first, runner);
  if (pattern != nullptr) start(*pattern);
  return pattern != nullptr;
}

bool LazyReplay::follow(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out,
                        const LazyTensorFactory& factory) {
  LazyPattern& pattern = *pattern_;
  if (at_ == pattern.ops.size()) return false;
  const LazyOp& op = pattern.ops[at_];
  if (&op.graph.data() != &graph.data() || inputs.size() != op.num_operands) return false;
  for (std::uint32_t k = 0; k < op.num_operands; ++k)
    if (!follow_operand(pattern.operands[op.first_operand + k], *inputs[k], true, false)) return false;
  if (pattern.values.size() != op.first_value) return false;
  for (std::uint32_t slot = 0; slot < op.num_values; ++slot) follow_result(op.first_value, factory);
  for (std::uint32_t slot = 0; slot < op.num_values; ++slot)
    out[slot] = pattern.values[op.first_value + slot].tensor;
  ++at_;
  return true;
}

void LazyReplay::leave(RecordedOps& ops, std::vector<LazyValue>& dropped) {
  LazyPattern& pattern = *pattern_;
  if (at_ == 0) {
    pattern.values.swap(dropped);
  } else {
    pattern.values.drop_kept();
  }
  const std::span<const LazyOp> done = this->ops();
  const std::size_t num_operands = done.empty() ? 0 : done.back().first_operand + done.back().num_operands;
  const std::span<const std::uint32_t> read(pattern.operands.data(), num_operands);
  ops.take({done.begin(), done.end()}, {read.begin(), read.end()}, pattern.values);
  stop();
}

// Every evaluation except the run of a whole pattern leaves the pattern, so here all of its results are
// pending.
const LazyPattern::Known* LazyReplay::find_known(const LazyRunner& runner) const {
  const LazyPattern& pattern = *pattern_;
  if (!is_at_end()) return nullptr;
  if (pattern.executor != runner.executor->id()) return nullptr;  // assigned to in the meantime
  for (const std::uint32_t id : pattern.leaves)
    if (pattern.values[id].tensor.version() != pattern.values[id].version) return nullptr;
  const auto fits = [&pattern](const LazyPattern::Known& known) {
    const LazyValue* value = pattern.values.begin();
    for (const std::uint8_t expected : known.referred) {
      if (value->result != nullptr && value->is_referred() != (expected != 0)) return false;
      ++value;
    }
    return true;
  };
  const auto found = std::find_if(pattern.known.begin(), pattern.known.end(), fits);
  return found != pattern.known.end() ? &*found : nullptr;
}

// There is no table of leaves, and one may occur several times.
bool LazyReplay::is_alone(const Tensor& old, const tidu::detail::LazyStorage* lazy_storage) {
  LazyValues& values = pattern_->values;
  const std::uint32_t references =
      lazy_storage != nullptr ? lazy_storage->references.load(std::memory_order_acquire) : 0;
  LazyValue* held = nullptr;
  std::uint32_t times = 0;
  for (const std::uint32_t id : pattern_->leaves) {
    if (1 + times == references || id >= values.size()) break;
    if (!values[id].tensor.shares_storage_with(old)) continue;
    held = &values[id];
    ++times;
  }
  if (lazy_storage != nullptr) return references == 1 + times;
  if (times == 0) return old.exclusive();
  if (times != 1 || held->tensor.type() != old.type()) return false;
  held->tensor = Tensor();
  const bool alone = old.exclusive();
  held->tensor = old;
  return alone;
}

void LazyReplay::finish(const LazyPattern::Known& known, std::vector<Tensor>& dropped) {
  LazyPattern& pattern = *pattern_;
  const auto take = [&](LazyValue& value) {
    dropped.push_back(std::move(value.tensor));
    value.result = nullptr;
  };
  for (const std::uint32_t id : pattern.leaves) take(pattern.values[id]);
  for (const std::uint32_t id : known.output_values) take(pattern.values[id]);
  pattern.values.keep_all();
  patterns_.set_last(pattern);
  stop();
}

}  // namespace tidu::frontend_detail
