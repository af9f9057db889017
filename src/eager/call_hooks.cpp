// call_hooks.cpp - see call_hooks.hpp.
#include "eager/call_hooks.hpp"

#include <optional>
#include <utility>

#include "eager/anomaly.hpp"
#include "tidu/eager/profile.hpp"

namespace tidu::eager::detail {

using tidu::detail::str;

namespace {

constexpr const char* left_by[] = {"what a hook on a value left as ", "what a hook before the node left as ",
                                   "what a hook after the node left as ",
                                   "what a hook on accumulation left as "};

// The type of an absent cotangent, from its index among those of the node.
Type type_of_absent(const HookFrame& frame, Cotangent* const& cotangent) {
  const Specialization& specialization = *node_of(frame.node.node())->specialization;
  const auto index = [&cotangent](std::span<Cotangent*> cotangents) {
    return static_cast<std::size_t>(&cotangent - cotangents.data());
  };
  if (index(frame.incoming) < frame.incoming.size())
    return specialization.owner
        ->output_types[frame.incoming.size() == specialization.num_outputs() ? index(frame.incoming)
                                                                             : frame.slot];
  return specialization.owner->input_types[specialization.edges[index(frame.outgoing)]];
}

}  // namespace

void replace_cotangent(HookFrame& frame, Cotangent*& cotangent, void* operand, const EagerOutput* recorded) {
  frame.call.replace(frame, cotangent, operand, recorded);
}
void drop_cotangent(HookFrame& frame, Cotangent*& cotangent) { frame.call.drop(cotangent); }
void at_end(CallHooks& call, std::function<void()> callback) {
  if (!callback) throw Error(ErrorKind::invalid_argument, "at_end: expected a function, got an empty one");
  call.callbacks().add(std::move(callback));
}
Cotangent*& cotangent_at(std::span<Cotangent*> cotangents, std::size_t index, const char* what) {
  if (index >= cotangents.size()) {
    throw Error(ErrorKind::invalid_argument, str("HookContext::", what, ": expected an index of ",
                                                 cotangents.size(), " cotangents, got ", index));
  }
  return cotangents[index];
}
bool creates_graph(const HookFrame& frame) { return frame.call.creates_graph(); }

void CallHooks::check_device(const Cotangent& cotangent, const void* operand) const {
  const std::optional<std::uint32_t> before = request_.host.device_of(cotangent.operand());
  const std::optional<std::uint32_t> after = request_.host.device_of(operand);
  if (before && after && *before != *after) {
    throw Error(ErrorKind::type, str("HookValue: expected a cotangent on device ", *before,
                                     " in the place of another, got device ", *after));
  }
}

Type CallHooks::type_of_replaced(const HookFrame& frame, Cotangent* const& cotangent,
                                 const void* operand) const {
  if (cotangent != nullptr) return cotangent->type;
  if (node_of(frame.node.node())->is_leaf()) return request_.host.describe(operand).value_or(Type());
  return type_of_absent(frame, cotangent);
}

// The replacement of a hook is at the placement of the running thread.
void CallHooks::replace(HookFrame& frame, Cotangent*& cotangent, void* operand,
                        const EagerOutput* recorded) const {
  const OperandTable& table = request_.host.table;
  const Node& node = *node_of(frame.node.node());
  if (cotangent != nullptr) check_device(*cotangent, operand);
  Cotangent* made[] = {copy_cotangent(table, type_of_replaced(frame, cotangent, operand), operand)};
  const CotangentGuard guard(table, made);
  if (recorded != nullptr) set_recorded(*made[0], *recorded);
  const Placement here = request_.host.current_placement();
  made[0]->device = here.device;
  made[0]->stream = here.stream;
  const auto edge = static_cast<std::size_t>(&cotangent - frame.outgoing.data());
  if (edge < frame.outgoing.size()) {  // as if the node had made it
    made[0]->sequence = node.sequence;
    made[0]->source = node.first_key.source;
    made[0]->edge = static_cast<std::uint32_t>(edge);
  }
  cotangents_.move_to(*made[0], node.placement());
  if (cotangent != nullptr) destroy_cotangent(table, cotangent);
  cotangent = std::exchange(made[0], nullptr);
}

void CallHooks::check_leaf(const Node& leaf, const Cotangent* cotangent, Type before, const char* who) const {
  const std::optional<Type> left =
      cotangent != nullptr ? request_.host.describe(cotangent->operand()) : std::optional<Type>();
  if (left && *left != before) {
    throw Error(ErrorKind::type, str("backward: expected ", before, " as ", who, "cotangent of ",
                                     leaf.describe(), ", got ", *left));
  }
}

void CallHooks::check_node(const Node& node, std::span<Cotangent* const> seen, std::size_t first_slot,
                           std::span<Cotangent* const> outgoing, const char* who) const {
  const CachedGraph& graph = *node.specialization->owner;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::size_t slot = first_slot + i;
    if (seen[i] != nullptr)
      cotangents_.check_type(*seen[i], graph.output_types[slot], node, who, "cotangent of output", slot);
  }
  for (std::size_t e = 0; e < outgoing.size(); ++e) {
    const std::uint32_t input = node.specialization->edges[e];
    if (outgoing[e] != nullptr)
      cotangents_.check_type(*outgoing[e], graph.input_types[input], node, who, "cotangent of input", input);
  }
}

void CallHooks::run(const HookList::Hooks& hooks, HookKind kind, Node& node, std::span<Cotangent*> incoming,
                    std::span<Cotangent*> outgoing) {
  Profile* const profile = request_.options.profile;
  for (const auto& entry : hooks) {
    if (entry->kind != kind || entry->removed.load(std::memory_order_acquire)) continue;
    const bool one = kind == HookKind::value;
    const std::span<Cotangent*> seen = one ? incoming.subspan(entry->slot, 1) : incoming;
    if ((one || node.is_leaf()) && seen[0] == nullptr) continue;
    const Type leaf_type = node.is_leaf() ? seen[0]->type : Type();
    const std::int64_t begin = profile != nullptr ? profile->now() : 0;
    HookFrame frame{*this, ref(&node), seen, outgoing, entry->slot};
    entry->hook(frame);
    if (profile != nullptr) [[unlikely]] {
      profile->add({ProfilePhase::hook, node.name(), node.where(), node.sequence, 0, begin, profile->now(),
                    node.placement(), 0});
    }
    const char* const who = left_by[static_cast<std::size_t>(kind)];
    if (node.is_leaf()) {
      check_leaf(node, seen[0], leaf_type, who);
    } else {
      check_node(node, seen, one ? entry->slot : 0, outgoing, who);
    }
  }
}

void CallHooks::check_left(const Node& node, std::span<Cotangent* const> cotangents) const {
  show(When::left, node, cotangents);
  if (!request_.options.anomaly) return;
  for (std::size_t i = 0; i < cotangents.size(); ++i)
    if (cotangents[i] != nullptr) check_hooked(cotangents_.looker, *cotangents[i], node, i);
}

}  // namespace tidu::eager::detail
