// builder.cpp - adding values and operations: finding equal operations, keys, holding ops.
#include "tidu/graph/builder.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "graph/operation_hash.hpp"
#include "graph/place.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/infer.hpp"

namespace tidu {
namespace {

constexpr std::uint32_t longest_list = 8;
constexpr std::size_t max_values = std::size_t{1} << 30;  // transforms use the top bits of an id

ValueId home_of(std::span<const ValueId> operands) {
  ValueId home = 0;
  for (const ValueId id : operands) home = std::max(home, id);
  return home;
}

}  // namespace

struct GraphBuilder::Index {
  // Note [Consumer lists]: by value, the newest operation that has it as home, and how many are listed; by
  // operation, the next one.
  struct Home {
    std::uint32_t head = no_index;
    std::uint32_t length = 0;
  };
  FlatArray<Home> homes;
  FlatArray<std::uint32_t> next;
  std::unordered_multimap<std::uint64_t, std::uint32_t> spilled;  // hash of (op, operands) -> operation

  std::array<const OpRecord*, 64> recently_held{};
  std::unordered_set<const OpRecord*> held;
  std::unordered_map<Key128, ValueId> interface;  // InputKey bits and external keys -> value
  std::unordered_map<std::string, std::uint32_t> where_texts;

  // scratch of add()
  std::vector<Type> operand_types;
  std::vector<Type> result_types;
  std::vector<ValueId> ids;

  void enter(std::uint32_t operation, const OpRecord* op, std::span<const ValueId> operands, ValueId home) {
    if (!operands.empty() && homes[home].length < longest_list) {
      next.push_back(homes[home].head);
      homes[home].head = operation;
      ++homes[home].length;
    } else {
      next.push_back(no_index);
      spilled.emplace(detail::hash_operation(op, operands), operation);
    }
  }

  // The last inference, by op and the types of one or two operands. The builder holds the op.
  struct Inferred {
    const OpRecord* op = nullptr;
    const void* first = nullptr;
    const void* second = nullptr;
    Type result;
  };
  std::array<Inferred, 64> inferred{};
  Inferred& inferred_for(const OpRecord* op, const void* first) {
    const auto hash =
        reinterpret_cast<std::uintptr_t>(op) >> 5 ^ reinterpret_cast<std::uintptr_t>(first) >> 6;
    return inferred[hash & 63U];
  }

