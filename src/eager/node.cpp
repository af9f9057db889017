// node.cpp - makes leaves, frees nodes without recursion, hooks and names, and read access to nodes.
#include "eager/node.hpp"

#include <algorithm>
#include <new>

#include "tidu/graph/pool.hpp"

namespace tidu::eager {
namespace detail {

using tidu::detail::in_quotes;
using tidu::detail::printable;
using tidu::detail::str;

// Note [Dead nodes]: freeing a node releases its producers and operands, whose destructors may release
// further nodes. The first call on a thread processes a list of dead nodes; calls inside it only add to the
// list, through the `sequence` of the dead node, which has no other use any more.
namespace {

struct DeadList {
  Node* head = nullptr;
  bool busy = false;
};
thread_local DeadList dead;

// NOLINTNEXTLINE(performance-no-int-to-ptr): the list has no pointer of its own, see above
Node* next_dead(Node* node) { return reinterpret_cast<Node*>(static_cast<std::uintptr_t>(node->sequence)); }

}  // namespace

void destroy(NodeCount* count) noexcept {
  Node* node = node_of(count);
  // The last value of the counter is not needed: a thread's destructors may run after the list is gone, which
  // is trivially destructible and stays usable.
  node->sequence = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(dead.head));
  dead.head = node;
  if (dead.busy) return;
  dead.busy = true;
  while (dead.head != nullptr) {
    Node* at = dead.head;
    dead.head = next_dead(at);
    const std::size_t bytes = at->bytes();
    delete at->extension.load(std::memory_order_acquire);
    if (at->is_leaf()) {
      delete at->accumulator();
    } else {
      for (std::uint32_t i = 0; i < at->num_edges + at->num_passive; ++i) release(at->edges()[i].target);
      if ((at->uses.load(std::memory_order_acquire) & Node::dropped_bit) == 0) at->drop_saved();
      if (tidu::detail::count_down(at->specialization->owner->references) == 1)
        delete at->specialization->owner;
    }
    at->~Node();
    tidu::detail::pool_deallocate(at, bytes);
  }
  dead.busy = false;
}

void Node::drop_saved() noexcept {
  for (std::uint32_t i = 0; i < num_saved; ++i) table->destroy(saved(i));
}

Node* make_leaf(const Key& key, Placement placement) {
  void* block = tidu::detail::pool_allocate(sizeof(Node) + 16);
  Node* node = ::new (block) Node;
  node->first_key = key;
  node->device = placement.device;
  node->stream = placement.stream;
  ::new (static_cast<void*>(node + 1)) Accumulator*(nullptr);
  return node;
}

Cotangent* make_cotangent(const OperandTable& table, Type type) {
  return ::new (tidu::detail::pool_allocate(sizeof(Cotangent) + table.size)) Cotangent(type);
}
Cotangent* copy_cotangent(const OperandTable& table, Type type, const void* operand) {
  Cotangent* cotangent = make_cotangent(table, type);
  try {
    table.copy(cotangent->operand(), operand);
  } catch (...) {
    free_cotangent(table, cotangent);
    throw;
  }
  return cotangent;
}
void set_recorded(Cotangent& cotangent, const EagerOutput& recorded) {
  if (recorded.trace) {
    cotangent.trace = recorded.trace.node();
    retain(cotangent.trace);
  } else if (recorded.requires_grad && recorded.key) {
    cotangent.trace = make_leaf(recorded.key, {});
  } else {
    return;
  }
  cotangent.key = recorded.key;
  cotangent.slot = recorded.output_slot;
}
void free_cotangent(const OperandTable& table, Cotangent* cotangent) noexcept {
  if (cotangent->trace != nullptr) release(cotangent->trace);
  cotangent->~Cotangent();
  tidu::detail::pool_deallocate(cotangent, sizeof(Cotangent) + table.size);
}
void destroy_cotangent(const OperandTable& table, Cotangent* cotangent) noexcept {
  table.destroy(cotangent->operand());
  free_cotangent(table, cotangent);
}

Accumulator::~Accumulator() {
  if (gradient != nullptr) destroy_cotangent(table, gradient);
}

NodeExtension& Node::extension_or_make() {
  NodeExtension* made = extension.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  auto fresh = std::make_unique<NodeExtension>();
  if (extension.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel))
    return *fresh.release();
  return *made;
}

