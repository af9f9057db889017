// hooks.cpp - hooks see cotangents of a backward call, and may replace them.
#include <optional>
#include <utility>

#include "eager/anomaly.hpp"
#include "eager/call.hpp"

namespace tidu::eager::detail {

using tidu::detail::str;

namespace {

constexpr const char* left_by[] = {"what a hook on a value left as ", "what a hook before the node left as ",
                                   "what a hook after the node left as ",
                                   "what a hook on accumulation left as "};

// The type of an absent cotangent, from its index among those of the node.
Type type_of_absent(const HookFrame& frame, Cell* const& cell) {
  const Variant& variant = *node_of(frame.node.node())->variant;
  const auto index = [&cell](std::span<Cell*> cells) {
    return static_cast<std::size_t>(&cell - cells.data());
  };
  if (index(frame.incoming) < frame.incoming.size())
    return variant.owner
        ->output_types[frame.incoming.size() == variant.num_outputs() ? index(frame.incoming) : frame.slot];
  return variant.owner->input_types[variant.edges[index(frame.outgoing)]];
}

}  // namespace

// The replacement of a hook is at the placement of the running thread.
void replace_cell(HookFrame& frame, Cell*& cell, void* operand, const EagerOutput* recorded) {
  const BackwardCall& call = frame.call;
  const Node& node = *node_of(frame.node.node());
  if (cell != nullptr) {
    const std::optional<std::uint32_t> before = call.host.device_of(cell->operand());
    const std::optional<std::uint32_t> after = call.host.device_of(operand);
    if (before && after && *before != *after) {
      throw Error(ErrorKind::type, str("HookValue: expected a cotangent on device ", *before,
                                       " in the place of another, got device ", *after));
    }
  }
  Type type;
  if (cell != nullptr) {
    type = cell->type;
  } else if (node.is_leaf()) {
    type = call.host.describe(operand).value_or(Type());
  } else {
    type = type_of_absent(frame, cell);
  }
  Cell* made[] = {copy_cell(call.table, type, operand)};
  const CellGuard guard(call.table, made);
  if (recorded != nullptr) set_recorded(*made[0], *recorded);
  const Placement here = call.host.current_placement();
  made[0]->device = here.device;
  made[0]->stream = here.stream;
  const auto edge = static_cast<std::size_t>(&cell - frame.outgoing.data());
  if (edge < frame.outgoing.size()) {  // as if the node had made it
    made[0]->sequence = node.sequence;
    made[0]->source = node.first_key.source;
    made[0]->edge = static_cast<std::uint32_t>(edge);
  }
  frame.call.cotangents.move_to(*made[0], node.placement());
  if (cell != nullptr) destroy_cell(call.table, cell);
  cell = std::exchange(made[0], nullptr);
}
void drop_cell(HookFrame& frame, Cell*& cell) {
  if (cell != nullptr) destroy_cell(frame.call.table, std::exchange(cell, nullptr));
}
void at_end(BackwardCall& call, std::function<void()> callback) {
  if (!callback) throw Error(ErrorKind::invalid_argument, "at_end: expected a function, got an empty one");
  const std::lock_guard<std::mutex> lock(call.callbacks_mutex);
  call.callbacks.push_back(std::move(callback));
}
Cell*& cell_at(std::span<Cell*> cells, std::size_t index, const char* what) {
  if (index >= cells.size()) {
    throw Error(ErrorKind::invalid_argument, str("HookContext::", what, ": expected an index of ",
                                                 cells.size(), " cotangents, got ", index));
  }
  return cells[index];
}
bool creates_graph(const HookFrame& frame) { return frame.call.cotangents.creates_graph; }

void BackwardCall::run_hooks(const HookList::Hooks& hooks, HookKind kind, Node& node,
                             std::span<Cell*> incoming, std::span<Cell*> outgoing) {
  for (const auto& entry : hooks) {
    if (entry->kind != kind || entry->removed.load(std::memory_order_acquire)) continue;
    const bool one = kind == HookKind::value;
    const std::span<Cell*> seen = one ? incoming.subspan(entry->slot, 1) : incoming;
    if ((one || node.is_leaf()) && seen[0] == nullptr) continue;
    const Type leaf_type = node.is_leaf() ? seen[0]->type : Type();
    const std::int64_t begin = options.profile != nullptr ? options.profile->now() : 0;
    const char* const who = left_by[static_cast<std::size_t>(kind)];
    HookFrame frame{*this, ref(&node), seen, outgoing, entry->slot};
    entry->hook(frame);
    if (options.profile != nullptr) [[unlikely]] {
      options.profile->add({ProfilePhase::hook, node.name(), node.where(), node.sequence, 0, begin,
                            options.profile->now(), node.placement(), 0});
    }
    if (node.is_leaf()) {
      const std::optional<Type> left =
          seen[0] != nullptr ? host.describe(seen[0]->operand()) : std::optional<Type>();
      if (left && *left != leaf_type) {
        throw Error(ErrorKind::type, str("backward: expected ", leaf_type, " as ", who, "cotangent of ",
                                         node.describe(), ", got ", *left));
      }
      continue;
    }
    const Template& graph = *node.variant->owner;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] != nullptr)
        cotangents.check_type(*seen[i], graph.output_types[one ? entry->slot : i], node, who,
                              "cotangent of output", one ? entry->slot : i);
    }
    for (std::size_t e = 0; e < outgoing.size(); ++e) {
      if (outgoing[e] != nullptr)
        cotangents.check_type(*outgoing[e], graph.input_types[node.variant->edges[e]], node, who,
                              "cotangent of input", node.variant->edges[e]);
    }
  }
}

}  // namespace tidu::eager::detail
