// json_attributes.cpp - one case for each AttributeKind, reading and writing side by side.
#include "graph/json_attributes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "graph/attribute_error.hpp"
#include "graph/json_unknown.hpp"
#include "graph/literal_json_impl.hpp"
#include "tidu/graph/deferred_graph.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/literal_json.hpp"

namespace tidu::detail {
namespace {

using Index = JsonTape::Index;
using Kind = JsonTape::Kind;

constexpr std::string_view conv_specs[] = {"lhs_spec", "rhs_spec", "out_spec"};

Ints ints_from(const JsonTape& tape, Index node, std::string_view what) {
  tape.expect(node, Kind::array, what);
  Ints ints;
  ints.reserve(tape.count(node));
  for (Index at = tape.first(node); at != tape.end(node); at = tape.next(at))
    ints.push_back(tape.expect_integer(at, what));
  return ints;
}

IntLists lists_from(const JsonTape& tape, Index node, std::string_view what) {
  tape.expect(node, Kind::array, what);
  IntLists lists;
  lists.reserve(tape.count(node));
  for (Index at = tape.first(node); at != tape.end(node); at = tape.next(at))
    lists.push_back(ints_from(tape, at, what));
  return lists;
}

// [[lhs contracting, rhs contracting], [lhs batch, rhs batch]]
IntLists dot_numbers_from(const JsonTape& tape, Index node, std::string_view what) {
  tape.expect(node, Kind::array, what);
  IntLists all;
  bool pairs = tape.count(node) == 2;
  for (Index at = tape.first(node); pairs && at != tape.end(node); at = tape.next(at)) {
    IntLists pair = lists_from(tape, at, what);
    pairs = pair.size() == 2;
    std::move(pair.begin(), pair.end(), std::back_inserter(all));
  }
  if (!pairs) {
    throw Error(ErrorKind::dump, str("expected ", what,
                                     " to be [[lhs contracting, rhs contracting], [lhs batch, rhs batch]]"));
  }
  return all;
}

IntLists conv_numbers_from(const JsonTape& tape, Index node, std::string_view what) {
  std::array<Index, 3> members{};
  tape.members(node, conv_specs, members, what);
  IntLists all;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == 0)
      throw Error(ErrorKind::dump, str("expected ", what, " to have \"", conv_specs[i], "\", got none"));
    all.push_back(ints_from(tape, members[i], conv_specs[i]));
  }
  return all;
}

// A number is a scalar of the dtype that stands beside it.
Literal number_from(const JsonTape& tape, Index node, Index all) {
  for (Index at = tape.first(all); at != tape.end(all); at = tape.next(at + 1)) {
    if (tape.string(at) != "dtype") continue;
    return scalar_from_json(tape, node, expect_dtype(tape, at + 1, "attribute \"dtype\""));
  }
  throw Error(ErrorKind::dump, "expected an attribute \"dtype\" beside a number, got none");
}

GraphList graphs_from(const JsonTape& tape, Index node, std::string_view what, const ReadGraph& read_graph) {
  tape.expect(node, Kind::array, what);
  GraphList graphs;
  for (Index at = tape.first(node); at != tape.end(node); at = tape.next(at))
    graphs.push_back(*read_graph(at, AttributeKind::graphs).get_if<std::shared_ptr<const GraphData>>());
  return graphs;
}

Attribute attribute_from(const JsonTape& tape, Index node, Index all, const AttributeSpec& spec,
                         const ReadGraph& read_graph) {
  const std::string what = str("attribute \"", spec.name, '"');
  switch (spec.kind) {
    case AttributeKind::boolean: return tape.expect_boolean(node, what);
    case AttributeKind::integer: return tape.expect_integer(node, what);
    case AttributeKind::number: return number_from(tape, node, all);
    case AttributeKind::string: return tape.expect_string(node, what);
    case AttributeKind::dtype: return expect_dtype(tape, node, what);
    case AttributeKind::ints: return ints_from(tape, node, what);
    case AttributeKind::int_lists: return lists_from(tape, node, what);
    case AttributeKind::dot_dimension_numbers: return dot_numbers_from(tape, node, what);
    case AttributeKind::conv_dimension_numbers: return conv_numbers_from(tape, node, what);
    case AttributeKind::literal: return literal_from_json(tape, node);
    case AttributeKind::graph:
    case AttributeKind::rule: return read_graph(node, spec.kind);
    case AttributeKind::graphs: return graphs_from(tape, node, what, read_graph);
    case AttributeKind::policy:
      if (tape.kind(node) == Kind::string) return tape.string(node);
      return ints_from(tape, node, what);
  }
  throw Error(ErrorKind::internal, str(what, " is of a kind that no dump can hold"));
}

void append_ints(std::string& out, const Ints& ints) {
  out += '[';
  for (std::size_t i = 0; i < ints.size(); ++i) {
    if (i != 0) out += ", ";
    append_json_integer(out, ints[i]);
  }
  out += ']';
}

void append_lists(std::string& out, std::span<const Ints> lists) {
  out += '[';
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (i != 0) out += ", ";
    append_ints(out, lists[i]);
  }
  out += ']';
}

// The graph beside a policy, or null.
const GraphData* graph_beside(const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    const auto* graph = value.get_if<std::shared_ptr<const GraphData>>();
    if (graph != nullptr) return graph->get();
  }
  return nullptr;
}

