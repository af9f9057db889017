// cells.cpp - cotangents on their way: where they meet they are folded, here and nowhere else; hooks see and
// replace them.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "eager/anomaly.hpp"
#include "eager/call.hpp"
#include "eager/operand_buffer.hpp"
#include "graph/thread_kept.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::eager::detail {

using tidu::detail::printable;
using tidu::detail::str;

namespace {

constexpr const char* left_by[] = {"what a hook on a value left as ", "what a hook before the node left as ",
                                   "what a hook after the node left as ",
                                   "what a hook on accumulation left as "};

struct GraphEntry {
  const void* type = nullptr;
  std::optional<DType> to;
  std::optional<RecordedGraph> graph;
  std::uint32_t readers = 0;
};
using GraphEntries = std::array<GraphEntry, 32>;

// The sum of two values of a type, or the conversion of one to another dtype, as an invocation of the set's
// own primitive. Kept by thread; a call that the users' code makes meanwhile leaves an entry alone that is
// being read.
class SmallGraph {
 public:
  SmallGraph(const PrimitiveSet& set, Type type, std::optional<DType> to = std::nullopt) {
    if (!to && set.add() == nullptr) return;
    GraphEntries& entries = tidu::detail::ThreadKept<GraphEntries>::get();
    const std::uintptr_t hash = (reinterpret_cast<std::uintptr_t>(type.identity()) >> 5) + (to ? 17 : 0);
    GraphEntry& entry = entries[hash % entries.size()];
    if (!entry.graph || entry.type != type.identity() || entry.to != to ||
        entry.graph->graph().primitives() != set) {
      own_ = to ? conversion(set, type, *to)
                : RecordedGraph::of(Op::make(*set.add()), std::array{type, type}, set);
      if (entry.readers != 0) return;
      std::swap(entry.graph, own_);  // what was there goes when this one does
      entry.type = type.identity();
      entry.to = to;
    }
    entry_ = &entry;
    ++entry.readers;
  }
  SmallGraph(const SmallGraph&) = delete;
  SmallGraph& operator=(const SmallGraph&) = delete;
  ~SmallGraph() {
    if (entry_ != nullptr) --entry_->readers;
  }
  /// Null: the set has no word for it.
  const RecordedGraph* get() const {
    if (entry_ != nullptr) return &*entry_->graph;
    return own_ ? &*own_ : nullptr;
  }

 private:
  static RecordedGraph conversion(const PrimitiveSet& set, Type type, DType to) {
    GraphBuilder builder("convert", set);
    const Value converted = set.vocabulary().convert(builder.input("0", type), to);
    return RecordedGraph::of(builder.build(std::array{converted}));
  }
  GraphEntry* entry_ = nullptr;
  std::optional<RecordedGraph> own_;
};

bool has_16_bits(Type type) { return accumulation_dtype(type.dtype()) != type.dtype(); }

}  // namespace

void BackwardCall::move_to(Cell& cell, Placement placement) {
  const Placement from{cell.device, cell.stream};
  if (from == placement) return;
  if (const Event event = host.record(from)) host.wait(placement, event);
  cell.device = placement.device;
  cell.stream = placement.stream;
}

// See Note [Wide accumulation] in linearize/transpose.cpp.
void BackwardCall::fold(Cell* into, Cell* from, const PrimitiveSet* set, const Node& target) {
  Cell* used[] = {from};
  const CellGuard guard(table, used);
  if (wide_accumulation && has_16_bits(from->type) && can_convert(set)) {
    const DType wide = accumulation_dtype(from->type.dtype());
    if (into->type != from->type.with_dtype(wide)) {
      into->type = from->type;  // see add()
      if (into->next == nullptr) {
        into->next = std::exchange(used[0], nullptr);
        return;
      }
      Cell* second[] = {std::exchange(into->next, nullptr)};
      const CellGuard second_guard(table, second);
      convert(*into, wide, *set, target);
      convert(*second[0], wide, *set, target);
      add(*into, *second[0], set, target.placement());
    }
    convert(*from, wide, *set, target);
  }
  add(*into, *from, set, target.placement());
}

