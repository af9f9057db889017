// call.cpp - call, the operation that holds a graph, and the list of all structural records. The rules of
// call use the running transform: it linearizes, transposes or batches the inner graph.
#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/convolution.hpp"
#include "tidu/primitives/random.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec graph_attribute[] = {{"graph", AttributeKind::graph}};

void infer_call(InferContext& c) { infer_inner_graph(c, c.op().graph("graph")); }

Derivatives jvp_call(JvpContext& c) {
  return jvp_inner_graph(c, [&c](const Graph& inner, std::span<const Value> operands) {
    return ops::call(c.emitter(), inner, operands);
  });
}

Derivatives transpose_call(TransposeContext& c) {
  return transpose_inner_graph(c, [&c](const Graph& inner, std::span<const Value> operands) {
    return ops::call(c.emitter(), inner, operands);
  });
}

Values batch_call(BatchContext& c) {
  const InnerBatching inner = c.host().batch_reached(c.op().graph("graph"), batched_operands(c), c.size());
  return ops::call(c.emitter(), inner.graph, operands_of(c));
}

}  // namespace

// y = graph(x)          dy = call(linear)(residuals, dx), ct_x = call(transposed)(residuals, ct)
constinit const Primitive call{.name = "call",
                               .arity = variadic,
                               .num_outputs = variadic,
                               .attributes = graph_attribute,
                               .traits = Trait::holds_graph,
                               .linearity = linearity::linear,
                               .infer = infer_call,
                               .jvp = jvp_call,
                               .transpose = transpose_call,
                               .batch = batch_call,
                               .region_bindings = bindings_of_inner_graph};

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
          &device_put,
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
          &conv_general_dilated,
          &reduce_window_sum,
          &reduce_window_max,
          &random_bits,
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