// A policy lists values of the graph beside it under the ids that its dump gives them. The type rule rejects
// invalid ids.
Attribute policy_here(const Attribute& policy, const Attributes& attributes) {
  const Ints* listed = policy.get_if<Ints>();
  const GraphData* graph = graph_beside(attributes);
  if (listed == nullptr || graph == nullptr || graph->dump_ids.empty()) return policy;
  std::vector<std::int64_t> here(graph->dump_ids.size());
  for (std::size_t id = 0; id < here.size(); ++id) here[graph->dump_ids[id]] = static_cast<std::int64_t>(id);
  Ints ids = *listed;
  for (std::int64_t& id : ids) {
    if (id >= 0 && id < static_cast<std::int64_t>(here.size())) id = here[static_cast<std::size_t>(id)];
  }
  return ids;
}

Ints policy_there(const Ints& listed, const Attributes& attributes) {
  const GraphData* graph = graph_beside(attributes);
  if (graph == nullptr || graph->dump_ids.empty()) return listed;
  Ints ids = listed;
  for (std::int64_t& id : ids) {
    if (id >= 0 && id < static_cast<std::int64_t>(graph->dump_ids.size()))
      id = graph->dump_ids[static_cast<std::size_t>(id)];
  }
  return ids;
}

struct AttributeWriter {
  std::string& out;
  AttributeKind kind;
  const Attributes& all;
  const WriteGraph& write_graph;
  std::int64_t max_elements;
  const NameDeferred& name_deferred;

  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { append_json_integer(out, value); }
  void operator()(double value) const {
    append_json_element(out, DType::f64, reinterpret_cast<const std::byte*>(&value));
  }
  void operator()(const std::string& value) const { append_json_string(out, value); }
  void operator()(DType value) const { append_json_string(out, to_string(value)); }
  void operator()(const Ints& value) const {
    append_ints(out, kind == AttributeKind::policy ? policy_there(value, all) : value);
  }
  void operator()(const IntLists& value) const {
    if (kind == AttributeKind::dot_dimension_numbers) {
      out += '[';
      append_lists(out, std::span(value).subspan(0, 2));
      out += ", ";
      append_lists(out, std::span(value).subspan(2, 2));
      out += ']';
    } else if (kind == AttributeKind::conv_dimension_numbers) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        out += i == 0 ? "{" : ", ";
        append_json_string(out, conv_specs[i]);
        out += ": ";
        append_ints(out, value[i]);
      }
      out += '}';
    } else {
      append_lists(out, value);
    }
  }
  void operator()(const Literal& value) const {
    if (kind == AttributeKind::number) {
      append_json_element(out, value.type().dtype(), value.bytes());
    } else {
      detail::append_json(out, value.type(), value.bytes(), max_elements);
    }
  }
  void operator()(const std::shared_ptr<const GraphData>& value) const { write_graph(out, Graph(value)); }
  void operator()(const std::shared_ptr<const DeferredGraph>& value) const {
    append_json_string(out, name_deferred(*value));
  }
  void operator()(const GraphList& value) const {
    out += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i != 0) out += ", ";
      write_graph(out, Graph(value[i]));
    }
    out += ']';
  }
};

bool plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

}  // namespace

Attributes attributes_from_json(const JsonTape& tape, Index node, const Primitive& primitive,
                                const ReadGraph& read_graph) {
  tape.expect(node, Kind::object, "\"attrs\"");
  Attributes attributes;
  for (Index at = tape.first(node); at != tape.end(node); at = tape.next(at + 1)) {
    const std::string_view name = tape.string(at);
    const auto spec = std::find_if(primitive.attributes.begin(), primitive.attributes.end(),
                                   [name](const AttributeSpec& each) { return each.name == name; });
    if (spec == primitive.attributes.end()) {
      throw Error(ErrorKind::attribute,
                  str('[', primitive.name, "] ", unknown_attribute(primitive, shortened(name))));
    }
    if (std::any_of(attributes.begin(), attributes.end(),
                    [name](const auto& given) { return given.first == name; })) {
      throw Error(ErrorKind::attribute,
                  str('[', primitive.name, "] attribute ", in_quotes(name), " is given twice"));
    }
    attributes.emplace_back(std::string(name), attribute_from(tape, at + 1, node, *spec, read_graph));
  }
  for (auto& [name, value] : attributes) {
    const auto spec = std::find_if(primitive.attributes.begin(), primitive.attributes.end(),
                                   [&name = name](const AttributeSpec& each) { return each.name == name; });
    if (spec->kind == AttributeKind::policy) value = policy_here(value, attributes);
  }
  return attributes;
}

void append_attributes(std::string& out, std::string_view before, const OpRecord& op,
                       const WriteGraph& write_graph, std::int64_t max_elements,
                       const NameDeferred& name_deferred) {
  const auto& specs = op.primitive->attributes;
  bool any = false;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Attribute& value = op.attributes[i].second;
    if (specs[i].has_default && value == specs[i].default_value()) continue;
    if (!any) out += before;
    out += any ? ", " : "{";
    any = true;
    append_json_string(out, specs[i].name);
    out += ": ";
    std::visit(AttributeWriter{out, specs[i].kind, op.attributes, write_graph, max_elements, name_deferred},
               value.variant());
  }
  if (any) out += '}';
}

std::string own_name(const DeferredGraph& graph) { return graph.name(); }

bool is_utf8(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), plain)) return true;
  try {
    static_cast<void>(nlohmann::json(std::string(text)).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string replaced_utf8(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string quoted;
  append_json_string(quoted, text);
  return nlohmann::json::parse(quoted).get<std::string>();
}

void append_json_string(std::string& out, std::string_view text) {
  if (std::all_of(text.begin(), text.end(), plain)) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

void append_json_integer(std::string& out, std::int64_t value) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace tidu::detail
