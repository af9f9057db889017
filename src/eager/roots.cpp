// roots.cpp - see roots.hpp.
#include "eager/roots.hpp"

#include <algorithm>
#include <optional>

#include "eager/anomaly.hpp"

namespace tidu::eager::detail {

using tidu::detail::str;

Roots::~Roots() {
  for (std::size_t i = 0; i < held_roots_; ++i) release(request_.roots[i].node);
  for (std::size_t i = 0; i < held_requested_; ++i)
    if (const TraceRef trace = request_.requested[i].trace) release(trace.node());
}

void Roots::check_and_hold() {
  if (request_.roots.empty())
    throw Error(ErrorKind::invalid_argument, "backward: expected at least one root, got none");
  for (std::size_t i = 0; i < request_.roots.size(); ++i) check_root(i);
  if (request_.options.workers < 0) {
    throw Error(ErrorKind::invalid_argument,
                str("backward: expected at least 0 workers, got ", request_.options.workers));
  }
  check_requested();
  if (request_.options.create_graph && request_.recorder == nullptr)
    throw Error(ErrorKind::invalid_argument, "backward: expected a recorder with create_graph, got none");
  for (; held_roots_ < request_.roots.size(); ++held_roots_) retain(request_.roots[held_roots_].node);
  for (; held_requested_ < request_.requested.size(); ++held_requested_)
    if (const TraceRef trace = request_.requested[held_requested_].trace) retain(trace.node());
}

void Roots::check_root(std::size_t i) {
  const UntypedRoot& root = request_.roots[i];
  if (root.node == nullptr) {
    throw Error(ErrorKind::invalid_argument,
                str("backward: expected root ", i, " to be recorded, got ", to_string(root.key),
                    " without a trace: it depends on nothing that requires a gradient"));
  }
  const Node* node = node_of(root.node);
  const OperandTable& table = request_.host.table;
  if (node->operands() != &table) node->require_operands(table, str("root ", i));
  slots_.push_back(slot_of(TraceRef(root.node), root.key, "backward"));
  if (!node->is_leaf() && node->specialization->output_active[slots_.back()] == 0) {
    throw Error(ErrorKind::invalid_argument,
                str("backward: expected root ", i, " to have a derivative, got output ", slots_.back(),
                    " of ", node->describe()));
  }
}

void Roots::check_requested() const {
  std::vector<Requested> sorted(request_.requested.begin(), request_.requested.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Requested& a, const Requested& b) { return a.key < b.key; });
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    if (sorted[i].key && sorted[i].key == sorted[i + 1].key) {
      throw Error(ErrorKind::invalid_argument, str("backward: expected each requested value once, got ",
                                                   to_string(sorted[i].key), " twice"));
    }
  }
}

// The given seed, or the executor's ones. `type`: of the root; null: a leaf's, which is not known.
Cotangent* Roots::copy_or_make(std::size_t i, const Type* type) const {
  const UntypedRoot& root = request_.roots[i];
  const ErasedExecutor& host = request_.host;
  if (root.seed != nullptr)
    return copy_cotangent(host.table, type != nullptr ? *type : host.describe(root.seed).value_or(Type()),
                          root.seed);
  if (type == nullptr || type->size() != 1) {
    throw Error(ErrorKind::invalid_argument,
                str("backward: expected a seed for root ", i, " (",
                    type != nullptr ? str("of type ", *type, ", ") : std::string(), node(i).describe(),
                    "), got none: only a root of one element has an implicit seed"));
  }
  Cotangent* cotangent = make_cotangent(host.table, *type);
  bool made = false;
  try {
    made = host.ones_like(*type, cotangent->operand());
  } catch (...) {
    free_cotangent(host.table, cotangent);
    throw;
  }
  if (made) return cotangent;
  free_cotangent(host.table, cotangent);
  throw Error(ErrorKind::invalid_argument,
              str("backward: expected a seed for root ", i, " (", node(i).describe(),
                  "), got none, and the executor makes no ones"));
}

Cotangent* Roots::make_seed(std::size_t i, CotangentOps& cotangents, Placement caller) const {
  const UntypedRoot& root = request_.roots[i];
  const Node& node = this->node(i);
  const Type* const type = node.is_leaf() ? nullptr : &node.specialization->owner->output_types[slots_[i]];
  Cotangent* seed[] = {copy_or_make(i, type)};
  const CotangentGuard guard(request_.host.table, seed);
  Cotangent& cotangent = *seed[0];
  const std::optional<Type> got = cotangents.learn_from(cotangent);
  if (type != nullptr && got && *got != *type) {
    throw Error(ErrorKind::type, str("backward: expected a seed of type ", *type, " for root ", i, " (",
                                     node.describe(), "), got ", *got));
  }
  if (request_.options.anomaly) check_seed(cotangents.looker, cotangent, node);
  cotangent.sequence = Cotangent::of_seed;
  cotangent.edge = static_cast<std::uint32_t>(i);
  cotangent.target_slot = slots_[i];
  const Placement placement = root.placement.value_or(caller);
  cotangent.device = placement.device;
  cotangent.stream = placement.stream;
  if (request_.options.create_graph) set_recorded(cotangent, *root.recorded);
  return std::exchange(seed[0], nullptr);
}

}  // namespace tidu::eager::detail
