// graph.cpp - reading graphs: JSON, counts, values, operations and their attributes.
#include <algorithm>

#include "c/support.hpp"
#include "graph/json_attributes.hpp"
#include "tidu/graph/json.hpp"

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::in_quotes;
using tidu::detail::str;

eager::RecordedGraph tidu_graph::recorded() const {
  const std::lock_guard lock(mutex);
  if (!recorded_graph) recorded_graph.emplace(eager::RecordedGraph::of(graph));
  return *recorded_graph;
}

namespace {

// Whatever makes a string.
template <class Make>
void give_text(const Call& call, tidu_string** to, const char* name, Make&& make) {
  tidu_string*& result = call.need(to, name);
  result = new tidu_string{make()};
}

const Attribute& attribute_of(const Call& call, const tidu_op* op, const char* name) {
  const OpRecord& record = record_of(call.need(op, "op"));
  call.need(name, "name");
  for (const auto& [known, value] : record.attributes)
    if (known == name) return value;
  call.refuse(ErrorKind::attribute,
              str("expected an attribute of ", record.primitive->name, ", got ", in_quotes(name)));
}

[[noreturn]] void refuse_kind(const Call& call, const char* name, const char* kind) {
  call.refuse(ErrorKind::attribute, str("expected attribute ", in_quotes(name), " to be ", kind));
}

// The attribute as a T.
template <class T>
const T& attribute_as(const Call& call, const tidu_op* op, const char* name, const char* kind) {
  const T* value = attribute_of(call, op, name).get_if<T>();
  if (value == nullptr) refuse_kind(call, name, kind);
  return *value;
}

std::int64_t integer_of(const Call& call, const Attribute& attribute, const char* name) {
  if (const bool* value = attribute.get_if<bool>()) return *value ? 1 : 0;
  if (const auto* value = attribute.get_if<std::int64_t>()) return *value;
  if (const auto* value = attribute.get_if<DType>()) return static_cast<std::int64_t>(*value);
  refuse_kind(call, name, "an integer, a bool or a dtype");
}

double number_of(const Call& call, const Attribute& attribute, const char* name) {
  if (const auto* value = attribute.get_if<double>()) return *value;
  if (const auto* value = attribute.get_if<std::int64_t>()) return static_cast<double>(*value);
  if (const auto* value = attribute.get_if<Literal>(); value != nullptr && value->type().size() == 1)
    return value->at(0).real();
  refuse_kind(call, name, "a number");
}

std::uint32_t value_at(std::span<const ValueId> values, std::size_t position) {
  return position < values.size() ? values[position] : TIDU_ABSENT;
}

}  // namespace

tidu_graph* tidu_graph_retain(const tidu_graph* graph) { return retain(graph); }
void tidu_graph_release(tidu_graph* graph) { release(graph); }

tidu_status tidu_graph_from_json(const char* json, size_t size, const tidu_primitive_set* primitives,
                                 tidu_graph** graph) {
  clear(graph);
  return guarded(__func__, [&](const Call& call) {
    call.need(graph, "graph");
    call.list(json, size, "json");
    *graph = new tidu_graph(graph_from_json({json, size}, set_of(primitives)));
  });
}

tidu_status tidu_graph_to_json(const tidu_graph* graph, tidu_string** json) {
  clear(json);
  return guarded(__func__, [&](const Call& call) {
    give_text(call, json, "json", [&] { return to_json(call.need(graph, "graph").graph); });
  });
}

tidu_status tidu_graph_to_text(const tidu_graph* graph, tidu_string** text) {
  clear(text);
  return guarded(__func__, [&](const Call& call) {
    give_text(call, text, "text", [&] { return to_text(call.need(graph, "graph").graph); });
  });
}

const char* tidu_graph_name(const tidu_graph* graph) {
  return graph != nullptr ? graph->graph.name().c_str() : "";
}
size_t tidu_graph_num_inputs(const tidu_graph* graph) {
  return graph != nullptr ? graph->graph.inputs().size() : 0;
}
size_t tidu_graph_num_outputs(const tidu_graph* graph) {
  return graph != nullptr ? graph->graph.outputs().size() : 0;
}
size_t tidu_graph_num_operations(const tidu_graph* graph) {
  return graph != nullptr ? graph->graph.num_operations() : 0;
}
size_t tidu_graph_num_values(const tidu_graph* graph) {
  return graph != nullptr ? graph->graph.num_values() : 0;
}
uint32_t tidu_graph_input(const tidu_graph* graph, size_t position) {
  return graph != nullptr ? value_at(graph->graph.inputs(), position) : TIDU_ABSENT;
}
uint32_t tidu_graph_output(const tidu_graph* graph, size_t position) {
  return graph != nullptr ? value_at(graph->graph.outputs(), position) : TIDU_ABSENT;
}

