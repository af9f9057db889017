// control_flow.cpp - see control_flow.hpp: a graph of one scan, called.
#include "tidu/frontend/control_flow.hpp"

#include <algorithm>

#include "frontend/context.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::frontend_detail {
namespace {

// A traced Array of a trace that has ended: it has a type and a device.
Array stand_in(Type type, std::uint32_t device) {
  auto tracer = std::make_shared<Tracer>("slice", 0);
  const Value value = tracer->builder.input("x", type);
  tracer->ended = true;
  return make_traced(std::move(tracer), value, device);
}

// The step with what it captured in front of its arguments.
Graph consts_first(const Traced& step) {
  const Graph& graph = step.graph;
  GraphBuilder builder(graph.name(), graph.primitives());
  const std::size_t count = graph.inputs().size(), arguments = count - step.captured.size();
  std::vector<Value> inputs(count);
  const auto add = [&](std::size_t i) {
    inputs[i] = builder.input(graph.input_name(i), graph.type(graph.inputs()[i]));
  };
  for (std::size_t i = arguments; i < count; ++i) add(i);
  for (std::size_t i = 0; i < arguments; ++i) add(i);
  const std::vector<Value> values = inline_graph(builder, graph, inputs);
  std::vector<Value> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
}

// A graph runs on one device: what a step moves would stay where it is.
void refuse_moves(const Graph& step, Where where) {
  prim::visit_operations(step, [where](const Operation& operation, const Graph&) {
    if (&operation.primitive() != &prim::device_put) return;
    refuse(ErrorKind::invalid_argument, "scan",
           "expected a function that stays on one device, got one that moves an Array to another", where);
  });
}

}  // namespace

ScanCall::ScanCall(std::vector<Array> first, std::vector<Array> stacked, std::optional<std::int64_t> steps,
                   Where where)
    : carries(std::move(first)), xs(std::move(stacked)), like(carries), length(steps.value_or(0)) {
  require_arrays(carries, "scan", where, "carries");
  require_arrays(xs, "scan", where, "xs");
  const auto wrong = [&](const auto&... parts) {
    refuse(ErrorKind::invalid_argument, "scan", detail::str(parts...), where);
  };
  if (steps && *steps < 0) wrong("expected length >= 0, got ", *steps);
  if (!steps && xs.empty()) wrong("expected xs or a length, got neither");
  for (const Array& x : xs) {
    const Shape& shape = x.shape();
    if (shape.empty()) wrong("expected xs with a leading axis, got ", x.type());
    if (!steps && &x == &xs.front()) length = shape[0];
    if (shape[0] != length) {
      wrong("expected xs with ", length, steps ? " slices, the length" : " slices, as the first of them",
            ", got ", x.type());
    }
    like.push_back(stand_in(x.type().with_shape(Shape(shape.begin() + 1, shape.end())), device_of(x)));
  }
}

void require_same_carry(bool same, Where where) {
  if (same) return;
  refuse(
      ErrorKind::invalid_argument, "scan",
      "expected a function that returns a carry of the structure that it gets, with what is no Array in it "
      "unchanged, got another carry",
      where);
}

std::vector<Array> run_scan(const ScanCall& call, const Traced& step, std::size_t num_carries, bool reverse,
                            Where where) {
  if (num_carries != call.carries.size()) {
    refuse(
        ErrorKind::invalid_argument, "scan",
        detail::str(
            "expected a function that returns a carry of ", call.carries.size(), " Arrays, as it gets, got ",
            num_carries,
            call.carries.empty() ? " (a whole number is passed on as it is: make init an Array of it)" : ""),
        where);
  }
  refuse_moves(step.graph, where);
  std::vector<Array> operands = step.captured;
  operands.insert(operands.end(), call.carries.begin(), call.carries.end());
  operands.insert(operands.end(), call.xs.begin(), call.xs.end());
  if (step.graph.outputs().empty()) return {};
  const auto emit = [&](Emitter& emitter, std::span<const Value> values) {
    return ops::scan(emitter, consts_first(step), values,
                     {call.length, reverse, step.captured.size(), num_carries}, where);
  };
  return call_operation("scan", operands, emit, where);
}

}  // namespace tidu::frontend_detail