void BackwardCall::complete_narrow_sum(Cell& sum, Type type, const PrimitiveSet* set, const Node& target) {
  if (sum.next != nullptr) {
    Cell* second[] = {std::exchange(sum.next, nullptr)};
    const CellGuard guard(table, second);
    add(sum, *second[0], set, target.placement());
  } else if (has_16_bits(type) && sum.type == type.with_dtype(accumulation_dtype(type.dtype()))) {
    convert(sum, type.dtype(), *set, target);
    if (options.anomaly) [[unlikely]]
      check_sum(looker, sum, sum.sequence);
  }
}

void BackwardCall::convert(Cell& cell, DType dtype, const PrimitiveSet& set, const Node& target) {
  const Placement placement = target.placement();
  const NodeView view(ref(&target));
  const SmallGraph conversion(set, cell.type, dtype);
  const RecordedGraph& graph = *conversion.get();
  const void* const input = cell.operand();
  OperandBuffer converted(table, 1);
  host.execute_forward({graph.graph(), graph.slot(), placement, &view}, {&input, 1}, converted.data());
  converted.filled = true;
  if (creates_graph && cell.trace != nullptr)
    record_in_place(cell, graph, std::array{RecordInput{cell.key, cell.trace, true, input}}, placement);
  table.destroy(cell.operand());
  converted.take(0, cell.operand());
  cell.type = cell.type.with_dtype(dtype);
  cell.device = placement.device;
  cell.stream = placement.stream;
}

// Who the cell is on the tape from now on: the result of an invocation.
void BackwardCall::record_in_place(Cell& cell, const RecordedGraph& graph,
                                   std::span<const RecordInput> inputs, Placement placement) {
  bool active = false;
  Node* node = request.recorder->record({graph.shared(), inputs, {}, {}, placement, {}}, &active);
  Trace before = Trace::adopt(std::exchange(cell.trace, node));
  if (node != nullptr) cell.key = node->first_key;
  cell.slot = 0;
}

void BackwardCall::add(Cell& into, const Cell& from, const PrimitiveSet* set, Placement placement) {
  into.type = from.type;  // that of a leaf's seed is a guess where the executor describes nothing
  // Of a leaf that nothing reads no set is known; a seed that was recorded has one.
  for (const Cell* cell : {static_cast<const Cell*>(&into), &from}) {
    if (set == nullptr && cell->trace != nullptr && !node_of(cell->trace)->is_leaf())
      set = &node_of(cell->trace)->variant->owner->graph.primitives();
  }
  std::optional<SmallGraph> sum;
  if (set != nullptr) sum.emplace(*set, into.type);
  const RecordedGraph* const graph = sum ? sum->get() : nullptr;
  const std::int64_t begin = options.profile != nullptr ? options.profile->now() : 0;
  if (creates_graph && (into.trace != nullptr || from.trace != nullptr)) {
    if (graph == nullptr)
      throw Error(ErrorKind::unknown_primitive,
                  "backward: expected a primitive set that names the primitive that adds");
    const RecordInput inputs[] = {{into.key, into.trace, into.trace != nullptr, into.operand()},
                                  {from.key, from.trace, from.trace != nullptr, from.operand()}};
    record_in_place(into, *graph, inputs, placement);
  }
  host.add_operands({into.type, graph, placement}, into.operand(), from.operand());
  if (knows_types) {
    const std::optional<Type> got = host.describe(into.operand());
    if (got && *got != into.type)
      throw Error(ErrorKind::type, str("add_operands: expected a sum of type ", into.type, ", got ", *got));
  }
  if (options.anomaly) [[unlikely]]
    check_sum(looker, into, from.sequence);
  into.device = placement.device;
  into.stream = placement.stream;
  if (options.profile != nullptr) [[unlikely]] {
    options.profile->add({ProfilePhase::add,
                          "add",
                          {},
                          from.sequence == Cell::of_seed ? 0 : from.sequence,
                          host.bytes(into.operand()),
                          begin,
                          options.profile->now(),
                          placement,
                          0});
  }
}

