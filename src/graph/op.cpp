// op.cpp - the table of interned ops: checks attributes against the schema, finds or makes the record, frees
// it.
#include "tidu/graph/op.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <ostream>
#include <unordered_map>

#include "graph/attribute_error.hpp"
#include "graph/fork_locks.hpp"
#include "tidu/graph/deferred_graph.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_multimap<std::uint64_t, std::unique_ptr<OpRecord>> records;  // by hash
};

Table& table() {
  static Table& table = *[] {
    auto* made = new Table;  // outlives every static Op
    detail::ForkLocks::add(detail::ForkRank::ops, made->mutex);
    return made;
  }();
  return table;
}

[[noreturn]] void fail(const Primitive& primitive, const std::string& message) {
  throw Error(ErrorKind::attribute, detail::str('[', primitive.name, "] ", message));
}

bool has_kind(const Attribute& value, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::boolean: return value.get_if<bool>() != nullptr;
    case AttributeKind::integer: return value.get_if<std::int64_t>() != nullptr;
    case AttributeKind::string: return value.get_if<std::string>() != nullptr;
    case AttributeKind::dtype:
      return value.get_if<DType>() != nullptr && *value.get_if<DType>() <= DType::c128;
    case AttributeKind::ints: return value.get_if<Ints>() != nullptr;
    case AttributeKind::int_lists: return value.get_if<IntLists>() != nullptr;
    case AttributeKind::dot_dimension_numbers:
      return value.get_if<IntLists>() != nullptr && value.get_if<IntLists>()->size() == 4;
    case AttributeKind::conv_dimension_numbers:
      return value.get_if<IntLists>() != nullptr && value.get_if<IntLists>()->size() == 3;
    case AttributeKind::number:
      return value.get_if<Literal>() != nullptr && value.get_if<Literal>()->type().rank() == 0;
    case AttributeKind::literal: return value.get_if<Literal>() != nullptr;
    case AttributeKind::graph: return value.get_if<std::shared_ptr<const GraphData>>() != nullptr;
    case AttributeKind::rule: {
      const auto* deferred = value.get_if<std::shared_ptr<const DeferredGraph>>();
      return value.get_if<std::shared_ptr<const GraphData>>() != nullptr ||
             (deferred != nullptr && *deferred != nullptr);
    }
    case AttributeKind::graphs: return value.get_if<GraphList>() != nullptr;
    case AttributeKind::policy:
      return value.get_if<std::string>() != nullptr || value.get_if<Ints>() != nullptr;
  }
  return false;
}

const Attribute* find(const Attributes& attributes, std::string_view name) {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

// A number becomes a scalar literal of the op's attribute `dtype`.
Attribute as_number(const Primitive& primitive, std::string_view name, const Attribute& value,
                    const Attributes& given) {
  const Attribute* dtype = find(given, "dtype");
  if (dtype == nullptr || dtype->get_if<DType>() == nullptr) {
    fail(primitive, detail::str("expected an attribute dtype for the number ", name));
  }
  const DType to = *dtype->get_if<DType>();
  if (const auto* integer = value.get_if<std::int64_t>()) return Literal::scalar(to, *integer);
  if (const auto* number = value.get_if<double>()) return Literal::scalar(to, *number);
  if (const auto* flag = value.get_if<bool>()) return Literal::scalar(to, static_cast<std::int64_t>(*flag));
  if (const auto* literal = value.get_if<Literal>()) {
    if (literal->type() != Type(to)) {
      fail(primitive, detail::str("expected ", name, " of type ", Type(to), ", got ", literal->type()));
    }
  }
  return value;
}

Attributes normalise(const Primitive& primitive, Attributes given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    bool known = false;
    for (const AttributeSpec& spec : primitive.attributes) known = known || spec.name == given[i].first;
    if (!known) fail(primitive, detail::unknown_attribute(primitive, detail::in_quotes(given[i].first)));
    for (std::size_t j = 0; j < i; ++j) {
      if (given[j].first == given[i].first)
        fail(primitive, detail::str("attribute ", detail::in_quotes(given[i].first), " is given twice"));
    }
  }
  Attributes ordered;
  ordered.reserve(primitive.attributes.size());
  for (const AttributeSpec& spec : primitive.attributes) {
    const Attribute* value = find(given, spec.name);
    if (value == nullptr && !spec.has_default) {
      fail(primitive,
           detail::str("expected an attribute \"", spec.name, "\" (", to_string(spec.kind), "), got none"));
    }
    Attribute kept = value == nullptr ? spec.default_value() : *value;
    if (spec.kind == AttributeKind::number) kept = as_number(primitive, spec.name, kept, given);
    if (!has_kind(kept, spec.kind)) {
      fail(primitive, detail::str("expected attribute \"", spec.name, "\" to be a ", to_string(spec.kind)));
    }
    for (const std::shared_ptr<const GraphData>& graph : kept.graphs()) {
      if (graph == nullptr)
        fail(primitive, detail::str("expected a graph in attribute \"", spec.name, "\", got none"));
      if (graph->depth > max_graph_depth) {
        fail(primitive, detail::str("expected graphs nested at most ", max_graph_depth,
                                    " deep, got more in attribute \"", spec.name, '"'));
      }
      if (!graph->externals.empty()) {
        fail(primitive, detail::str("expected a graph without externals in attribute \"", spec.name,
                                    "\", got one with ", graph->externals.size()));
      }
    }
    ordered.emplace_back(std::string(spec.name), std::move(kept));
  }
  return ordered;
}

