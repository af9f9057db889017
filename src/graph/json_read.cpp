// json_read.cpp - graphs from JSON text, format version 1. All content of a dump is checked before it is
// used; allocations are proportional to the parsed text. Graphs in attributes are read by recursion, at most
// 64 deep.
#include <array>
#include <memory>
#include <unordered_map>

#include "graph/json_attributes.hpp"
#include "graph/json_tape.hpp"
#include "graph/json_unknown.hpp"
#include "graph/nearest.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/deferred_graph.hpp"
#include "tidu/graph/json.hpp"

namespace tidu {
namespace {

using detail::JsonTape;
using detail::str;
using Index = JsonTape::Index;
using Kind = JsonTape::Kind;

constexpr Index absent = 0;  // the root of the tape is no member of anything

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorKind::dump, message); }

// The entry of a value in the file, and its id here.
struct FileValue {
  Type type;
  Index name = absent;
  Index input_key = absent;
  Index key = absent;
  ValueId id = no_index;
  bool listed = false;
};

// The graphs that a dump names, for other graphs in it to refer to.
struct NamedGraphs {
  std::string_view text;  // the whole dump
  std::unordered_map<std::string_view, Index> at;
  std::shared_ptr<const std::string> kept{};  // the text, once a deferred graph needs it
};

// One of the dump's "graphs".
Graph load_named(const JsonTape& tape, const PrimitiveSet& set, std::string_view text, std::string_view name);

class Loader {
 public:
  Loader(const JsonTape& tape, const PrimitiveSet& set, Index node, std::uint32_t level, NamedGraphs& named)
      : tape_(tape), set_(set), level_(level), node_(node), named_(named) {}

  Graph load();
  /// The attributes at `node`, which stand there instead of a graph.
  Attributes load_attributes(const Primitive& primitive);

 private:
  void read_values(Index node);
  void read_value(Index node);
  void read_inputs(Index node);
  void read_externals(Index node);
  void read_operation(Index node);
  Op find_op(Index name, Index attributes);
  void define_results(Index outputs, ValueId first, const Op& op);
  std::uint32_t read_role(Index node, std::size_t operands);
  void check_version();
  void check_keys();
  void read_named(Index node);
  Attribute graph_attribute(Index node, AttributeKind kind);
  Attribute deferred(std::string_view name);
  ValueId read_id(Index node, std::string_view what) const;
  Key128 read_key(Index node, std::string_view what) const;
  FileValue& undefined_value(Index node, std::string_view what);
  /// Throws the error with the location that it belongs to.
  void raise_at(const Error& error, std::string_view what, std::size_t index) const;
  template <class Read>
  void each(Index node, std::string_view what, Read&& read);

  const JsonTape& tape_;
  const PrimitiveSet& set_;
  std::uint32_t level_;
  Index node_;
  NamedGraphs& named_;
  std::unique_ptr<GraphBuilder> builder_;
  std::string name_;
  std::vector<FileValue> values_;
  std::vector<ValueId> dump_ids_;  // by id here
  std::size_t num_operations_ = 0;
  std::unordered_map<std::string_view, Op> plain_ops_;
  detail::ReadGraph read_graph_;
  std::vector<ValueId> operands_;
  std::string_view where_;  // of the operation that is being read
};

void Loader::raise_at(const Error& error, std::string_view what, std::size_t index) const {
  std::string place = str("\n  in ", what, ' ', index, " of ", detail::shortened(name_));
  if (what == "operation" && !where_.empty())
    place += str(", ", detail::printable(where_, detail::longest_quotation));
  error.with_message(error.what() + place)->raise();
}

template <class Read>
void Loader::each(Index node, std::string_view what, Read&& read) {
  std::uint32_t index = 0;
  try {
    for (Index at = tape_.first(node); at != tape_.end(node); at = tape_.next(at), ++index) read(at, index);
  } catch (const Error& error) {
    raise_at(error, what, index);
  }
}

