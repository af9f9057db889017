// hot_call.cpp - operations in a hot sequence that are identified by their position: their results and nodes
// are made without any lookup. See Note [Calls] in lazy.hpp.
#include <algorithm>

#include "eager/node.hpp"
#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "frontend/lazy.hpp"
#include "frontend/lazy_replay.hpp"

namespace tidu::frontend_detail {
namespace {

using eager::detail::Edge;
using eager::detail::Node;
using eager::detail::SavedSource;
using eager::detail::Specialization;

// Which operands require a gradient that is recorded; nothing where one is traced.
std::optional<std::uint32_t> grads_of(const Context& c, std::span<const Input> operands) {
  std::uint32_t grads = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Body* const body = operands[i].body;
    if (body == nullptr) continue;
    if (body->traced || (body->requires_grad && !body->trace)) return std::nullopt;
    grads |= (body->requires_grad ? 1U : 0U) << i;
  }
  return c.grad_mode ? grads : 0;
}

// May calls be replayed? Not under modes that observe every operation.
bool knows_calls(const Context& c, const Call& call, std::span<const Input> operands) {
  return c.hot_on && c.lazy == 0 && !c.watches && !call.moves && operands.size() <= max_operands &&
         call.static_args.size() <= max_static_args;
}

// See Context::lowest.
void note_inputs(Context& c, std::span<const Input> operands) {
  const std::uint64_t own = c.recorder.keys().source();
  for (const Input& operand : operands) {
    const Body* const body = operand.body;
    if (body == nullptr || !body->requires_grad) continue;
    c.lowest = std::min(c.lowest, body->key.source == own ? body->key.counter : 0);
  }
}

// The node of an invocation with one result, as a recorder makes it for this specialization. The checks of a
// recorder are known to hold. See Context::lowest, too.
[[gnu::always_inline]] inline Node* record_again(Context& c, const Specialization& specialization,
                                                 std::span<const Input> operands, const Tensor& result,
                                                 const Where& where) {
  eager::detail::RecorderCore& recorder = c.recorder.core();
  const std::size_t num_saved = specialization.saved.size();
  Node* const node = Node::make(specialization, recorder.table(), 0, num_saved, num_saved != 0);
  tidu::detail::count_up(specialization.owner->references);
  std::uint64_t* version = node->versions();
  auto* saved = reinterpret_cast<Tensor*>(node->saved_at());
  for (const SavedSource& source : specialization.saved) {
    const Tensor& tensor = source.kind == SavedSource::Kind::output ? result : *operands[source.index].tensor;
    ::new (static_cast<void*>(saved++)) Tensor(tensor);
    *version++ = tensor.version();
  }
  std::uint64_t last = 0, lowest = c.lowest;
  const std::uint64_t own = recorder.keys().source();
  Edge* edge = node->edges();
  for (const std::uint32_t input : specialization.edges) {
    const Body& body = *operands[input].body;
    Node* const target = eager::detail::node_of(body.trace.node());
    eager::detail::retain(body.trace.node());
    last = std::max(last, target->sequence);
    lowest = std::min(lowest, body.key.source == own ? body.key.counter : 0);
    ::new (static_cast<void*>(edge++))
        Edge{target, static_cast<std::uint32_t>(body.key.counter - target->first_key.counter)};
  }
  c.lowest = lowest;
  recorder.enter(*node, last, 1);
  if (recorder.options().record_where) {
    node->file = where.file;
    node->line = where.line;
  }
  return node;
}

}  // namespace

// Is `target` the node of the operation of the hot trace that makes value `id`; or, if that is a leaf, the
// node that was seen with it before?
[[gnu::always_inline]] inline bool LazyReplay::note_edge(std::uint32_t id, Node* target) {
  HotTrace& hot_trace = *hot_trace_;
  const LazyValue& value = hot_trace.values[id];
  if (value.op != no_index) {
    const HotTrace::Recorded& producer = hot_trace.recorded[value.op];
    return producer.node == target && producer.counter == target->first_key.counter &&
           producer.replayed == count_;
  }
  Node*& known = hot_trace.leaf_nodes[id];
  if (known == nullptr) known = target;
  return known == target && target->is_leaf();
}

