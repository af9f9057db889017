// cotangents.cpp - see cotangents.hpp.
#include "eager/cotangents.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "eager/node.hpp"
#include "eager/operand_buffer.hpp"
#include "graph/thread_kept.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::eager::detail {

using tidu::detail::printable;
using tidu::detail::str;

namespace {

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
      std::swap(entry.graph, own_);  // the former graph is released with this object
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
  /// Null: the set has no operation for it.
  const RecordedGraph* get() const {
    if (entry_ != nullptr) return &*entry_->graph;
    return own_ ? &*own_ : nullptr;
  }

 private:
  static RecordedGraph conversion(const PrimitiveSet& set, Type type, DType to) {
    GraphBuilder builder("convert", set);
    const Value converted = set.transform_ops().convert(builder.input("0", type), to);
    return RecordedGraph::of(builder.build(std::array{converted}));
  }
  GraphEntry* entry_ = nullptr;
  std::optional<RecordedGraph> own_;
};

bool has_16_bits(Type type) { return accumulation_dtype(type.dtype()) != type.dtype(); }

}  // namespace

CotangentOps::CotangentOps(const BackwardRequest& backward_request)
    : creates_graph(backward_request.options.create_graph),
      wide_accumulation(backward_request.options.wide_accumulation &&
                        backward_request.host.wide_accumulation()),
      looker{backward_request.host,
             backward_request.options.anomaly ? std::make_shared<Findings>() : nullptr},
      request_(backward_request),
      host_(backward_request.host),
      options_(backward_request.options),
      table_(backward_request.host.table) {}

void CotangentOps::move_to(Cotangent& cotangent, Placement placement) const {
  const Placement from{cotangent.device, cotangent.stream};
  if (from == placement) return;
  if (const Event event = host_.record(from)) host_.wait(placement, event);
  cotangent.device = placement.device;
  cotangent.stream = placement.stream;
}

// See Note [Wide accumulation] in linearize/transpose.cpp.
void CotangentOps::accumulate(Cotangent* into, Cotangent* from, const PrimitiveSet* set,
                              const Node& target) const {
  Cotangent* used[] = {from};
  const CotangentGuard guard(table_, used);
  if (wide_accumulation && has_16_bits(from->type) && can_convert(set)) {
    const DType wide = accumulation_dtype(from->type.dtype());
    if (into->type != from->type.with_dtype(wide)) {
      into->type = from->type;  // see add()
      if (into->next == nullptr) {
        into->next = std::exchange(used[0], nullptr);
        return;
      }
      Cotangent* second[] = {std::exchange(into->next, nullptr)};
      const CotangentGuard second_guard(table_, second);
      convert(*into, wide, *set, target);
      convert(*second[0], wide, *set, target);
      add(*into, *second[0], set, target.placement());
    }
    convert(*from, wide, *set, target);
  }
  add(*into, *from, set, target.placement());
}

void CotangentOps::complete_narrow_sum(Cotangent& sum, Type type, const PrimitiveSet* set,
                                       const Node& target) const {
  if (sum.next != nullptr) {
    Cotangent* second[] = {std::exchange(sum.next, nullptr)};
    const CotangentGuard guard(table_, second);
    add(sum, *second[0], set, target.placement());
  } else if (has_16_bits(type) && sum.type == type.with_dtype(accumulation_dtype(type.dtype()))) {
    convert(sum, type.dtype(), *set, target);
    if (options_.anomaly) [[unlikely]]
      check_sum(looker, sum, sum.sequence);
  }
}

void CotangentOps::convert(Cotangent& cotangent, DType dtype, const PrimitiveSet& set,
                           const Node& target) const {
  const Placement placement = target.placement();
  const NodeView view(ref(&target));
  const SmallGraph conversion(set, cotangent.type, dtype);
  const RecordedGraph& graph = *conversion.get();
  const void* const input = cotangent.operand();
  OperandBuffer converted(table_, 1);
  host_.execute_forward({graph.graph(), graph.slot(), placement, &view}, {&input, 1}, converted.data());
  converted.filled = true;
  if (creates_graph && cotangent.trace != nullptr)
    record_in_place(cotangent, graph, std::array{RecordInput{cotangent.key, cotangent.trace, true, input}},
                    placement);
  table_.destroy(cotangent.operand());
  converted.take(0, cotangent.operand());
  cotangent.type = cotangent.type.with_dtype(dtype);
  cotangent.device = placement.device;
  cotangent.stream = placement.stream;
}

// Sets the identity of the cotangent on the tape: the result of an invocation.
void CotangentOps::record_in_place(Cotangent& cotangent, const RecordedGraph& graph,
                                   std::span<const RecordInput> inputs, Placement placement) const {
  bool active = false;
  Node* node = request_.recorder->record({graph.shared(), inputs, {}, {}, placement, {}}, &active);
  Trace before = Trace::adopt(std::exchange(cotangent.trace, node));
  if (node != nullptr) cotangent.key = node->first_key;
  cotangent.slot = 0;
}

