// call.cpp - call, the operation that holds a graph, and the list of all structural records. The rules of
// call turn to the transform that is running: it linearizes, transposes or batches the graph inside.
#include "axes.hpp"
#include "rules.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec graph[] = {{"graph", AttributeKind::graph}};

void infer_call(InferContext& c) {
  const Graph inner = c.op().graph("graph");
  c.require(c.num_operands() == inner.inputs().size(), "expected ", inner.inputs().size(),
            " operands for graph \"", inner.name(), "\", got ", c.num_operands());
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const Type expected = inner.type(inner.inputs()[i]);
    c.require(c.operand(i) == expected, "expected ", expected, " for operand ", i, ", input \"",
              inner.input_name(i), "\" of graph \"", inner.name(), "\", got ", c.operand(i));
  }
  c.require(!inner.outputs().empty(), "expected a graph with one output or more, got \"", inner.name(), '"');
  for (const ValueId output : inner.outputs()) c.result(inner.type(output));
}

// The augmented graph takes the place of the call: its further results are the residuals that the linear
// graph is called with.
Derivatives jvp_call(JvpContext& c) {
  const std::size_t count = c.results().size();
  std::vector<bool> active;
  for (std::size_t i = 0; i < c.num_operands(); ++i) active.push_back(c.active(i));
  const InnerLinearization inner = c.host().linearize(c.op().graph("graph"), active);
  if (inner.linear.outputs().empty()) return Derivatives::absent(count);

  const Values primal = ops::call(c.emitter(), inner.primal, c.primals());
  c.host().replace_results(std::span<const Value>(primal.data(), count));
  std::vector<Value> operands(primal.begin() + count, primal.end());
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    if (c.active(i)) operands.push_back(*c.tangent(i));
  }
  const Values tangents = ops::call(c.emitter(), inner.linear, operands);
  Derivatives result;
  for (const std::optional<std::size_t>& at : inner.tangent_of_output) {
    result.push_back(at ? std::optional<Value>(tangents[*at]) : std::nullopt);
  }
  return result;
}

Derivatives transpose_call(TransposeContext& c) {
  std::vector<bool> linear;
  std::vector<bool> seeded;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    linear.push_back(c.linear(i));
    if (!c.linear(i)) operands.push_back(c.operand(i));
  }
  for (std::size_t slot = 0; slot < c.num_results(); ++slot) {
    const std::optional<Value> ct = c.cotangent(slot);
    seeded.push_back(ct.has_value());
    if (ct) operands.push_back(*ct);
  }
  const InnerTransposition inner = c.host().transpose(c.op().graph("graph"), linear, seeded);
  if (inner.graph.outputs().empty()) return Derivatives::absent(c.num_operands());
  const Values cotangents = ops::call(c.emitter(), inner.graph, operands);
  Derivatives result;
  for (const std::optional<std::size_t>& at : inner.cotangent_of_input) {
    result.push_back(at ? std::optional<Value>(cotangents[*at]) : std::nullopt);
  }
  return result;
}

Values batch_call(BatchContext& c) {
  std::vector<bool> batched;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    batched.push_back(c.batched(i));
    operands.push_back(c.operand(i));
  }
  return ops::call(c.emitter(), c.host().batch(c.op().graph("graph"), batched, c.size()), operands);
}

}  // namespace

// y = graph(x)          dy = call(linear)(residuals, dx), ct_x = call(transposed)(residuals, ct)
constinit const Primitive call{.name = "call",
                               .arity = variadic,
                               .num_outputs = variadic,
                               .attributes = graph,
                               .traits = Trait::holds_graph,
                               .linearity = linearity::linear,
                               .infer = infer_call,
                               .jvp = jvp_call,
                               .transpose = transpose_call,
                               .batch = batch_call};

std::vector<const Primitive*> structural_primitives() {
  return {&reshape,
          &transpose,
          &broadcast_in_dim,
          &squeeze,
          &expand_dims,
          &rev,
          &slice,
          &pad,
          &concatenate,
          &convert_element_type,
          &stop_gradient,
          &optimization_barrier,
          &dynamic_slice,
          &dynamic_update_slice,
          &take,
          &scatter_add,
          &take_along_axis,
          &scatter_add_along_axis,
          &reduce_sum,
          &reduce_prod,
          &reduce_max,
          &reduce_min,
          &reduce_and,
          &reduce_or,
          &argmax,
          &argmin,
          &cumsum,
          &cumprod,
          &cummax,
          &cummin,
          &cumlogsumexp,
          &logsumexp,
          &sort,
          &top_k,
          &dot_general,
          &call};
}

}  // namespace tidu::prim

namespace tidu::ops {

Values call(Emitter& emitter, const Graph& graph, std::span<const Value> operands, Where where) {
  return emitter.emit(Op::make(prim::call, {{"graph", graph}}), operands, where);
}

Values call(const Graph& graph, std::span<const Value> operands, Where where) {
  return emit(Op::make(prim::call, {{"graph", graph}}), operands, where);
}

}  // namespace tidu::ops