// Do operations of equal graphs hold graphs that are equal in their metadata too?
bool same_inside(const GraphData& x, const GraphData& y) {
  return x.depth == 1 || std::equal(x.operations.begin(), x.operations.end(), y.operations.begin(),
                                    [](const auto& p, const auto& q) { return p.op == q.op; });
}

bool same_metadata(const std::shared_ptr<const GraphData>& x, const std::shared_ptr<const GraphData>& y) {
  return x == y || (x->name == y->name && x->labels == y->labels && x->input_keys == y->input_keys &&
                    x->roles == y->roles && x->origins == y->origins && x->dump_ids == y->dump_ids &&
                    x->wide_roles == y->wide_roles && x->wheres == y->wheres &&
                    x->where_table == y->where_table && same_inside(*x, *y));
}

// Key of the metadata that same_metadata compares. Computed once.
const Key128& metadata_key(const GraphData& graph) {
  std::call_once(graph.metadata_once, [&graph] {
    Key128 key = detail::mix(Key128{23, 29}, graph.name);
    const auto bytes = [&key](const auto& array) {
      key = detail::mix_bytes(key, array.data(), array.size() * sizeof(array[0]));
    };
    bytes(graph.roles);
    bytes(graph.origins);
    bytes(graph.wheres);
    bytes(graph.dump_ids);
    for (const std::string& where : graph.where_table) key = detail::mix(key, where);
    for (const InputKey& input : graph.input_keys) key = detail::mix(key, input.bits());
    Key128 labels{};  // in no order
    for (const auto& [value, text] : graph.labels) {
      const Key128 one = detail::mix(detail::mix(Key128{31, 37}, static_cast<std::uint64_t>(value)), text);
      labels.low += one.low;
      labels.high += one.high;
    }
    key = detail::mix(key, labels);
    for (const std::vector<bool>& role : graph.wide_roles) {
      for (const bool linear : role) key = detail::mix(key, static_cast<std::uint64_t>(linear));
    }
    if (graph.depth > 1) {
      for (const OperationRecord& record : graph.operations) key = detail::mix(key, record.op->hash);
    }
    graph.metadata = key;
  });
  return graph.metadata;
}

// Equal for identical attributes.
std::uint64_t hash_of(Key128 key, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    for (const std::shared_ptr<const GraphData>& graph : value.graphs())
      key = detail::mix(key, metadata_key(*graph));
  }
  return key.low;
}

// Equal, and for graphs also in their names and other metadata, so that a dump is read back and written
// unchanged.
bool identical(const Attributes& a, const Attributes& b) {
  if (a != b) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].second.graphs(), y = b[i].second.graphs();
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same_metadata)) return false;
  }
  return true;
}

template <class T>
const T& get(const Op& op, std::string_view name) {
  const T* value = op.attribute(name).get_if<T>();
  if (value == nullptr)
    fail(op.primitive(), detail::str("attribute ", detail::in_quotes(name), " is of another kind"));
  return *value;
}

}  // namespace

Op Op::make(const Primitive& primitive, Attributes given) {
  Attributes attributes = normalise(primitive, std::move(given));
  Key128 key =
      detail::mix(detail::mix(Key128{11, 13}, primitive.name), static_cast<std::uint64_t>(primitive.version));
  for (const auto& [name, value] : attributes)
    key = detail::mix(detail::mix(key, std::string_view(name)), value.key());
  const std::uint64_t hash = hash_of(key, attributes);

  const std::lock_guard lock(table().mutex);
  const auto [first, last] = table().records.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const OpRecord& record = *it->second;
    if (record.primitive == &primitive && record.key == key && identical(record.attributes, attributes))
      return Op(&record);
  }
  auto record = std::make_unique<OpRecord>();
  record->primitive = &primitive;
  record->immortal = attributes.empty();
  record->impure = primitive.has_trait(Trait::impure);
  record->collective = primitive.has_trait(Trait::collective);
  for (const auto& [name, value] : attributes) {
    for (const std::shared_ptr<const GraphData>& graph : value.graphs()) {
      record->impure = record->impure || graph->has_effects;
      record->collective = record->collective || graph->has_collectives;
    }
  }
  record->attributes = std::move(attributes);
  record->key = key;
  record->hash = hash;
  return Op(table().records.emplace(hash, std::move(record))->second.get());
}