tidu_status tidu_graph_input_name(const tidu_graph* graph, size_t position, tidu_string** name) {
  clear(name);
  return guarded(__func__, [&](const Call& call) {
    const Graph& g = call.need(graph, "graph").graph;
    positions(call, &position, 1, g.inputs().size(), "position");
    give_text(call, name, "name", [&] { return g.input_name(position); });
  });
}

tidu_status tidu_graph_find_input(const tidu_graph* graph, const char* name, size_t* position) {
  if (position != nullptr) *position = 0;
  return guarded(__func__, [&](const Call& call) {
    call.need(position, "position");
    const Graph& g = call.need(graph, "graph").graph;
    const std::optional<std::size_t> found = g.find_input(&call.need(name, "name"));
    if (!found)
      call.refuse(ErrorKind::invalid_argument, str("expected the name of an input, got ", in_quotes(name)));
    *position = *found;
  });
}

tidu_status tidu_graph_value_type(const tidu_graph* graph, uint32_t value, tidu_type* type) {
  if (type != nullptr) *type = {};
  return guarded(__func__, [&](const Call& call) {
    const Graph& g = call.need(graph, "graph").graph;
    call.need(type, "type");
    const std::size_t position = value;
    positions(call, &position, 1, g.num_values(), "value");
    *type = shown(g.type(value));
  });
}

tidu_status tidu_graph_operation(const tidu_graph* graph, size_t index, tidu_operation* operation) {
  if (operation != nullptr) *operation = {};
  return guarded(__func__, [&](const Call& call) {
    const Graph& g = call.need(graph, "graph").graph;
    call.need(operation, "operation");
    positions(call, &index, 1, g.num_operations(), "index");
    const Operation at = g.operation(index);
    *operation = {at.name().data(), reinterpret_cast<const tidu_op*>(at.record().op),  at.inputs().data(),
                  at.num_inputs(),  at.num_outputs() == 0 ? TIDU_ABSENT : at.output(), at.num_outputs()};
  });
}

// Names of primitives are string literals, or those of primitive.cpp: they end in NUL.
const char* tidu_op_name(const tidu_op* op) {
  return op != nullptr ? record_of(*op).primitive->name.data() : "";
}

tidu_status tidu_op_attributes(const tidu_op* op, tidu_string** json) {
  clear(json);
  return guarded(__func__, [&](const Call& call) {
    give_text(call, json, "json", [&] {
      std::string text;
      tidu::detail::append_attributes(text, "", record_of(call.need(op, "op")),
                                      [](std::string& out, const Graph& graph) { out += to_json(graph); });
      return text;
    });
  });
}

tidu_status tidu_op_integer(const tidu_op* op, const char* name, int64_t* value) {
  if (value != nullptr) *value = 0;
  return guarded(__func__, [&](const Call& call) {
    call.need(value, "value") = integer_of(call, attribute_of(call, op, name), name);
  });
}

tidu_status tidu_op_number(const tidu_op* op, const char* name, double* value) {
  if (value != nullptr) *value = 0;
  return guarded(__func__, [&](const Call& call) {
    call.need(value, "value") = number_of(call, attribute_of(call, op, name), name);
  });
}

tidu_status tidu_op_integers(const tidu_op* op, const char* name, const int64_t** values, size_t* count) {
  clear(values);
  if (count != nullptr) *count = 0;
  return guarded(__func__, [&](const Call& call) {
    call.need(values, "values");
    call.need(count, "count");
    const Ints& ints = attribute_as<Ints>(call, op, name, "a list of integers");
    *values = ints.data();
    *count = ints.size();
  });
}

tidu_status tidu_op_text(const tidu_op* op, const char* name, const char** text) {
  clear(text);
  return guarded(__func__, [&](const Call& call) {
    call.need(text, "text") = attribute_as<std::string>(call, op, name, "a string").c_str();
  });
}

tidu_status tidu_op_tensor(const tidu_op* op, const char* name, tidu_type* type, const void** data) {
  clear(data);
  if (type != nullptr) *type = {};
  return guarded(__func__, [&](const Call& call) {
    call.need(type, "type");
    call.need(data, "data");
    const Literal& literal = attribute_as<Literal>(call, op, name, "a tensor");
    *type = shown(literal.type());
    *data = literal.bytes();
  });
}

tidu_status tidu_op_graph(const tidu_op* op, const char* name, tidu_graph** graph) {
  clear(graph);
  return guarded(__func__, [&](const Call& call) {
    call.need(graph, "graph");
    attribute_of(call, op, name);
    *graph = new tidu_graph(Op::of(&record_of(*op)).graph(name));
  });
}