  struct CachedLocation {
    const char* file = nullptr;
    std::uint32_t line = 0;
    std::uint32_t where = no_index;
  };
  std::array<CachedLocation, 64> places{};
};

GraphBuilder::GraphBuilder(std::string name, PrimitiveSet set)
    : GraphBuilder(std::move(name), std::move(set), Options()) {}

GraphBuilder::GraphBuilder(std::string name, PrimitiveSet set, Options options)
    : data_(std::make_shared<GraphData>(std::move(set))),
      options_(options),
      index_(std::make_unique<Index>()) {
  data_->name = std::move(name);
  data_->may_repeat = !options.deduplicate;
}

GraphBuilder::~GraphBuilder() = default;

void GraphBuilder::extend_primitives(const PrimitiveSet& set) {
  require_open();
  const PrimitiveSet& own = data_->primitives;
  if (own == set) return;
  std::vector<const Primitive*> more;
  for (const Primitive* primitive : set.primitives())
    if (own.find(primitive->name) == nullptr) more.push_back(primitive);
  if (more.empty()) return;
  // Graphs of one set are found again by it: none is made where there is one already.
  const auto in_set = [&set](const Primitive* primitive) { return set.contains(primitive); };
  const bool holds_all =
      own.add() == set.add() && std::all_of(own.primitives().begin(), own.primitives().end(), in_set);
  data_->primitives = holds_all ? set : own.with(more);
}

std::unique_ptr<GraphBuilder> GraphBuilder::extending(const Graph& base, Options options) {
  const GraphData& from = base.data();
  auto builder = std::make_unique<GraphBuilder>(from.name, from.primitives, options);
  GraphData& to = *builder->data_;
  const auto copy = [](auto& target, const auto& source) {
    target.reserve(source.size() + source.size() / 2);
    target = source;
  };
  copy(to.types, from.types);
  copy(to.keys, from.keys);
  copy(to.producers, from.producers);
  copy(to.operations, from.operations);
  copy(to.operands, from.operands);
  to.roles = from.roles;
  to.origins = from.origins;
  to.wheres = from.wheres;
  to.wide_roles = from.wide_roles;
  to.where_table = from.where_table;
  to.inputs = from.inputs;
  to.input_keys = from.input_keys;
  to.externals = from.externals;
  to.labels = from.labels;
  to.held = from.held;
  to.may_repeat = from.may_repeat || !options.deduplicate;
  to.has_effects = from.has_effects;
  to.has_collectives = from.has_collectives;
  to.depth = from.depth;

  Index& index = *builder->index_;
  for (const Op& op : to.held) index.held.insert(op.record());
  for (std::size_t i = 0; i < to.inputs.size(); ++i)
    index.interface.emplace(to.input_keys[i].bits(), to.inputs[i]);
  for (const ValueId id : to.externals) index.interface.emplace(to.keys[id], id);
  for (std::size_t i = 0; i < to.where_table.size(); ++i) {
    index.where_texts.emplace(to.where_table[i], static_cast<std::uint32_t>(i));
  }
  if (options.deduplicate) {
    index.homes.reserve(to.types.capacity());
    index.homes.assign(to.types.size(), Index::Home());
    index.next.reserve(to.operations.capacity());
    for (std::uint32_t i = 0; i < to.operations.size(); ++i) {
      const OperationRecord& record = to.operations[i];
      const std::span<const ValueId> operands(to.operands.data() + record.first_input, record.num_inputs);
      index.enter(i, record.op, operands, home_of(operands));
    }
  }
  return builder;
}

ValueKey detail::input_value_key(const InputKey& key, Type type) {
  return ValueKey{mix(mix(Key128{23, 29}, key.bits()), type.key())};
}

void GraphBuilder::require_open() const {
  if (index_ == nullptr) {
    throw Error(ErrorKind::invalid_argument,
                "GraphBuilder: expected a builder that is still open, got one whose graph was built");
  }
}

void GraphBuilder::reserve(std::size_t values, std::size_t operations, std::size_t operands) {
  data_->types.reserve(values);
  data_->keys.reserve(values);
  data_->producers.reserve(values);
  data_->operations.reserve(operations);
  data_->operands.reserve(operands);
  if (options_.deduplicate) {
    index_->homes.reserve(values);
    index_->next.reserve(operations);
  }
}

ValueId GraphBuilder::add_value(Type type, const ValueKey& key, std::uint32_t producer) {
  const auto id = static_cast<ValueId>(data_->types.size());
  data_->types.push_back(type);
  data_->keys.push_back(key);
  data_->producers.push_back(producer);
  if (options_.deduplicate) index_->homes.emplace_back();
  return id;
}

Value GraphBuilder::input(std::string_view name, Type type) {
  if (name.empty()) {
    throw Error(ErrorKind::invalid_argument, "GraphBuilder::input: expected a name, got an empty one");
  }
  return input(InputKey::named(name), type, name);
}

Value GraphBuilder::input(const InputKey& key, Type type, std::string_view label) {
  require_open();
  if (index_->interface.contains(key.bits())) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("GraphBuilder::input: expected a new input, got ",
                            detail::in_quotes(label.empty() ? to_hex(key.bits()) : std::string(label)),
                            " a second time in ", detail::in_quotes(data_->name)));
  }
  const ValueId id = add_value(type, detail::input_value_key(key, type), GraphData::from_input);
  index_->interface.emplace(key.bits(), id);
  data_->inputs.push_back(id);
  data_->input_keys.push_back(key);
  if (!label.empty()) data_->labels.emplace(id, label);
  return Value(this, id);
}

Value GraphBuilder::external(const ValueKey& key, Type type) {
  require_open();
  const auto it = index_->interface.find(key);
  if (it != index_->interface.end()) {
    if (data_->types[it->second] != type) {
      throw Error(ErrorKind::type, detail::str("GraphBuilder::external: expected ", data_->types[it->second],
                                               " for the external ", to_hex(key), ", got ", type));
    }
    return Value(this, it->second);
  }
  const ValueId id = add_value(type, key, GraphData::from_external);
  index_->interface.emplace(key, id);
  data_->externals.push_back(id);
  return Value(this, id);
}

ValueId GraphBuilder::add_external(const ValueKey& key, Type type) {
  const ValueId id = add_value(type, key, GraphData::from_external);
  data_->externals.push_back(id);
  return id;
}

void GraphBuilder::set_label(Value value, std::string_view label) {
  require_open();
  data_->labels.insert_or_assign(value.id(), std::string(label));
}

void GraphBuilder::refuse_id(ValueId id) const {
  require_open();
  throw Error(ErrorKind::invalid_argument,
              detail::str("GraphBuilder: expected an id below ", num_values(), ", got ", id));
}

Value GraphBuilder::value(ValueId id) {
  if (id >= num_values()) refuse_id(id);
  return Value(this, id);
}

Op GraphBuilder::resolve(const Op& op) const {
  const Primitive& primitive = data_->primitives.resolve(op.primitive());
  if (&primitive == &op.primitive()) return op;
  return Op::make(primitive, op.attributes());
}

