// hot_trace.cpp - see hot_trace.hpp.
#include "frontend/hot_trace.hpp"

#include <algorithm>
#include <utility>

#include "eager/cached_graph.hpp"

namespace tidu::frontend_detail {
namespace {

constexpr std::size_t max_hot_traces = 8;
constexpr std::size_t max_known = 4;  // of one hot trace
constexpr std::size_t max_ops = std::size_t{1} << 12;

// Does the run have all results, and read leaves alone? `referred`: by value, is it a result of the run?
bool is_complete(const RecordedOps& ops, const LazyRun& run, const std::vector<std::uint8_t>& referred) {
  const LazyValues& values = ops.values();
  for (std::size_t id = 0; id < referred.size(); ++id)
    if (values[id].op != no_index && referred[id] == 0 && !values[id].waits()) return false;
  return std::all_of(run.input_values.begin(), run.input_values.end(),
                     [&](std::uint32_t id) { return values[id].op == no_index; });
}

}  // namespace

HotTrace::HotTrace(const RecordedOps& recorded_ops, std::size_t num_values, const LazyRunner& runs)
    : ops(recorded_ops.ops().begin(), recorded_ops.ops().end()),
      num_ops(ops.size()),
      calls(ops.size()),
      operands(recorded_ops.operands()),
      recorded(ops.size()),
      leaf_nodes(num_values),
      executor(runs.executor->id()),
      runner(runs) {
  for (std::uint32_t id = 0; id < num_values; ++id) {
    const LazyValue& value = recorded_ops.values()[id];
    results.push_back(value.op != no_index ? 1 : 0);
    types.push_back(value.tensor.type());
    if (value.op == no_index) leaves.push_back(id);
  }
}

bool HotTrace::is_of(const RecordedOps& other, const LazyRunner& other_runner) const {
  const std::span<const LazyOp> others = other.ops();
  return is_run_by(other_runner) && operands == other.operands() &&
         std::equal(ops.begin(), ops.end(), others.begin(), others.end(),
                    [](const LazyOp& a, const LazyOp& b) {
                      return &a.graph.data() == &b.graph.data() && a.first_value == b.first_value;
                    });
}

HotTrace* HotTraces::find(const Graph& first, const LazyRunner& runner) const {
  const auto begins = [&](const HotTrace& hot_trace) {
    return &hot_trace.ops[0].graph.data() == &first.data() && hot_trace.is_run_by(runner);
  };
  if (HotTrace* const next = expected(); next != nullptr && begins(*next)) return next;
  const auto at = std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return begins(*one); });
  return at != all_.end() ? at->get() : nullptr;
}

// `gone`: the replaced hot trace.
HotTrace& HotTraces::keep(std::unique_ptr<HotTrace> fresh, std::unique_ptr<HotTrace>& gone) {
  if (all_.size() < max_hot_traces) {
    all_.push_back(std::move(fresh));
    return *all_.back();
  }
  HotTrace& slot = *all_[replaced_++ % max_hot_traces];
  // A hot trace whose `next` is here then expects the new one, which does no harm.
  std::swap(slot, *fresh);
  gone = std::move(fresh);
  return slot;
}

std::unique_ptr<HotTrace> HotTraces::learn(const RecordedOps& ops, const LazyRunner& runner,
                                           const LazyRun& run, std::shared_ptr<const LazyProgram> program) {
  HotTrace* const before = std::exchange(last_, nullptr);
  if (ops.size() > max_ops) return nullptr;
  // Values of an operation that was not replayed to its end come after all of these.
  const std::size_t num_values = ops.ops().back().first_value + ops.ops().back().num_values;
  HotTrace::Known known;
  known.referred.resize(num_values);
  for (const std::uint32_t id : run.output_values) known.referred[id] = 1;
  if (!is_complete(ops, run, known.referred)) return nullptr;
  known.input_values = run.input_values;
  known.output_values = run.output_values;
  known.num_ops = run.order.size();
  known.program = std::move(program);
  if (known.program->deferral != nullptr) known.use = std::make_shared<DeferralUse>();
  std::unique_ptr<HotTrace> gone;
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return one->is_of(ops, runner); });
  HotTrace& hot_trace =
      found != all_.end() ? **found : keep(std::make_unique<HotTrace>(ops, num_values, runner), gone);
  if (hot_trace.known.size() < max_known) {
    hot_trace.known.push_back(std::move(known));
  } else {
    std::swap(hot_trace.known[hot_trace.replaced++ % max_known], known);
    gone = gone != nullptr ? std::move(gone) : std::make_unique<HotTrace>();
    gone->known.push_back(std::move(known));
  }
  if (before != nullptr) before->next = &hot_trace;
  last_ = &hot_trace;
  return gone;
}

}  // namespace tidu::frontend_detail