ValueId Loader::read_id(Index node, std::string_view what) const {
  const std::int64_t id = tape_.expect_integer(node, what);
  if (id < 0 || id >= static_cast<std::int64_t>(values_.size())) {
    fail(str("expected ", what, " to be the id of a value, 0 to ", values_.size(), " exclusive, got ", id));
  }
  return static_cast<ValueId>(id);
}

Key128 Loader::read_key(Index node, std::string_view what) const {
  const auto key = parse_hex(tape_.expect_string(node, what));
  if (!key)
    fail(str("expected ", what, " to be 32 hexadecimal digits in lower case, got ", tape_.shown(node)));
  return *key;
}

// The value with the id at `node`, which must have no origin yet.
FileValue& Loader::undefined_value(Index node, std::string_view what) {
  const ValueId id = read_id(node, what);
  if (values_[id].id != no_index) fail(str("expected one origin of value ", id, ", got a second one"));
  values_[id].id = static_cast<ValueId>(dump_ids_.size());
  dump_ids_.push_back(id);
  return values_[id];
}

void Loader::read_values(Index node) {
  tape_.expect(node, Kind::array, "\"values\"");
  values_.resize(tape_.count(node));
  each(node, "entry of \"values\"", [this](Index at, std::uint32_t) { read_value(at); });
}

void Loader::read_value(Index node) {
  static constexpr std::string_view names[] = {"id", "dtype", "shape", "name", "input_key", "key"};
  std::array<Index, 6> members{};
  tape_.members(node, names, members, "a value");
  for (std::size_t i = 0; i < 3; ++i) {
    if (members[i] == absent) fail(str("expected a value to have \"", names[i], "\", got none"));
  }
  const ValueId id = read_id(members[0], "\"id\"");
  FileValue& value = values_[id];
  if (value.listed) fail(str("expected every value once, got value ", id, " again"));
  value.listed = true;
  const DType dtype = detail::expect_dtype(tape_, members[1], "\"dtype\"");
  tape_.expect(members[2], Kind::array, "\"shape\"");
  Shape shape;
  shape.reserve(tape_.count(members[2]));
  for (Index at = tape_.first(members[2]); at != tape_.end(members[2]); at = tape_.next(at)) {
    shape.push_back(tape_.expect_integer(at, "an extent"));
  }
  value.type = Type(dtype, shape);
  value.name = members[3];
  value.input_key = members[4];
  value.key = members[5];
  if (value.name != absent && tape_.expect_string(value.name, "\"name\"").empty())
    fail("expected a name, got an empty one");
}

void Loader::read_inputs(Index node) {
  tape_.expect(node, Kind::array, "\"inputs\"");
  each(node, "input", [this](Index at, std::uint32_t) {
    const FileValue& value = undefined_value(at, "an input");
    const std::string_view name = value.name == absent ? std::string_view() : tape_.string(value.name);
    if (name.empty() && value.input_key == absent) {
      fail(str("expected a \"name\" or an \"input_key\" of value ", dump_ids_.back(),
               ", which is an input, got none"));
    }
    try {
      if (value.input_key == absent) {
        builder_->input(name, value.type);
      } else {
        builder_->input(InputKey::from_bits(read_key(value.input_key, "\"input_key\"")), value.type, name);
      }
    } catch (const Error& error) {
      fail(error.what());
    }
  });
}

void Loader::read_externals(Index node) {
  tape_.expect(node, Kind::array, "\"externals\"");
  each(node, "external", [this](Index at, std::uint32_t) {
    static constexpr std::string_view names[] = {"id", "key"};
    std::array<Index, 2> members{};
    tape_.members(at, names, members, "an external");
    if (members[0] == absent || members[1] == absent) fail("expected an external to have \"id\" and \"key\"");
    const FileValue& value = undefined_value(members[0], "an external");
    const Key128 key = read_key(members[1], "\"key\"");
    if (builder_->external(ValueKey{key}, value.type).id() != value.id) {
      fail(str("expected every input and external to have a key of its own, got ", to_hex(key), " twice"));
    }
  });
}