void GraphBuilder::refuse_operand(const Op& op, std::span<const Value> operands, std::size_t i) const {
  throw Error(
      ErrorKind::invalid_argument,
      detail::str('[', op.name(), "] expected operand ", i, " to be a value of this builder (",
                  detail::in_quotes(data_->name), "), got ",
                  operands[i].emitter() == nullptr ? "a default-constructed Value" : "one of another"));
}

ValueId GraphBuilder::emit_first(const Op& op, std::span<const Value> operands, Where where) {
  require_open();
  auto& ids = index_->ids;
  ids.resize(operands.size());
  Extra extra;
  if (options_.record_where && where.file != nullptr) extra.where = intern_where(where);
  try {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].is_of(*this)) refuse_operand(op, operands, i);
      ids[i] = operands[i].id();
    }
    if (data_->primitives.contains(&op.primitive())) return add(op.record(), ids, extra);
    return add(resolve(op).record(), ids, extra);
  } catch (const Error& error) {
    const std::string place = extra.where == no_index
                                  ? std::string()
                                  : detail::str(", ", detail::printable(data_->where_table[extra.where]));
    error
        .with_message(detail::str(error.what(), "\n  in operation ", num_operations(), " of ",
                                  detail::in_quotes(data_->name), place))
        ->raise();
    throw;
  }
}

Values GraphBuilder::emit(const Op& op, std::span<const Value> operands, Where where) {
  const ValueId first = emit_first(op, operands, where);
  const std::uint32_t count = data_->operations[data_->producers[first]].num_outputs;
  Values results;
  results.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) results[i] = Value(this, first + i);
  return results;
}

Value GraphBuilder::emit_one(const Op& op, std::span<const Value> operands, Where where) {
  return Value(this, emit_first(op, operands, where));
}

ValueId GraphBuilder::find_equal(const OpRecord* op, std::span<const ValueId> operands, ValueId home) {
  const auto equal = [&](std::uint32_t operation) {
    const OperationRecord& record = data_->operations[operation];
    return (record.op == op || (record.op->key == op->key && equivalent(*record.op, *op))) &&
           record.num_inputs == operands.size() &&
           std::equal(operands.begin(), operands.end(), data_->operands.begin() + record.first_input);
  };
  if (!operands.empty()) {
    for (std::uint32_t i = index_->homes[home].head; i != no_index; i = index_->next[i]) {
      if (equal(i)) return data_->operations[i].first_output;
    }
    if (index_->homes[home].length < longest_list) return no_index;
  }
  const auto [first, last] = index_->spilled.equal_range(detail::hash_operation(op, operands));
  for (auto it = first; it != last; ++it) {
    if (equal(it->second)) return data_->operations[it->second].first_output;
  }
  return no_index;
}

ValueId GraphBuilder::add(const OpRecord* op, std::span<const ValueId> operands, const Extra& extra) {
  const ValueId home = home_of(operands);
  if (options_.deduplicate && !op->impure) {
    const ValueId found = find_equal(op, operands, home);
    if (found != no_index) return found;
  }
  Index::Inferred* memo = nullptr;
  const void* second = nullptr;
  if (operands.size() == 1 || operands.size() == 2) {
    const void* first = data_->types[operands[0]].identity();
    if (operands.size() == 2) second = data_->types[operands[1]].identity();
    memo = &index_->inferred_for(op, first);
    if (memo->op == op && memo->first == first && memo->second == second) {
      const Type result = memo->result;
      return append(op, operands, &result, 1, extra, home);
    }
  }
  auto& types = index_->operand_types;
  auto& results = index_->result_types;
  types.clear();
  for (const ValueId id : operands) types.push_back(data_->types[id]);
  infer_types(Op::of(op), types, results);
  if (results.empty()) {
    throw Error(ErrorKind::type,
                detail::str('[', op->primitive->name, "] expected at least one result, got none"));
  }
  const ValueId id =
      append(op, operands, results.data(), static_cast<std::uint32_t>(results.size()), extra, home);
  if (memo != nullptr && results.size() == 1) *memo = {op, types[0].identity(), second, results[0]};
  return id;
}

ValueId GraphBuilder::add_typed(const OpRecord* op, std::span<const ValueId> operands, const Type* results,
                                std::uint32_t num_results, const Extra& extra) {
  const ValueId home = home_of(operands);
  if (options_.deduplicate && !op->impure) {
    const ValueId found = find_equal(op, operands, home);
    if (found != no_index) return found;
  }
  return append(op, operands, results, num_results, extra, home);
}