HookList::Position HookList::add(std::shared_ptr<Entry> entry) {
  std::shared_ptr<const Hooks> before;  // destroyed after the lock is released, since its contents may run
                                        // any code
  const std::lock_guard<std::mutex> lock(mutex_);
  const Position position{entry->slot, added_++};
  entries_.emplace(position, std::move(entry));
  before.swap(made_);
  return position;
}

void HookList::remove(Position position) {
  std::shared_ptr<const Hooks> before;
  std::shared_ptr<Entry> entry;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = entries_.find(position);
  if (at == entries_.end()) return;
  at->second->removed.store(true, std::memory_order_release);
  entry = std::move(at->second);
  entries_.erase(at);
  before.swap(made_);
}

std::shared_ptr<const HookList::Hooks> HookList::snapshot() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (made_ == nullptr && !entries_.empty()) {
    auto hooks = std::make_shared<Hooks>();
    hooks->reserve(entries_.size());
    for (const auto& [position, entry] : entries_) hooks->push_back(entry);
    made_ = std::move(hooks);
  }
  return made_;
}

std::shared_ptr<HookList> NodeExtension::hooks_or_make() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (hooks == nullptr) hooks = std::make_shared<HookList>();
  return hooks;
}

std::shared_ptr<const HookList::Hooks> NodeExtension::snapshot() {
  std::shared_ptr<HookList> list;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    list = hooks;
  }
  return list != nullptr ? list->snapshot() : nullptr;
}

std::string Node::where() const { return file == nullptr ? std::string() : str(file, ':', line); }

std::string Node::name() const {
  if (!is_leaf()) return specialization->owner->name();
  if (NodeExtension* more = extension.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(more->mutex);
    if (!more->names.empty()) return more->names.front().second;
  }
  return {};
}

std::string Node::describe() const {
  if (is_leaf()) {
    const std::string given = name();
    return given.empty() ? str("leaf ", to_string(first_key)) : str("leaf ", in_quotes(given));
  }
  std::string text = printable(name());
  if (file != nullptr) text += str(", recorded at ", printable(where()));
  return text;
}

std::string operand_name(const OperandTable& table) {
  std::string text = table.text;  // ... [with Operand = Name]
  const std::size_t begin = text.find("Operand = "), end = text.rfind(']');
  if (begin == std::string::npos || end == std::string::npos) return text;
  return text.substr(begin + 10, end - begin - 10);
}

void Node::refuse_operands(const OperandTable& others, const std::string& what) const {
  throw Error(ErrorKind::invalid_argument,
              str("expected operands of type ", operand_name(*operands()), ", as those of ", describe(),
                  ", got ", operand_name(others), " in ", what));
}

HookHandle add_hook(TraceRef trace, HookKind kind, std::uint32_t slot, UntypedHook hook,
                    const OperandTable& table) {
  if (!hook) throw Error(ErrorKind::invalid_argument, "hook: expected a function, got an empty one");
  if (!trace) {
    throw Error(ErrorKind::invalid_argument,
                "hook: expected a recorded value, got one without a trace (it does not require a gradient)");
  }
  Node* node = node_of(trace.node());
  node->require_operands(table, "a hook");
  auto entry = std::make_shared<HookList::Entry>();
  entry->kind = kind;
  entry->slot = slot;
  entry->hook = std::move(hook);
  const std::shared_ptr<HookList> list = node->extension_or_make().hooks_or_make();
  const HookList::Position position = list->add(std::move(entry));
  // The node may be gone by the time the hook is removed.
  return HookHandle([hooks = std::weak_ptr<HookList>(list), position] {
    if (const auto held = hooks.lock()) held->remove(position);
  });
}