Op Loader::find_op(Index name_node, Index attributes) {
  const std::string_view name = tape_.expect_string(name_node, "\"op\"");
  if (attributes == absent) {
    const auto it = plain_ops_.find(name);
    if (it != plain_ops_.end()) return it->second;
  }
  const Primitive* primitive = set_.find(name);
  if (primitive == nullptr) {
    throw detail::UnknownName(ErrorKind::unknown_primitive,
                              str("expected \"op\" to be the name of a primitive of the set, got ",
                                  detail::shortened(name), detail::nearest_primitives(name, set_)));
  }
  if (attributes == absent) return plain_ops_.emplace(name, Op::make(*primitive)).first->second;
  return Op::make(*primitive, detail::attributes_from_json(tape_, attributes, *primitive, read_graph_));
}

std::uint32_t Loader::read_role(Index node, std::size_t operands) {
  static constexpr std::string_view names[] = {"linear"};
  std::array<Index, 1> members{};
  tape_.members(node, names, members, "\"role\"");
  if (members[0] == absent) fail("expected \"role\" to have \"linear\", got none");
  tape_.expect(members[0], Kind::array, "\"linear\"");
  if (tape_.count(members[0]) != operands) {
    fail(str("expected \"linear\" to have ", operands, " entries, one for each operand, got ",
             tape_.count(members[0])));
  }
  const auto linear = std::make_unique<bool[]>(operands);
  std::size_t i = 0;
  for (Index at = tape_.first(members[0]); at != tape_.end(members[0]); at = tape_.next(at), ++i) {
    linear[i] = tape_.expect_boolean(at, "an entry of \"linear\"");
  }
  return builder_->make_role(std::span<const bool>(linear.get(), operands));
}

void Loader::define_results(Index outputs, ValueId first, const Op& op) {
  const std::uint32_t count = builder_->data().operations.back().num_outputs;
  if (count != tape_.count(outputs)) {
    throw Error(ErrorKind::type,
                str('[', op.name(), "] expected ", count, " outputs, got ", tape_.count(outputs)));
  }
  std::uint32_t slot = 0;
  for (Index at = tape_.first(outputs); at != tape_.end(outputs); at = tape_.next(at), ++slot) {
    const FileValue& value = undefined_value(at, "an output");
    const Type inferred = builder_->type_of(first + slot);
    if (value.type != inferred) {
      throw Error(ErrorKind::type, str('[', op.name(), "] expected value ", dump_ids_.back(), ", result ",
                                       slot, ", to be ", inferred, ", got ", value.type));
    }
    if (value.key != absent && op.record()->impure) {
      builder_->adopt_key(first + slot, ValueKey{read_key(value.key, "\"key\"")});
    }
  }
}

void Loader::read_operation(Index node) {
  static constexpr std::string_view names[] = {"op", "inputs", "outputs", "attrs", "role", "origin", "where"};
  std::array<Index, 7> members{};
  where_ = {};
  tape_.members(node, names, members, "an operation");
  for (std::size_t i = 0; i < 3; ++i) {
    if (members[i] == absent) fail(str("expected an operation to have \"", names[i], "\", got none"));
  }
  const auto [name, inputs, outputs, attributes, role, origin, where] = members;
  where_ = where != absent ? tape_.expect_string(where, "\"where\"") : std::string_view();
  const Op op = find_op(name, attributes);
  tape_.expect(inputs, Kind::array, "\"inputs\"");
  tape_.expect(outputs, Kind::array, "\"outputs\"");
  operands_.clear();
  for (Index at = tape_.first(inputs); at != tape_.end(inputs); at = tape_.next(at)) {
    const ValueId id = read_id(at, "an input");
    if (values_[id].id == no_index) {
      fail(str('[', op.name(),
               "] expected operands that are inputs, externals or outputs of earlier operations, got value ",
               id, ", which is none: the operations are not in topological order, or there is a cycle"));
    }
    operands_.push_back(values_[id].id);
  }
  GraphBuilder::Extra extra;
  if (role != absent) extra.role = read_role(role, operands_.size());
  if (origin != absent) {
    const std::int64_t from = tape_.expect_integer(origin, "\"origin\"");
    if (from < 0 || from >= static_cast<std::int64_t>(num_operations_)) {
      fail(str("expected \"origin\" to be the index of an operation, 0 to ", num_operations_,
               " exclusive, got ", from));
    }
    extra.origin = static_cast<std::uint32_t>(from);
  }
  if (where != absent) {
    if (where_.empty()) fail("expected \"where\" to be \"file:line\", got an empty string");
    extra.where = builder_->intern_where(where_);
  }
  define_results(outputs, builder_->add(op.record(), operands_, extra), op);
}