ValueId GraphBuilder::append(const OpRecord* op, std::span<const ValueId> operands, const Type* results,
                             std::uint32_t num_results, const Extra& extra, ValueId home) {
  GraphData& g = *data_;
  if (g.types.size() + num_results >= max_values || g.operands.size() + operands.size() >= no_index) {
    throw Error(ErrorKind::invalid_argument,
                "GraphBuilder: expected fewer than 2^30 values and 2^32 operands in one graph");
  }
  const auto index = static_cast<std::uint32_t>(g.operations.size());
  OperationRecord record{op, static_cast<std::uint32_t>(g.operands.size()),
                         static_cast<std::uint32_t>(operands.size()), static_cast<ValueId>(g.types.size()),
                         num_results};
  Key128 key = op->key;
  for (const ValueId id : operands) key = detail::mix(key, g.keys[id]);
  if (op->impure) {
    key = detail::mix(key, detail::fresh_instance());
    g.has_effects = true;
  }
  g.has_collectives = g.has_collectives || op->collective;
  hold(op);
  for (const ValueId id : operands) g.operands.push_back(id);
  g.operations.push_back(record);
  if (extra.role != 0 && g.roles.empty()) g.roles.assign(index, 0);
  if (extra.role != 0 || !g.roles.empty()) g.roles.push_back(extra.role);
  if (extra.origin != no_index && g.origins.empty()) g.origins.assign(index, no_index);
  if (extra.origin != no_index || !g.origins.empty()) g.origins.push_back(extra.origin);
  if (extra.where != no_index && g.wheres.empty()) g.wheres.assign(index, no_index);
  if (extra.where != no_index || !g.wheres.empty()) g.wheres.push_back(extra.where);
  for (std::uint32_t slot = 0; slot < num_results; ++slot) {
    add_value(results[slot], ValueKey{detail::result_key(key, slot)}, index);
  }
  if (options_.deduplicate) index_->enter(index, op, operands, home);
  return record.first_output;
}

void GraphBuilder::hold(const OpRecord* op) {
  if (op->immortal) return;
  const OpRecord*& recent = index_->recently_held[(reinterpret_cast<std::uintptr_t>(op) >> 6) & 63U];
  if (recent == op) return;
  recent = op;
  if (!index_->held.insert(op).second) return;
  data_->held.push_back(Op::of(op));
  for (const auto& [name, value] : op->attributes) {
    for (const auto& graph : value.graphs()) data_->depth = std::max(data_->depth, graph->depth + 1);
  }
}

std::uint32_t GraphBuilder::make_role(std::span<const bool> linear) {
  if (linear.size() <= 31) {
    std::uint32_t role = 0x80000000U;
    for (std::size_t i = 0; i < linear.size(); ++i) role |= static_cast<std::uint32_t>(linear[i]) << i;
    return role;
  }
  data_->wide_roles.emplace_back(linear.begin(), linear.end());
  return 0x40000000U | static_cast<std::uint32_t>(data_->wide_roles.size() - 1);
}

std::uint32_t GraphBuilder::intern_where(Where where) {
  Index::CachedLocation& recent =
      index_->places[(reinterpret_cast<std::uintptr_t>(where.file) ^ where.line) & 63U];
  if (recent.file == where.file && recent.line == where.line) return recent.where;
  recent = {where.file, where.line, intern_where(detail::short_place(where))};
  return recent.where;
}

std::uint32_t GraphBuilder::intern_where(std::string_view text) {
  const auto [it, added] = index_->where_texts.try_emplace(
      std::string(text), static_cast<std::uint32_t>(data_->where_table.size()));
  if (added) data_->where_table.emplace_back(text);
  return it->second;
}

Graph GraphBuilder::build(std::span<const Value> outputs) {
  require_open();
  std::vector<ValueId> ids;
  ids.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_of(*this)) {
      throw Error(
          ErrorKind::invalid_argument,
          detail::str("GraphBuilder::build: expected output ", i, " to be a value of this builder (",
                      detail::in_quotes(data_->name), "), got ",
                      outputs[i].emitter() == nullptr ? "a default-constructed Value" : "one of another"));
    }
    ids.push_back(outputs[i].id());
  }
  return build_ids(std::move(ids));
}

Graph GraphBuilder::build_ids(std::vector<ValueId> outputs) {
  require_open();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] >= num_values()) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("GraphBuilder::build: expected output ", i, " to be an id below ", num_values(),
                              ", got ", outputs[i]));
    }
  }
  data_->outputs = std::move(outputs);
  std::shared_ptr<const GraphData> done = std::move(data_);
  data_ = std::make_shared<GraphData>(done->primitives);
  index_.reset();
  return Graph(std::move(done));
}

}  // namespace tidu