std::uint32_t slot_of(TraceRef trace, const Key& key, const char* who) {
  const Node* node = trace ? node_of(trace.node()) : nullptr;
  const bool fits = node != nullptr && key.source == node->first_key.source &&
                    key.counter >= node->first_key.counter &&
                    key.counter - node->first_key.counter < node->num_outputs();
  if (!fits) {
    throw Error(ErrorKind::invalid_argument,
                str(who, ": expected the key of an output of the trace",
                    node == nullptr ? std::string(", which is empty") : str(" (", node->describe(), ')'),
                    ", got ", to_string(key)));
  }
  return static_cast<std::uint32_t>(key.counter - node->first_key.counter);
}

Key first_key(const NodeCount* node) noexcept { return node_of(node)->first_key; }
NodeCount* count_of(Node* node) noexcept { return node; }

LeafSlot::LeafSlot(const OperandTable& table, Key key, std::string name, Placement placement)
    : trace_(Trace::adopt(make_leaf(key, placement))) {
  Node* node = node_of(trace_.node());
  node->accumulator() = new Accumulator(table);
  if (!name.empty()) node->extension_or_make().names.emplace_back(0, std::move(name));
}
// A gradient that was recorded holds nodes that hold the leaf: the circle ends with the slot, and no backward
// call may close it again.
LeafSlot::~LeafSlot() {
  if (trace_) put(nullptr, true);
}

Accumulator& LeafSlot::slot() const {
  if (!trace_)
    throw Error(ErrorKind::invalid_argument, "Leaf: expected one that is there, got one that was moved from");
  return *node_of(trace_.node())->accumulator();
}

bool LeafSlot::read(void* to, EagerOutput* recorded) const {
  Accumulator& slot = this->slot();
  const std::lock_guard lock(slot.mutex);
  if (slot.gradient == nullptr) return false;
  if (to != nullptr) slot.table.copy(to, slot.gradient->operand());
  if (recorded != nullptr && slot.gradient->trace != nullptr)
    *recorded = {slot.gradient->key, Trace::share(slot.gradient->trace), true, slot.gradient->slot};
  return true;
}

void LeafSlot::write(void* from, const EagerOutput* recorded, std::optional<Placement> placement) {
  Accumulator& slot = this->slot();
  Cotangent* cotangent = nullptr;
  if (from != nullptr) {
    cotangent = copy_cotangent(slot.table, Type(), from);
    const Placement at = placement.value_or(node_of(trace_.node())->placement());
    cotangent->device = at.device;
    cotangent->stream = at.stream;
    try {
      if (recorded != nullptr) set_recorded(*cotangent, *recorded);
    } catch (...) {
      destroy_cotangent(slot.table, cotangent);
      throw;
    }
  }
  put(cotangent, false);
}

void LeafSlot::put(Cotangent* cotangent, bool closed) {
  Accumulator& slot = this->slot();
  {
    const std::lock_guard lock(slot.mutex);
    ++slot.changes;
    slot.closed = closed;
    std::swap(slot.gradient, cotangent);
  }
  if (cotangent != nullptr) destroy_cotangent(slot.table, cotangent);
}

}  // namespace detail

using detail::node_of;

namespace {

void check_index(std::size_t index, std::size_t count, const char* what) {
  if (index < count) return;
  throw Error(ErrorKind::invalid_argument,
              tidu::detail::str("NodeView: expected an index of ", count, ' ', what, ", got ", index));
}

// The node, which has that edge; leaves have none.
const detail::Node& with_edge(TraceRef trace, std::size_t edge) {
  const detail::Node& node = *node_of(trace.node());
  check_index(edge, node.num_edges, "recorded inputs");
  return node;
}

}  // namespace