void Op::release(const OpRecord* record) {
  const std::uint64_t hash = record->hash;  // another thread may free the record once the count is down
  if (record->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::unique_ptr<OpRecord> dead;  // destroyed after the lock: it may hold a graph that holds ops
  const std::lock_guard lock(table().mutex);
  const auto [first, last] = table().records.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    // The address may have been freed and reused by another record; only a record without references is
    // erased.
    if (it->second.get() == record && record->references.load(std::memory_order_acquire) == 0) {
      dead = std::move(it->second);
      table().records.erase(it);
      break;
    }
  }
}

bool equivalent(const OpRecord& a, const OpRecord& b) {
  return &a == &b || (a.key == b.key && a.primitive == b.primitive && a.attributes == b.attributes);
}

const Attribute& Op::attribute(std::string_view name) const {
  const Attribute* value = find(attributes(), name);
  if (value == nullptr) fail(primitive(), detail::str("has no attribute ", detail::in_quotes(name)));
  return *value;
}

bool Op::boolean(std::string_view name) const { return get<bool>(*this, name); }
std::int64_t Op::integer(std::string_view name) const { return get<std::int64_t>(*this, name); }
const std::string& Op::string(std::string_view name) const { return get<std::string>(*this, name); }
DType Op::dtype(std::string_view name) const { return get<DType>(*this, name); }
const Ints& Op::ints(std::string_view name) const { return get<Ints>(*this, name); }
const IntLists& Op::lists(std::string_view name) const { return get<IntLists>(*this, name); }
const Literal& Op::literal(std::string_view name) const { return get<Literal>(*this, name); }
Graph Op::graph(std::string_view name) const {
  if (const auto* deferred = attribute(name).get_if<std::shared_ptr<const DeferredGraph>>())
    return (*deferred)->get();
  return Graph(get<std::shared_ptr<const GraphData>>(*this, name));
}
std::vector<Graph> Op::graphs(std::string_view name) const {
  std::vector<Graph> graphs;
  for (const auto& graph : get<GraphList>(*this, name)) graphs.emplace_back(graph);
  return graphs;
}

namespace {

struct Printer {
  std::ostream& out;
  void operator()(bool value) const { out << (value ? "true" : "false"); }
  void operator()(std::int64_t value) const { out << value; }
  void operator()(double value) const { out << value; }
  void operator()(const std::string& value) const { out << detail::printable(value); }
  void operator()(DType value) const { out << value; }
  void operator()(const Ints& value) const { out << detail::list(value); }
  void operator()(const IntLists& value) const {
    out << '[';
    for (std::size_t i = 0; i < value.size(); ++i) out << (i == 0 ? "" : ",") << detail::list(value[i]);
    out << ']';
  }
  void operator()(const Literal& value) const {
    out << value.type();
    if (value.type().size() == 1) {
      const auto number = value.at(0);
      out << '{';
      if (value.type().dtype() == DType::i64)
        out << value.data<std::int64_t>()[0];
      else
        out << number.real();
      if (is_complex(value.type().dtype())) out << ',' << number.imag();
      out << '}';
    }
  }
  void operator()(const std::shared_ptr<const GraphData>& value) const {
    out << detail::in_quotes(value->name) << " (" << value->operations.size() << " operations)";
  }
  void operator()(const std::shared_ptr<const DeferredGraph>& value) const {
    out << detail::in_quotes(value->name());
  }
  void operator()(const GraphList& value) const {
    out << '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i != 0) out << ", ";
      (*this)(value[i]);
    }
    out << ']';
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Op& op) {
  out << op.name();
  const auto& specs = op.primitive().attributes;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& [name, value] = op.attributes()[i];
    if (specs[i].has_default && value == specs[i].default_value()) continue;
    out << ' ' << name << '=';
    std::visit(Printer{out}, value.variant());
  }
  return out;
}

std::string to_string(const Op& op) { return detail::str(op); }

}  // namespace tidu
