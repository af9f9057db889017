// composed.cpp - see composed.hpp.
#include "cpu/composed.hpp"

#include "primitives/slopes.hpp"
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
  GraphBuilder builder("logsumexp");
  const Value x = prim::wide(builder.input("x", type));
  return builder.build({prim::narrow(prim::logsumexp_of(x, axes), type.dtype())});
}

}  // namespace

bool is_composed(const Operation& operation) { return &operation.primitive() == &prim::logsumexp; }

Plan plan_composed(const Operation& operation, Type x, const InnerContext& context) {
  ComposedState s{compile_inner(graph_of_logsumexp(x, operation.op().ints("axes")), context)};
  const std::size_t scratch = s.program->inner_bytes();
  return make_plan<ComposedState, run_composed>(std::move(s), scratch);
}

}  // namespace tidu::cpu_detail