void NodeView::refuse_empty() {
  throw Error(
      ErrorKind::invalid_argument,
      "NodeView: expected the trace of a recorded value, got an empty one (the value does not require a"
      " gradient)");
}
bool NodeView::is_leaf() const { return node_of(node_.node())->is_leaf(); }
std::string NodeView::name() const { return node_of(node_.node())->name(); }
std::string NodeView::where() const { return node_of(node_.node())->where(); }
std::uint64_t NodeView::sequence() const { return node_of(node_.node())->sequence; }
Placement NodeView::placement() const { return node_of(node_.node())->placement(); }
std::optional<RecordedGraph> NodeView::graph() const {
  const detail::Node* node = node_of(node_.node());
  if (node->is_leaf()) return std::nullopt;
  detail::retain(node->specialization->owner);
  return RecordedGraph(node->specialization->owner);
}
std::size_t NodeView::num_outputs() const { return node_of(node_.node())->num_outputs(); }
Key NodeView::output_key(std::size_t slot) const {
  check_index(slot, num_outputs(), "outputs");
  return node_of(node_.node())->key_of(static_cast<std::uint32_t>(slot));
}
std::size_t NodeView::num_edges() const { return node_of(node_.node())->num_edges; }
std::size_t NodeView::edge_input(std::size_t edge) const {
  return with_edge(node_, edge).specialization->edges[edge];
}
TraceRef NodeView::edge_node(std::size_t edge) const {
  return detail::ref(with_edge(node_, edge).edges()[edge].target);
}
std::uint32_t NodeView::edge_slot(std::size_t edge) const {
  return with_edge(node_, edge).edges()[edge].slot;
}
std::size_t NodeView::num_saved() const {
  const detail::Node* node = node_of(node_.node());
  return node->freed() ? 0 : node->num_saved;
}
std::string detail::name_of_input(const Node& node, std::size_t input) {
  for (std::uint32_t e = 0; e < node.num_edges; ++e) {
    const Edge& edge = node.edges()[e];
    if (node.specialization->edges[e] == input)
      return name_of(ref(edge.target), edge.target->key_of(edge.slot));
  }
  return {};
}

std::string detail::after_space(std::string_view name) {
  return name.empty() ? std::string() : tidu::detail::str(' ', tidu::detail::in_quotes(name));
}

std::string NodeView::saved_name(std::size_t saved) const {
  check_index(saved, node_of(node_.node())->num_saved, "saved operands");
  const detail::Specialization& specialization = *node_of(node_.node())->specialization;
  const detail::SavedSource& source = specialization.saved[saved];
  constexpr const char* kinds[] = {"input ", "output ", "retained value "};
  std::string name;
  if (source.kind == detail::SavedSource::Kind::input)
    name = detail::name_of_input(*node_of(node_.node()), source.index);
  if (source.kind == detail::SavedSource::Kind::output)
    name = name_of(node_, node_of(node_.node())->key_of(source.index));
  return tidu::detail::str(kinds[static_cast<std::size_t>(source.kind)], source.index,
                           detail::after_space(name), " (", specialization.owner->graph.type(source.value),
                           ')');
}
bool NodeView::freed() const { return node_of(node_.node())->freed(); }
std::string NodeView::describe() const { return node_of(node_.node())->describe(); }

void set_name(TraceRef trace, const Key& key, std::string name) {
  const std::uint32_t slot = detail::slot_of(trace, key, "set_name");
  detail::NodeExtension& extension = node_of(trace.node())->extension_or_make();
  const std::lock_guard<std::mutex> lock(extension.mutex);
  for (auto& [at, given] : extension.names) {
    if (at != slot) continue;
    given = std::move(name);
    return;
  }
  extension.names.emplace_back(slot, std::move(name));
}

std::string name_of(TraceRef trace, const Key& key) {
  const std::uint32_t slot = detail::slot_of(trace, key, "name_of");
  detail::NodeExtension* extension = node_of(trace.node())->extension.load(std::memory_order_acquire);
  if (extension == nullptr) return {};
  const std::lock_guard<std::mutex> lock(extension->mutex);
  for (const auto& [at, given] : extension->names)
    if (at == slot) return given;
  return {};
}

}  // namespace tidu::eager