// The body of the Array of a known call's result, with its node.
[[gnu::always_inline]] inline Body* LazyReplay::result_of_call(Context& c, const RecordedCall& known,
                                                               std::span<const Input> operands,
                                                               const Where& where, const Tensor& result) {
  if (known.specialization == nullptr) {
    if (known.grads != 0) note_inputs(c, operands);
    return make_body(result);
  }
  const Specialization& specialization = *known.specialization;
  Node* const node = record_again(c, specialization, operands, result, where);
  eager::Trace trace = eager::Trace::adopt(eager::detail::count_of(node));
  HotTrace& hot_trace = *hot_trace_;
  HotTrace::Recorded& recorded = hot_trace.recorded[at_];
  // Two words, each as it was written: both at once would wait for that.
  const std::uint64_t source = c.recorder.keys().source(), counter = node->first_key.counter;
  bool as_operands = true;
  const Edge* edge = node->edges();
  for (const std::uint32_t input : specialization.edges) {
    const bool same = note_edge(hot_trace.operands[known.first_operand + input], (edge++)->target);
    as_operands = as_operands && same;
  }
  recorded.node = node;
  recorded.counter = counter;
  recorded.replayed = count_;
  recorded.as_operands = as_operands;
  Body* const made = make_body(result);
  made->trace = std::move(trace);
  made->key.source = source;
  made->key.counter = counter;
  made->requires_grad = specialization.output_active[0] != 0;
  return made;
}

[[gnu::always_inline]] inline Body* LazyReplay::replay_known(Context& c, const RecordedCall& known,
                                                             std::span<const Input> operands,
                                                             const Where& where,
                                                             const LazyTensorFactory& factory) {
  LazyValues& values = hot_trace_->values;
  const std::uint32_t* id = hot_trace_->operands.data() + known.first_operand;
  std::uint32_t grads = 0, bit = 1;
  for (const Input& operand : operands) {
    const Body* const body = operand.body;
    if (body != nullptr) {
      if (body->traced || (body->requires_grad && !body->trace)) return nullptr;
      if (body->requires_grad) grads |= bit;
    }
    bit <<= 1U;
    if (!replay_operand(*id++, *operand.tensor, body != nullptr, true)) return nullptr;
  }
  if ((c.grad_mode ? grads : 0) != known.grads || values.size() != known.first_value) return nullptr;
  const Tensor& result = replay_result(known.first_value, factory);
  Body* made = nullptr;
  try {
    made = result_of_call(c, known, operands, where, result);
  } catch (...) {
    values.keep_last();
    throw;
  }
  ++at_;
  return made;
}

// See Note [Calls].
[[gnu::always_inline]] inline Body* LazyReplay::replay_call(Context& c, const Call& call,
                                                            std::span<const Input> operands,
                                                            const Where& where, const LazyRunner& runner,
                                                            const LazyTensorFactory& factory,
                                                            bool may_start) {
  const bool begins = !is_active();
  if (begins && (!may_start || hot_traces_.expected() == nullptr)) return nullptr;
  HotTrace& hot_trace = begins ? *hot_traces_.expected() : *hot_trace_;
  const std::size_t at = begins ? 0 : at_;
  if (at == hot_trace.num_ops) return nullptr;
  const RecordedCall& known = hot_trace.calls[at];
  if (!known.is(call, operands)) return nullptr;
  if (!c.hot->is_next(known.token)) return nullptr;
  if (begins) {
    if (runner.cpu == nullptr || !hot_trace.is_run_by(runner)) return nullptr;
    start(hot_trace);
  }
  if (c.cpu == nullptr || runner.cpu != c.cpu) return nullptr;  // whose nodes have a placement
  return replay_known(c, known, operands, where, factory);
}

