// A small primitive set for tests of modules that do not depend on the standard set: arithmetic, two results,
// attributes of every kind, a primitive that holds a graph, and one that is impure.
#pragma once

#include <tidu/graph/builder.hpp>
#include <tidu/graph/infer.hpp>
#include <vector>

namespace tidu::test {

namespace rules {
inline void same(InferContext& c) {
  for (std::size_t i = 1; i < c.num_operands(); ++i) {
    c.require(c.operand(i) == c.operand(0), "expected operand ", i, " of ", c.operand(0), ", got ",
              c.operand(i));
  }
  c.result(c.operand(0));
}
inline void twice(InferContext& c) {
  c.result(c.operand(0));
  c.result(c.operand(0));
}
inline void shaped(InferContext& c) { c.result(c.op().dtype("dtype"), c.op().ints("shape")); }
inline void constant(InferContext& c) { c.result(c.op().literal("value").type()); }
inline void call(InferContext& c) {
  const Graph graph = c.op().graph("graph");
  c.require(c.num_operands() == graph.inputs().size(), "expected ", graph.inputs().size(), " operands, got ",
            c.num_operands());
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const Type wanted = graph.type(graph.inputs()[i]);
    c.require(c.operand(i) == wanted, "expected operand ", i, " of ", wanted, ", got ", c.operand(i));
  }
  for (const ValueId id : graph.outputs()) c.result(graph.type(id));
}
inline constexpr AttributeSpec kinds[] = {
    {.name = "flag", .kind = AttributeKind::boolean},
    {.name = "count", .kind = AttributeKind::integer},
    {.name = "mode", .kind = AttributeKind::string, .has_default = true, .default_string = "clip"},
    {.name = "full", .kind = AttributeKind::boolean, .has_default = true},
    {.name = "dtype", .kind = AttributeKind::dtype},
    {.name = "number", .kind = AttributeKind::number},
    {.name = "axes", .kind = AttributeKind::ints},
    {.name = "lists", .kind = AttributeKind::int_lists},
    {.name = "dot", .kind = AttributeKind::dot_dimension_numbers},
    {.name = "conv", .kind = AttributeKind::conv_dimension_numbers},
    {.name = "value", .kind = AttributeKind::literal},
    {.name = "policy", .kind = AttributeKind::policy}};
inline constexpr AttributeSpec full[] = {{.name = "value", .kind = AttributeKind::number},
                                         {.name = "dtype", .kind = AttributeKind::dtype},
                                         {.name = "shape", .kind = AttributeKind::ints}};
inline constexpr AttributeSpec value[] = {{.name = "value", .kind = AttributeKind::literal}};
inline constexpr AttributeSpec graph[] = {{.name = "graph", .kind = AttributeKind::graph}};
}  // namespace rules

inline constexpr Primitive add_p{
    .name = "add", .arity = 2, .traits = Trait::elementwise | Trait::additive, .infer = rules::same};
inline constexpr Primitive mul_p{
    .name = "mul", .arity = 2, .traits = Trait::elementwise, .infer = rules::same};
inline constexpr Primitive sin_p{.name = "sin", .traits = Trait::elementwise, .infer = rules::same};
inline constexpr Primitive twins_p{.name = "twins", .num_outputs = 2, .infer = rules::twice};
inline constexpr Primitive many_p{.name = "many", .arity = variadic, .infer = rules::same};
inline constexpr Primitive kinds_p{.name = "test.kinds", .attributes = rules::kinds, .infer = rules::same};
inline constexpr Primitive full_p{
    .name = "full", .arity = 0, .attributes = rules::full, .traits = Trait::constant, .infer = rules::shaped};
inline constexpr Primitive constant_p{.name = "constant",
                                      .arity = 0,
                                      .attributes = rules::value,
                                      .traits = Trait::constant,
                                      .infer = rules::constant};
inline constexpr Primitive call_p{.name = "call",
                                  .arity = variadic,
                                  .num_outputs = variadic,
                                  .attributes = rules::graph,
                                  .traits = Trait::holds_graph,
                                  .infer = rules::call};
inline constexpr Primitive draw_p{.name = "draw", .traits = Trait::impure, .infer = rules::same};

inline const PrimitiveSet& test_set() {
  static const PrimitiveSet set(
      {&add_p, &mul_p, &sin_p, &twins_p, &many_p, &kinds_p, &full_p, &constant_p, &call_p, &draw_p}, &add_p,
      nullptr);
  return set;
}

inline Value add(Value x, Value y) { return emit1(plain_op<add_p>(), {x, y}); }
inline Value mul(Value x, Value y) { return emit1(plain_op<mul_p>(), {x, y}); }
inline Value sin(Value x) { return emit1(plain_op<sin_p>(), {x}); }
inline Values twins(Value x) { return emit(plain_op<twins_p>(), std::vector{x}); }
inline Value draw(Value x) { return emit1(plain_op<draw_p>(), {x}); }
inline Value full(GraphBuilder& builder, double value, DType dtype, const Ints& shape) {
  return builder.emit(Op::make(full_p, {{"value", value}, {"dtype", dtype}, {"shape", shape}}), {})[0];
}
inline Values call(const Graph& graph, std::span<const Value> operands) {
  return emit(Op::make(call_p, {{"graph", graph}}), operands);
}
inline Op kinds_op(double number = 0.5) {
  const std::vector<float> data{1.5F, -0.0F};
  return Op::make(kinds_p, {{"flag", true},
                            {"count", -3},
                            {"dtype", f32},
                            {"number", number},
                            {"axes", Ints{0, 2}},
                            {"lists", IntLists{{1, -2, 0}, {}}},
                            {"dot", IntLists{{1}, {0}, {}, {}}},
                            {"conv", IntLists{{0, 1}, {1, 0}, {0, 1}}},
                            {"value", Literal::of<float>(Type(f32, {2}), data)},
                            {"policy", "everything"}});
}

}  // namespace tidu::test
