// emit.cpp - emitters, of builders and for rules, and builders.
#include "c/support.hpp"
#include "graph/json_attributes.hpp"
#include "graph/nearest.hpp"
#include "tidu/graph/infer.hpp"

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::in_quotes;
using tidu::detail::str;

struct tidu_builder {
  tidu_builder(const char* name, const PrimitiveSet& set)
      : graph(name != nullptr ? name : "", set), emitter{&graph, &graph} {}
  GraphBuilder graph;
  tidu_emitter emitter;
};

Value tidu_emitter::value(const Call& call, std::uint32_t id, const char* name) const {
  const std::size_t bound = builder != nullptr ? builder->num_values() : values.size();
  if (id == TIDU_ABSENT)
    call.refuse(ErrorKind::invalid_argument, str("expected ", name, " to be values, got TIDU_ABSENT"));
  if (id >= bound) {
    call.refuse(ErrorKind::invalid_argument,
                str("expected ", name, " to be values of the emitter, below ", bound, ", got ", id));
  }
  return builder != nullptr ? builder->value(id) : values[id];
}

std::vector<Value> tidu_emitter::list(const Call& call, const std::uint32_t* first, std::size_t count,
                                      const char* name) const {
  std::vector<Value> all;
  all.reserve(count);
  for (const std::uint32_t id : call.list(first, count, name)) all.push_back(value(call, id, name));
  return all;
}

std::uint32_t tidu_emitter::add(Value value) {
  if (builder != nullptr) return value.id();
  values.push_back(value);
  return static_cast<std::uint32_t>(values.size() - 1);
}

namespace tidu::c_detail {

Op make_op(const Call& call, const PrimitiveSet& set, const char* primitive, const char* attributes) {
  const Primitive* record = set.find(&call.need(primitive, "primitive"));
  if (record == nullptr) {
    call.refuse(ErrorKind::unknown_primitive,
                str("expected the name of a primitive of the set, got ", in_quotes(primitive),
                    tidu::detail::nearest_primitives(primitive, set)));
  }
  if (attributes == nullptr || *attributes == '\0') return Op::make(*record);
  return Op::make(*record, tidu::detail::attributes_from_text(attributes, *record, set));
}

}  // namespace tidu::c_detail

namespace {

// Counts results before anything is added.
void check_results(const Call& call, const Op& op, std::span<const Value> operands, std::size_t expected) {
  std::size_t count = static_cast<std::size_t>(op.primitive().num_outputs);
  if (op.primitive().num_outputs == variadic) {
    std::vector<Type> types;
    for (const Value& operand : operands) types.push_back(operand.type());
    count = infer_types(op, types).size();
  }
  call.count("num_results", count, expected);
}

void emit_on(const Call& call, tidu_emitter& emitter, const Op& op, std::span<const Value> operands,
             std::uint32_t* results, std::size_t num_results) {
  call.list(results, num_results, "results");
  check_results(call, op, operands, num_results);
  emitter.values.reserve(emitter.values.size() + num_results);
  const Values made = emitter.emitter->emit(op, operands, emitter.where);
  for (std::size_t i = 0; i < num_results; ++i) results[i] = emitter.add(made[i]);
}

}  // namespace

tidu_status tidu_emit(tidu_emitter* emitter, const char* primitive, const uint32_t* operands,
                      size_t num_operands, const char* attributes, uint32_t* results, size_t num_results) {
  const auto body = [&](const Call& call) {
    tidu_emitter& to = call.need(emitter, "emitter");
    const std::vector<Value> values = to.list(call, operands, num_operands, "operands");
    clear(results, num_results);  // which may be where the operands are
    emit_on(call, to, make_op(call, to.emitter->primitives(), primitive, attributes), values, results,
            num_results);
  };
  const tidu_status status = guarded(__func__, body);
  if (status != TIDU_OK) clear(results, num_results);
  return status;
}

tidu_status tidu_emit1(tidu_emitter* emitter, const char* primitive, const uint32_t* operands,
                       size_t num_operands, const char* attributes, uint32_t* result) {
  return tidu_emit(emitter, primitive, operands, num_operands, attributes, result, 1);
}