[[gnu::always_inline]] inline Body* LazyTrace::replay_call(Context& c, const Call& call,
                                                           std::span<const Input> operands,
                                                           const Where& where) {
  HotDetector& detector = *c.hot;
  const std::lock_guard lock(mutex_);
  Body* const made = replay_.replay_call(c, call, operands, where, runner_, factory_, ops_.values().empty());
  if (made == nullptr) return nullptr;
  ++counters_.lazy.recorded;
  detector.go_on(1);
  detector.count_known();
  return made;
}

RecordedCall::RecordedCall(const ComingCall& coming, const eager::RecordedGraph& its_graph,
                           const Specialization* its)
    : name(coming.call.name),
      num_operands(static_cast<std::uint16_t>(coming.operands.size())),
      num_static_args(static_cast<std::uint16_t>(coming.call.static_args.size())),
      grads(coming.grads),
      specialization(its),
      graph(its_graph) {
  std::copy(coming.call.static_args.begin(), coming.call.static_args.end(), static_args.begin());
  for (std::size_t i = 0; i < num_operands; ++i) types[i] = coming.operands[i].tensor->type().identity();
}

// The graph alone says which calls those may be that have made it.
void LazyReplay::learn_call(RecordedCall& call) {
  HotTrace* const hot_trace = is_active() ? hot_trace_ : hot_traces_.last();
  const std::size_t end = is_active() ? at_ : hot_trace != nullptr ? hot_trace->ops.size() : 0;
  if (end == 0) return;
  const LazyOp& op = hot_trace->ops[end - 1];
  if (&op.graph.data() != &call.graph->graph().data() || op.num_operands != call.num_operands ||
      op.num_values != 1)
    return;
  call.token = &op.graph.data();
  call.first_operand = op.first_operand;
  call.first_value = op.first_value;
  std::swap(hot_trace->calls[end - 1], call);
}

void LazyTrace::learn_call(const ComingCall& coming, const eager::RecordedGraph& graph,
                           const Specialization* specialization) {
  RecordedCall call(coming, graph,
                    specialization);  // then the one before, which is destroyed without the lock
  const std::lock_guard lock(mutex_);
  replay_.learn_call(call);
}

namespace {

// The operation that gave `made` ended a repetition.
[[gnu::noinline]] void end_repetition_of(Context& c, const Call& call, std::span<const Input> operands,
                                         const Where& where, Body* made) {
  try {
    end_repetition(c);
  } catch (const Error& error) {
    const Array dropped(Array::Adopt{}, made);
    std::vector<Type> types;
    for (const Input& operand : operands) types.push_back(operand.tensor->type());
    raise_located(error, call.name, types, where);
  } catch (...) {
    const Array dropped(Array::Adopt{}, made);
    throw;
  }
}

}  // namespace

Body* replay_hot(Context& c, const Call& call, std::span<const Input> operands, const Where& where) {
  if (c.lazy != 0 || c.watches) return nullptr;
  Body* const made = c.trace->replay_call(c, call, operands, where);
  if (made != nullptr && c.hot->at_end()) [[unlikely]]
    end_repetition_of(c, call, operands, where, made);
  return made;
}

void learn_hot(Context& c, const Call& call, std::span<const Input> operands,
               const eager::RecordedGraph& graph, const Body& made) {
  if (!c.hot->in_sequence() || !knows_calls(c, call, operands)) return;
  const std::optional<std::uint32_t> grads = grads_of(c, operands);
  if (!grads) return;
  const Specialization* specialization = nullptr;
  if (made.trace) {
    specialization = eager::detail::node_of(made.trace.node())->specialization;
    if (specialization->fast_key == 0) return;
  }
  c.trace->learn_call({call, operands, *grads}, graph, specialization);
}

}  // namespace tidu::frontend_detail
