// hot_call.cpp - operations in a hot sequence whose places say what they are: their results and their nodes
// are made, and nothing is looked up. See Note [Calls] in lazy.hpp.
#include <algorithm>

#include "eager/node.hpp"
#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "frontend/lazy.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu::frontend_detail {
namespace {

using eager::detail::Edge;
using eager::detail::Node;
using eager::detail::SavedSource;
using eager::detail::Variant;

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

// May calls be known? What watches every operation sees it.
bool knows_calls(const Context& c, const Call& call, std::span<const Input> operands) {
  return c.hot_on && c.lazy == 0 && !c.watches && !call.moves && operands.size() <= most_operands &&
         call.words.size() <= most_words;
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

// The node of an invocation with one result, as a recorder makes it of this variant, whose owner it takes
// over. What a recorder checks is known.
void record_again(Context& c, const Variant& variant, std::span<const Input> operands, Body& made,
                  Where where) {
  eager::detail::RecorderCore& recorder = c.recorder.core();
  const std::size_t num_edges = variant.edges.size(), num_saved = variant.saved.size();
  const bool has_versions = num_saved != 0;
  void* block = nullptr;
  try {
    block = tidu::detail::pool_allocate(Node::bytes_for(num_edges, num_saved, sizeof(Tensor), has_versions));
  } catch (...) {
    eager::detail::release(variant.owner);
    throw;
  }
  Node* const node = ::new (block) Node;
  node->variant = &variant;
  node->table = &recorder.table();
  node->num_edges = static_cast<std::uint32_t>(num_edges);
  node->num_saved = static_cast<std::uint32_t>(num_saved);
  node->has_versions = has_versions;
  std::uint64_t* const versions = node->versions();
  for (std::size_t k = 0; k < num_saved; ++k) {
    const SavedSource& source = variant.saved[k];
    const Tensor& tensor =
        source.kind == SavedSource::Kind::output ? made.tensor : *operands[source.index].tensor;
    ::new (node->saved(k)) Tensor(tensor);
    versions[k] = tensor.version();
  }
  std::uint64_t last = 0;
  for (std::size_t e = 0; e < num_edges; ++e) {
    const Body& body = *operands[variant.edges[e]].body;
    Node* const target = eager::detail::node_of(body.trace.node());
    eager::detail::retain(body.trace.node());
    last = std::max(last, target->sequence);
    ::new (static_cast<void*>(node->edges() + e))
        Edge{target, static_cast<std::uint32_t>(body.key.counter - target->first_key.counter)};
  }
  recorder.enter(*node, last, 1);
  if (recorder.options().record_where) {
    node->file = where.file;
    node->line = where.line;
  }
  made.trace = eager::Trace::adopt(eager::detail::count_of(node));
  made.key = node->first_key;
  made.requires_grad = variant.output_active[0] != 0;
}

}  // namespace

bool follow_hot(Context& c, const Call& call, std::span<const Input> operands, Array& array, Where where) {
  if (!knows_calls(c, call, operands)) return false;
  const std::optional<std::uint32_t> grads = grads_of(c, operands);
  if (!grads) return false;
  Array made(Array::Adopt{}, make_body());
  const Variant* variant = nullptr;
  if (!c.trace->follow_call(c, {call, operands, *grads}, made.required().tensor, variant)) return false;
  // As the recorder sees it: after what was evaluated at the end.
  try {
    end_repetition(c);
  } catch (const Error& error) {
    if (variant != nullptr) eager::detail::release(variant->owner);
    std::vector<Type> types;
    for (const Input& operand : operands) types.push_back(operand.tensor->type());
    raise_located(error, call.name, types, where);
  }
  if (*grads != 0) note_inputs(c, operands);
  if (variant != nullptr) record_again(c, *variant, operands, made.required(), where);
  array = std::move(made);
  return true;
}

void learn_hot(Context& c, const Call& call, std::span<const Input> operands,
               const eager::RecordedGraph& graph, const Body& made) {
  if (!c.hot->is_followed() || !knows_calls(c, call, operands)) return;
  const std::optional<std::uint32_t> grads = grads_of(c, operands);
  if (!grads) return;
  const Variant* variant = nullptr;
  if (made.trace) {
    variant = eager::detail::node_of(made.trace.node())->variant;
    if (variant->fast_key == 0) return;
  }
  c.trace->learn_call({call, operands, *grads}, graph, variant);
}

}  // namespace tidu::frontend_detail