void Loader::check_keys() {
  for (std::size_t id = 0; id < values_.size(); ++id) {
    const FileValue& value = values_[id];
    if (value.key == absent) continue;
    const Key128 key = read_key(value.key, "\"key\"");
    const Key128& computed = builder_->data().keys[value.id];
    if (key != computed)
      fail(str("expected value ", id, " to have the key ", to_hex(computed), ", got ", to_hex(key)));
  }
}

// First of all: a dump of another version may have other members.
void Loader::check_version() {
  tape_.expect(node_, Kind::object, "a graph");
  for (Index at = tape_.first(node_); at != tape_.end(node_); at = tape_.next(at + 1)) {
    if (tape_.string(at) == "version" && tape_.expect_integer(at + 1, "\"version\"") != 1)
      fail(str("expected \"version\" to be 1, got ", tape_.shown(at + 1)));
  }
}

// A name stands for one of the dump's "graphs".
Attribute Loader::graph_attribute(Index node, AttributeKind kind) {
  if (level_ == max_graph_depth)
    fail(str("expected graphs nested at most ", max_graph_depth, " deep, got more"));
  if (tape_.kind(node) != Kind::string) return Loader(tape_, set_, node, level_ + 1, named_).load();
  const auto found = named_.at.find(tape_.string(node));
  if (found == named_.at.end())
    fail(str("expected a graph, or the name of one of \"graphs\", got ", tape_.shown(node)));
  if (kind == AttributeKind::rule) return deferred(found->first);
  return Loader(tape_, set_, found->second, level_ + 1, named_).load();
}

Attribute Loader::deferred(std::string_view name) {
  if (named_.kept == nullptr) named_.kept = std::make_shared<const std::string>(named_.text);
  Key128 key = detail::mix(detail::mix(Key128{41, 43}, named_.text), name);
  return std::make_shared<const DeferredGraph>(std::string(name), key,
                                               [text = named_.kept, set = set_, name = std::string(name)] {
                                                 const JsonTape tape(*text);
                                                 return load_named(tape, set, *text, name);
                                               });
}

// Reads all of them once, so that errors in them are reported now.
void Loader::read_named(Index node) {
  if (level_ != 0) fail("expected \"graphs\" in the outermost graph alone");
  tape_.expect(node, Kind::object, "\"graphs\"");
  for (Index at = tape_.first(node); at != tape_.end(node); at = tape_.next(at + 1)) {
    if (!named_.at.emplace(tape_.string(at), at + 1).second)
      fail(str("expected each of \"graphs\" once, got ", tape_.shown(at), " twice"));
  }
  for (const auto& [name, at] : named_.at) Loader(tape_, set_, at, 1, named_).load();
}

Attributes Loader::load_attributes(const Primitive& primitive) {
  const auto read = [this](Index at, AttributeKind kind) { return graph_attribute(at, kind); };
  return detail::attributes_from_json(tape_, node_, primitive, read);
}