void BackwardCall::contribute(Node& target, Cell* cell, const PrimitiveSet* set, const char*& phase) {
  Cell* owned[] = {cell};
  const CellGuard guard(table, owned);
  Cell** head = nullptr;
  bool failed = false;
  Placement placement = target.placement();
  if (target.is_leaf()) {
    LeafState& leaf = leaves.get(&target);
    if (!leaf.wanted) return;
    if (leaf.set == nullptr) leaf.set = set;
    leaf.type = cell->type;
    placement = leaf.node->placement();  // several nodes may stand for one leaf
    failed = leaf.failed;
    head = &leaf.cell;
  } else {
    State& state = *states.find(&target);
    if (!state.needed && !state.captured) return;
    failed = state.failed;
    set = &target.variant->owner->graph.primitives();
    head = &state.cell;
    if (folds_at_once && target.num_outputs() > 1) {
      if (state.cells == nullptr) {
        state.cells = new Cell*[target.num_outputs()]();
        ++live;
      }
      head = state.cells + cell->target_slot;
    }
  }
  if (failed && folds_at_once) return;  // what is there may be what is left of a sum that failed
  move_to(*cell, placement);
  owned[0] = nullptr;
  if (*head == nullptr || !folds_at_once) {
    cell->next = *head;
    *head = cell;
    ++live;
  } else {
    phase = "add_operands";
    fold(*head, cell, set, target.is_leaf() ? *leaves.get(&target).node : target);
  }
}

void BackwardCall::fold_waiting(Cell*& waiting, std::span<Cell*> by_slot, const PrimitiveSet* set,
                                const Node& target) {
  std::size_t count = 0;
  for (const Cell* at = waiting; at != nullptr; at = at->next) ++count;
  std::vector<Cell*> cells;
  cells.reserve(count);  // when it throws, what waits stays where it is
  for (Cell* at = std::exchange(waiting, nullptr); at != nullptr; at = at->next) cells.push_back(at);
  for (Cell* cell : cells) cell->next = nullptr;
  const CellGuard guard(table, cells);
  std::sort(cells.begin(), cells.end(), [](const Cell* a, const Cell* b) {
    if (a->target_slot != b->target_slot) return a->target_slot < b->target_slot;
    if (a->sequence != b->sequence) return a->sequence > b->sequence;
    return a->source != b->source ? a->source > b->source : a->edge > b->edge;
  });
  for (Cell*& cell : cells) {
    Cell*& into = by_slot[cell->target_slot];
    Cell* from = std::exchange(cell, nullptr);
    if (into == nullptr) {
      into = from;
    } else {
      fold(into, from, set, target);
    }
  }
}

void BackwardCall::check_type(const Cell& cell, Type expected, const Node& node, const char* who,
                              const char* what, std::size_t index) const {
  if (knows_types) {
    const std::optional<Type> type = host.describe(cell.operand());
    if (type && *type != expected) {
      throw Error(ErrorKind::type, str('[', printable(node.name()), "] expected ", expected, " as ", who,
                                       what, ' ', index, ", got ", *type));
    }
  }
}

void BackwardCall::check_device(const Cell& cell, const Node& node, std::size_t input) const {
  if (!knows_devices) return;
  const std::optional<std::uint32_t> device = host.device_of(cell.operand());
  if (device && *device != node.device) {
    throw Error(ErrorKind::type, str('[', printable(node.name()), "] expected the cotangent of input ", input,
                                     " on device ", node.device, ", got device ", *device));
  }
}

// --- hooks

namespace {

// The type of a cotangent that is not there, from its place among those of the node.
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

// What a hook makes it makes where the running thread puts work.
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
  frame.call.move_to(*made[0], node.placement());
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
bool creates_graph(const HookFrame& frame) { return frame.call.creates_graph; }

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
        check_type(*seen[i], graph.output_types[one ? entry->slot : i], node, who, "cotangent of output",
                   one ? entry->slot : i);
    }
    for (std::size_t e = 0; e < outgoing.size(); ++e) {
      if (outgoing[e] != nullptr)
        check_type(*outgoing[e], graph.input_types[node.variant->edges[e]], node, who, "cotangent of input",
                   node.variant->edges[e]);
    }
  }
}

}  // namespace tidu::eager::detail