tidu_status tidu_emit_op(tidu_emitter* emitter, const tidu_op* op, const uint32_t* operands,
                         size_t num_operands, uint32_t* results, size_t num_results) {
  const tidu_status status = guarded(__func__, [&](const Call& call) {
    tidu_emitter& to = call.need(emitter, "emitter");
    const OpRecord& record = record_of(call.need(op, "op"));
    to.emitter->primitives().resolve(*record.primitive);
    const std::vector<Value> values = to.list(call, operands, num_operands, "operands");
    emit_on(call, to, Op::of(&record), values, results, num_results);
  });
  if (status != TIDU_OK) clear(results, num_results);
  return status;
}

tidu_status tidu_emit_constant(tidu_emitter* emitter, const tidu_type* type, const void* data,
                               uint32_t* result) {
  clear(result, 1);
  return guarded(__func__, [&](const Call& call) {
    tidu_emitter& to = call.need(emitter, "emitter");
    call.need(result, "result");
    const Type of = call.type(type, "type");
    const auto bytes = call.list(static_cast<const std::byte*>(data), of.bytes(), "data");
    const auto constant = to.emitter->primitives().transform_ops().constant;
    to.values.reserve(to.values.size() + 1);
    *result = to.add(constant(*to.emitter, Literal(of, bytes)));
  });
}

tidu_status tidu_emit_graph(tidu_emitter* emitter, const tidu_graph* graph, const uint32_t* inputs,
                            size_t num_inputs, uint32_t* outputs, size_t num_outputs) {
  const tidu_status status = guarded(__func__, [&](const Call& call) {
    tidu_emitter& to = call.need(emitter, "emitter");
    const Graph& g = call.need(graph, "graph").graph;
    call.count("num_inputs", g.inputs().size(), num_inputs);
    call.count("num_outputs", g.outputs().size(), num_outputs);
    call.list(outputs, num_outputs, "outputs");
    const std::vector<Value> given = to.list(call, inputs, num_inputs, "inputs");
    to.values.reserve(to.values.size() + num_outputs);
    const std::vector<Value> made = inline_graph(*to.emitter, g, given);
    for (std::size_t i = 0; i < num_outputs; ++i) outputs[i] = to.add(made[g.outputs()[i]]);
  });
  if (status != TIDU_OK) clear(outputs, num_outputs);
  return status;
}

tidu_status tidu_emitter_type(tidu_emitter* emitter, uint32_t value, tidu_type* type) {
  if (type != nullptr) *type = {};
  return guarded(__func__, [&](const Call& call) {
    call.need(type, "type") = shown(call.need(emitter, "emitter").value(call, value, "value").type());
  });
}

tidu_status tidu_builder_create(const char* name, const tidu_primitive_set* primitives,
                                tidu_builder** builder) {
  clear(builder);
  return guarded(__func__, [&](const Call& call) {
    call.need(builder, "builder");
    *builder = new tidu_builder(name, set_of(primitives));
  });
}

void tidu_builder_release(tidu_builder* builder) { delete builder; }

tidu_emitter* tidu_builder_emitter(tidu_builder* builder) {
  return builder != nullptr ? &builder->emitter : nullptr;
}

tidu_status tidu_builder_input(tidu_builder* builder, const char* name, const tidu_type* type,
                               uint32_t* value) {
  clear(value, 1);
  return guarded(__func__, [&](const Call& call) {
    tidu_builder& to = call.need(builder, "builder");
    call.need(value, "value");
    *value = to.graph.input(&call.need(name, "name"), call.type(type, "type")).id();
  });
}

tidu_status tidu_builder_set_location(tidu_builder* builder, const char* file, uint32_t line) {
  return guarded(__func__, [&](const Call& call) {
    call.need(builder, "builder").emitter.where = {kept_text(file), line};
  });
}

tidu_status tidu_builder_build(tidu_builder* builder, const uint32_t* outputs, size_t num_outputs,
                               tidu_graph** graph) {
  clear(graph);
  return guarded(__func__, [&](const Call& call) {
    tidu_builder& from = call.need(builder, "builder");
    call.need(graph, "graph");
    const std::vector<Value> values = from.emitter.list(call, outputs, num_outputs, "outputs");
    NewHandles<tidu_graph> made(1);
    made.add(Graph());
    made[0].graph = from.graph.build(values);
    made.give(graph);
  });
}