Graph Loader::load() {
  static constexpr std::string_view names[] = {"format",    "version",    "name",    "values", "inputs",
                                               "externals", "operations", "outputs", "graphs"};
  std::array<Index, 9> members{};
  check_version();
  tape_.members(node_, names, members, "a graph");
  for (const std::size_t i : {0U, 1U, 3U, 4U, 6U, 7U}) {
    if (members[i] == absent) fail(str("expected a graph to have \"", names[i], "\", got none"));
  }
  const auto [format, version, name, values, inputs, externals, operations, outputs, graphs] = members;
  if (tape_.expect_string(format, "\"format\"") != "tidu.graph") {
    fail(str("expected \"format\" to be \"tidu.graph\", got ", tape_.shown(format)));
  }
  if (name != absent) name_ = tape_.expect_string(name, "\"name\"");
  tape_.expect(operations, Kind::array, "\"operations\"");
  tape_.expect(outputs, Kind::array, "\"outputs\"");

  builder_ = std::make_unique<GraphBuilder>(name_, set_, GraphBuilder::Options{.deduplicate = false});
  read_values(values);
  num_operations_ = tape_.count(operations);
  builder_->reserve(values_.size(), num_operations_, num_operations_);
  dump_ids_.reserve(values_.size());
  read_inputs(inputs);
  if (externals != absent) read_externals(externals);
  if (graphs != absent) read_named(graphs);
  read_graph_ = [this](Index at, AttributeKind kind) { return graph_attribute(at, kind); };
  each(operations, "operation", [this](Index at, std::uint32_t) { read_operation(at); });
  for (std::size_t id = 0; id < values_.size(); ++id) {
    if (values_[id].id == no_index) {
      fail(str("expected value ", id, " of ", detail::shortened(name_),
               " to be an input, an external or an output of an operation, got none of them"));
    }
    if (values_[id].input_key != absent && values_[id].id >= builder_->data().inputs.size())
      fail(str("expected \"input_key\" of inputs alone, got one of value ", id));
    if (values_[id].name != absent && !builder_->data().labels.contains(values_[id].id)) {
      builder_->set_label(builder_->value(values_[id].id), tape_.string(values_[id].name));
    }
  }
  check_keys();
  std::vector<ValueId> results;
  results.reserve(tape_.count(outputs));
  each(outputs, "output",
       [&](Index at, std::uint32_t) { results.push_back(values_[read_id(at, "an output")].id); });
  for (std::size_t i = 0; i < dump_ids_.size(); ++i) {
    if (dump_ids_[i] == i) continue;
    builder_->set_dump_ids(std::move(dump_ids_));
    break;
  }
  return builder_->build_ids(std::move(results));
}

Graph load_named(const JsonTape& tape, const PrimitiveSet& set, std::string_view text,
                 std::string_view name) {
  NamedGraphs named{text, {}};
  Index wanted = absent;
  for (Index at = tape.first(JsonTape::root); at != tape.end(JsonTape::root); at = tape.next(at + 1)) {
    if (tape.string(at) != "graphs") continue;
    for (Index each = tape.first(at + 1); each != tape.end(at + 1); each = tape.next(each + 1)) {
      named.at.emplace(tape.string(each), each + 1);
      if (tape.string(each) == name) wanted = each + 1;
    }
  }
  return Loader(tape, set, wanted, 1, named).load();
}

}  // namespace

Attributes detail::attributes_from_text(std::string_view text, const Primitive& primitive,
                                        const PrimitiveSet& set) {
  const JsonTape tape(text);
  NamedGraphs named{text, {}};
  return Loader(tape, set, JsonTape::root, 0, named).load_attributes(primitive);
}

Graph graph_from_json(std::string_view text, const PrimitiveSet& set) {
  const JsonTape tape(text);
  NamedGraphs named{text, {}};
  try {
    return Loader(tape, set, JsonTape::root, 0, named).load();
  } catch (const detail::UnknownName& error) {
    throw Error(error.kind(), error.what() + detail::all_unknown_names(tape, set));
  }
}

Result<Graph> try_graph_from_json(std::string_view text, const PrimitiveSet& set) {
  return detail::capture([&] { return graph_from_json(text, set); });
}

}  // namespace tidu
