// control_flow.cpp - see control_flow.hpp: graphs of one scan or cond, called.
#include "tidu/frontend/control_flow.hpp"

#include <algorithm>
#include <unordered_map>

#include "frontend/broadcast.hpp"
#include "frontend/context.hpp"
#include "frontend/steps.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/frontend/functions.hpp"
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

}  // namespace

Graph consts_first(const Graph& graph, std::size_t captured) {
  GraphBuilder builder(graph.name(), graph.primitives());
  const std::size_t count = graph.inputs().size(), arguments = count - captured;
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

// A graph runs on one device, so a device_put in it would have no effect.
void refuse_moves(std::string_view name, const Graph& graph, Where where) {
  prim::visit_operations(graph, [name, where](const Operation& operation, const Graph&) {
    if (&operation.primitive() != &prim::device_put) return;
    refuse(ErrorKind::invalid_argument, name,
           "expected a function that stays on one device, got one that moves an Array to another", where);
  });
}

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

void require_same_carry(bool same, Where where, std::string_view function) {
  if (same) return;
  refuse(
      ErrorKind::invalid_argument, function,
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
  refuse_moves("scan", step.graph, where);
  std::vector<Array> operands = step.captured;
  operands.insert(operands.end(), call.carries.begin(), call.carries.end());
  operands.insert(operands.end(), call.xs.begin(), call.xs.end());
  if (step.graph.outputs().empty()) return {};
  const auto emit = [&](Emitter& emitter, std::span<const Value> values) {
    return ops::scan(emitter, consts_first(step.graph, step.captured.size()), values,
                     {call.length, reverse, step.captured.size(), num_carries}, where);
  };
  return call_operation("scan", operands, emit, where, std::span(&step.graph, 1));
}

namespace {

// An Array of one element, or of the number.
Array scalar_of(std::string_view name, std::string_view what, const ArrayLike& x) {
  if (x.array() != nullptr) {
    require_arrays(std::span(x.array(), 1), name, x.where(), what);
  }
  Array array = array_of(x);
  if (!array.shape().empty()) {
    refuse(ErrorKind::type, name, detail::str("expected a scalar as the ", what, ", got ", array.type()),
           x.where());
  }
  return array;
}

// The branches with inputs for the captured Arrays of all branches, then for their arguments; and the
// captured Arrays, each once.
struct Joined {
  std::vector<Graph> graphs;
  std::vector<Array> captured;
};
Joined joined(std::span<const Traced> branches) {
  Joined result;
  std::unordered_map<const Body*, std::size_t> places;
  for (const Traced& branch : branches) {
    for (const Array& array : branch.captured) {
      if (places.emplace(array.body(), result.captured.size()).second) result.captured.push_back(array);
    }
  }
  for (const Traced& branch : branches) {
    const Graph& graph = branch.graph;
    const std::size_t arguments = graph.inputs().size() - branch.captured.size();
    GraphBuilder builder(graph.name(), graph.primitives());
    std::vector<Value> captured, inputs(graph.inputs().size());
    for (std::size_t k = 0; k < result.captured.size(); ++k)
      captured.push_back(builder.input(detail::str("captured", k), result.captured[k].type()));
    for (std::size_t i = 0; i < arguments; ++i)
      inputs[i] = builder.input(graph.input_name(i), graph.type(graph.inputs()[i]));
    for (std::size_t k = 0; k < branch.captured.size(); ++k)
      inputs[arguments + k] = captured[places.at(branch.captured[k].body())];
    const std::vector<Value> values = inline_graph(builder, graph, inputs);
    std::vector<Value> outputs;
    for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
    result.graphs.push_back(builder.build(outputs));
  }
  return result;
}

}  // namespace

Array condition(const ArrayLike& predicate) {
  Array array = scalar_of("cond", "predicate", predicate);
  if (is_bool(array.dtype())) return array;
  if (is_complex(array.dtype())) {
    refuse(ErrorKind::type, "cond",
           detail::str("expected a predicate that is a bool or a real number, got ", array.type()),
           predicate.where());
  }
  return array != 0;
}

Array branch_index(const ArrayLike& index, std::size_t count) {
  Array array = scalar_of("switch_case", "index", index);
  if (!is_integer(array.dtype())) {
    refuse(ErrorKind::type, "switch_case",
           detail::str("expected an index that is an integer, got ", array.type()), index.where());
  }
  if (array.dtype() == i32) return array;
  // The clamp precedes the conversion: numbers beyond i32 must stay out of range.
  return astype(clip(array, 0, static_cast<std::int64_t>(count) - 1), i32, index.where());
}

void require_branches(std::size_t count, Where where) {
  if (count != 0) return;
  refuse(ErrorKind::invalid_argument, "switch_case", "expected one branch or more, got none", where);
}

void require_same_result(std::string_view name, std::size_t branch, bool same, Where where) {
  if (same) return;
  refuse(ErrorKind::invalid_argument, name,
         detail::str("expected branches that return the same structure, with what is no Array in it equal, "
                     "got another in branch ",
                     branch, " than in branch 0"),
         where);
}

std::vector<Array> run_cond(std::string_view name, const Array& index, std::span<const Traced> branches,
                            std::span<const Array> arguments, Where where) {
  for (const Traced& branch : branches) refuse_moves(name, branch.graph, where);
  if (branches[0].graph.outputs().empty()) return {};
  const Joined all = joined(branches);
  std::vector<Array> operands{index};
  operands.insert(operands.end(), all.captured.begin(), all.captured.end());
  operands.insert(operands.end(), arguments.begin(), arguments.end());
  const auto emit = [&](Emitter&, std::span<const Value> values) {
    return ops::cond(values[0], all.graphs, values.subspan(1), where);
  };
  return call_operation(name, operands, emit, where, all.graphs);
}

}  // namespace tidu::frontend_detail
