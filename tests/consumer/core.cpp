// A project with primitives of its own that links tidu::core and nothing else: no standard primitive, no
// tensor.
#include <tidu/graph/builder.hpp>
#include <tidu/graph/infer.hpp>

int main() {
  static constinit const tidu::Primitive twice{
      .name = "mine.twice", .infer = [](tidu::InferContext& c) { c.result(c.operand(0)); }};
  tidu::GraphBuilder builder("f", tidu::PrimitiveSet({&twice}, nullptr, nullptr));
  const tidu::Value x = builder.input("x", tidu::DType::f64);
  const tidu::Graph graph = builder.build({tidu::emit1(tidu::Op::make(twice), {x})});
  return graph.num_operations() == 1 ? 0 : 1;
}
