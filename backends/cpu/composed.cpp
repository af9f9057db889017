// composed.cpp - see composed.hpp.
#include "cpu/composed.hpp"

#include "primitives/softmax.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

struct ComposedState {
  std::shared_ptr<const Compiled> program;
};

void run_composed(const ComposedState& s, const Call& call) {
  s.program->prepare_inner(call.scratch);
  s.program->run_inner(call.scratch, call.in, call.out);
}

Graph graph_of_logsumexp(Type type, const Ints& axes) {
  const bool is_wide = type.dtype() == f32 || type.dtype() == f64;
  GraphBuilder builder("logsumexp");
  const Value x = builder.input("x", type);
  const Value result = prim::logsumexp_of(is_wide ? x : ops::convert_element_type(x, f32), axes);
  return builder.build({is_wide ? result : ops::convert_element_type(result, type.dtype())});
}

}  // namespace

bool is_composed(const Operation& operation) { return &operation.primitive() == &prim::logsumexp; }

Plan plan_composed(const Operation& operation, Type x, const InnerContext& context) {
  ComposedState s{compile_inner(graph_of_logsumexp(x, operation.op().ints("axes")), context)};
  const std::size_t scratch = s.program->inner_bytes();
  return make_plan<ComposedState, run_composed>(std::move(s), scratch);
}

}  // namespace tidu::cpu_detail