void CotangentOps::add(Cotangent& into, const Cotangent& from, const PrimitiveSet* set,
                       Placement placement) const {
  into.type = from.type;  // that of a leaf's seed is a guess where the executor describes nothing
  // A leaf without readers has no known set; a recorded seed has one.
  for (const Cotangent* cotangent : {static_cast<const Cotangent*>(&into), &from}) {
    if (set == nullptr && cotangent->trace != nullptr && !node_of(cotangent->trace)->is_leaf())
      set = &node_of(cotangent->trace)->specialization->owner->graph.primitives();
  }
  std::optional<SmallGraph> sum;
  if (set != nullptr) sum.emplace(*set, into.type);
  const RecordedGraph* const graph = sum ? sum->get() : nullptr;
  const std::int64_t begin = options_.profile != nullptr ? options_.profile->now() : 0;
  if (creates_graph && (into.trace != nullptr || from.trace != nullptr)) {
    if (graph == nullptr)
      throw Error(ErrorKind::unknown_primitive,
                  "backward: expected a primitive set that names the primitive that adds");
    const RecordInput inputs[] = {{into.key, into.trace, into.trace != nullptr, into.operand()},
                                  {from.key, from.trace, from.trace != nullptr, from.operand()}};
    record_in_place(into, *graph, inputs, placement);
  }
  host_.add_operands({into.type, graph, placement}, into.operand(), from.operand());
  if (knows_types_) {
    const std::optional<Type> got = host_.describe(into.operand());
    if (got && *got != into.type)
      throw Error(ErrorKind::type, str("add_operands: expected a sum of type ", into.type, ", got ", *got));
  }
  if (options_.anomaly) [[unlikely]]
    check_sum(looker, into, from.sequence);
  into.device = placement.device;
  into.stream = placement.stream;
  if (options_.profile != nullptr) [[unlikely]] {
    options_.profile->add({ProfilePhase::add,
                           "add",
                           {},
                           from.sequence == Cotangent::of_seed ? 0 : from.sequence,
                           host_.bytes(into.operand()),
                           begin,
                           options_.profile->now(),
                           placement,
                           0});
  }
}

Cotangent* CotangentOps::duplicate(const Cotangent& cotangent) const {
  Cotangent* made = copy_cotangent(table_, cotangent.type, cotangent.operand());
  made->key = cotangent.key;
  made->trace = cotangent.trace;
  if (made->trace != nullptr) retain(made->trace);
  made->slot = cotangent.slot;
  made->device = cotangent.device;
  made->stream = cotangent.stream;
  return made;
}

void CotangentOps::fold_waiting(Cotangent*& waiting, std::span<Cotangent*> by_slot, const PrimitiveSet* set,
                                const Node& target) const {
  std::size_t count = 0;
  for (const Cotangent* at = waiting; at != nullptr; at = at->next) ++count;
  std::vector<Cotangent*> cotangents;
  cotangents.reserve(count);  // if it throws, waiting cotangents stay where they are
  for (Cotangent* at = std::exchange(waiting, nullptr); at != nullptr; at = at->next)
    cotangents.push_back(at);
  for (Cotangent* cotangent : cotangents) cotangent->next = nullptr;
  const CotangentGuard guard(table_, cotangents);
  std::sort(cotangents.begin(), cotangents.end(), [](const Cotangent* a, const Cotangent* b) {
    if (a->target_slot != b->target_slot) return a->target_slot < b->target_slot;
    if (a->sequence != b->sequence) return a->sequence > b->sequence;
    return a->source != b->source ? a->source > b->source : a->edge > b->edge;
  });
  for (Cotangent*& cotangent : cotangents) {
    Cotangent*& into = by_slot[cotangent->target_slot];
    Cotangent* from = std::exchange(cotangent, nullptr);
    if (into == nullptr) {
      into = from;
    } else {
      accumulate(into, from, set, target);
    }
  }
}

std::optional<Type> CotangentOps::learn_from(const Cotangent& seed) {
  const std::optional<Type> type = host_.describe(seed.operand());
  knows_types_ = knows_types_ || type;
  knows_devices_ = knows_devices_ || host_.device_of(seed.operand());
  return type;
}

void CotangentOps::check_type(const Cotangent& cotangent, Type expected, const Node& node, const char* who,
                              const char* what, std::size_t index) const {
  if (knows_types_) {
    const std::optional<Type> type = host_.describe(cotangent.operand());
    if (type && *type != expected) {
      throw Error(ErrorKind::type, str('[', printable(node.name()), "] expected ", expected, " as ", who,
                                       what, ' ', index, ", got ", *type));
    }
  }
}

void CotangentOps::check_device(const Cotangent& cotangent, const Node& node, std::size_t input) const {
  if (!knows_devices_) return;
  const std::optional<std::uint32_t> device = host_.device_of(cotangent.operand());
  if (device && *device != node.device) {
    throw Error(ErrorKind::type, str('[', printable(node.name()), "] expected the cotangent of input ", input,
                                     " on device ", node.device, ", got device ", *device));
  }
}

}  // namespace tidu::eager::detail
