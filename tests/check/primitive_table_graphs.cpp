// primitive_table_graphs.cpp - the rows of operations that hold graphs: calls, loops, conditionals; see
// primitive_table.hpp.
#include "primitive_table.hpp"

#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

const std::vector<DType> graph_dtypes{f64, f32, c128, c64}, floating_dtypes{f64, f32};

// sin(x) y, times the sum of x.
Graph inner_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("inner", set);
  const Type type{dtype, {3}};
  const Value x = g.input("x", type), y = g.input("y", type);
  return g.build({ops::sin(x) * y, ops::reduce_sum(x * x, {0})});
}

// sin(x) y and x * x summed, with its JVP written by hand.
Graph jvp_of_inner_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("inner.jvp", set);
  const Type type{dtype, {3}};
  const Value x = g.input("x", type), y = g.input("y", type), dx = g.input("dx", type),
              dy = g.input("dy", type);
  return g.build({ops::sin(x) * y, ops::reduce_sum(x * x, {0}), ops::cos(x) * y * dx + ops::sin(x) * dy,
                  ops::reduce_sum(x * dx + x * dx, {0})});
}
Value conjugate_of(Value x) { return is_complex(x.dtype()) ? ops::conj(x) : x; }
// The same backward: x, y and sin(x) are kept.
Graph forward_of_inner_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("inner.forward", set);
  const Type type{dtype, {3}};
  const Value x = g.input("x", type), y = g.input("y", type), s = ops::sin(x);
  return g.build({s * y, ops::reduce_sum(x * x, {0}), x, y, s});
}
Graph backward_of_inner_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("inner.backward", set);
  const Type type{dtype, {3}};
  const Value x = g.input("x", type), y = g.input("y", type), s = g.input("s", type),
              ct0 = g.input("ct0", type), ct1 = g.input("ct1", Type(dtype));
  const Value spread = ops::broadcast_scalar(ct1, {3});
  return g.build({conjugate_of(ops::cos(x) * y) * ct0 + conjugate_of(x + x) * spread, conjugate_of(s) * ct0});
}
// r1 r2 t and the sum of r1 t, linear in t; its transpose.
Graph linear_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("linear", set);
  const Type type{dtype, {3}};
  const Value a = g.input("a", type), b = g.input("b", type), t = g.input("t", type);
  return g.build({a * b * t, ops::reduce_sum(a * t, {0})});
}
Graph transposed_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("transposed", set);
  const Type type{dtype, {3}};
  const Value a = g.input("a", type), b = g.input("b", type), u = g.input("u", type),
              v = g.input("v", Type(dtype));
  return g.build({conjugate_of(a * b) * u + conjugate_of(a) * ops::broadcast_scalar(v, {3})});
}

// The rule of linear_graph, by all its inputs.
Graph jvp_of_linear_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("linear.jvp", set);
  const Type type{dtype, {3}};
  const Value a = g.input("a", type), b = g.input("b", type), t = g.input("t", type),
              da = g.input("da", type), db = g.input("db", type), dt = g.input("dt", type);
  return g.build({a * b * t, ops::reduce_sum(a * t, {0}), da * b * t + a * db * t + a * b * dt,
                  ops::reduce_sum(da * t + a * dt, {0})});
}

Graph of_two(const char* name, DType dtype, const PrimitiveSet& set,
             const std::function<Value(Value, Value)>& f) {
  GraphBuilder g(name, set);
  const Type type{dtype, {3}};
  const Value a = g.input("a", type), x = g.input("x", type);
  return g.build({f(a, x)});
}
// 4 x + a sum(a x): of rank one and a multiple of the identity.
Value rank_one_map(Value a, Value x) {
  const Value sum = ops::reduce_sum(a * x, {0});
  const Value moved = a * ops::broadcast_scalar(sum, {3});
  return moved + ops::full_like(x, 4.0) * x;
}
Value rank_one_solution(Value a, Value b) {
  const Value top = ops::reduce_sum(a * b, {0}), square = ops::reduce_sum(a * a, {0});
  const Value weight = top / (square + ops::full_like(square, 4.0));
  const Value moved = a * ops::broadcast_scalar(weight, {3});
  return (b - moved) * ops::full_like(b, 0.25);
}
Value conjugate_solution(Value a, Value b) { return rank_one_solution(conjugate_of(a), b); }

// e + sum(e) = a for e = exp(x); its derivative by x and that transposed are solved in closed form.
Value root_residual(Value a, Value x) {
  const Value e = ops::exp(x), sum = ops::reduce_sum(e, {0});
  const Value all = e + ops::broadcast_scalar(sum, {3});
  return all - a;
}
Value less_mean(Value q) {
  const Value sum = ops::reduce_sum(q, {0}) * ops::full(*q.emitter(), Type(q.dtype()), 0.25);
  return q - ops::broadcast_scalar(sum, {3});
}
Value root_of(Value a, Value) { return ops::log(less_mean(a)); }
Graph tangent_solution(bool transposed, DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("tangents", set);
  const Type type{dtype, {3}};
  (void)g.input("a", type);
  const Value x = g.input("x", type), rhs = g.input("rhs", type), e = ops::exp(x);
  return g.build({transposed ? less_mean(rhs / conjugate_of(e)) : less_mean(rhs) / e});
}

void add_solves(std::vector<Row>& t) {
  t.push_back({"custom_linear_solve",
               graph_dtypes,
               {{{3}, between(-0.7, 0.7)}, {{3}}},
               [](DType d, const PrimitiveSet& set) {
                 const Graph transpose = of_two("transpose_solve", d, set, conjugate_solution);
                 return Attributes{{"matvec", of_two("matvec", d, set, rank_one_map)},
                                   {"solve", of_two("solve", d, set, rank_one_solution)},
                                   {"transpose_solve", GraphList{transpose.share()}},
                                   {"num_consts", 1}};
               }});
  for (const bool dense : {true, false}) {
    t.push_back(noted({"custom_root",
                       graph_dtypes,
                       {{{3}, between(2.0, 2.4)}, {{3}}},
                       [dense](DType d, const PrimitiveSet& set) {
                         Attributes attributes{{"residual", of_two("residual", d, set, root_residual)},
                                               {"solve", of_two("solve", d, set, root_of)},
                                               {"num_consts", 1}};
                         if (dense) return attributes;
                         attributes.emplace_back("tangent_solve",
                                                 GraphList{tangent_solution(false, d, set).share()});
                         attributes.emplace_back("transpose_tangent_solve",
                                                 GraphList{tangent_solution(true, d, set).share()});
                         return attributes;
                       }},
                      dense ? "dense" : "by graphs"));
  }
}

void add_custom(std::vector<Row>& t) {
  t.push_back({"call", graph_dtypes, {{{3}}, {{3}}}, [](DType d, const PrimitiveSet& set) {
                 return Attributes{{"graph", inner_graph(d, set)}};
               }});
  t.push_back({"custom_jvp_call", graph_dtypes, {{{3}}, {{3}}}, [](DType d, const PrimitiveSet& set) {
                 return Attributes{{"graph", inner_graph(d, set)}, {"jvp", jvp_of_inner_graph(d, set)}};
               }});
  t.push_back({"custom_vjp_call", graph_dtypes, {{{3}}, {{3}}}, [](DType d, const PrimitiveSet& set) {
                 return Attributes{{"graph", inner_graph(d, set)},
                                   {"forward", forward_of_inner_graph(d, set)},
                                   {"backward", backward_of_inner_graph(d, set)}};
               }});
  t.push_back({"custom_jvp_transpose",
               graph_dtypes,
               {{{3}}, {{3}}, {{3}}, {Shape{}}},
               [](DType d, const PrimitiveSet& set) {
                 return Attributes{{"graph", transposed_graph(d, set)},
                                   {"of", linear_graph(d, set)},
                                   {"jvp", jvp_of_linear_graph(d, set)},
                                   {"linear", Ints{2}},
                                   {"outputs", Ints{0, 1}}};
               }});
  t.push_back({"linear_call", graph_dtypes, {{{3}}, {{3}}, {{3}}}, [](DType d, const PrimitiveSet& set) {
                 return Attributes{{"graph", linear_graph(d, set)},
                                   {"transpose", transposed_graph(d, set)},
                                   {"num_residuals", 2}};
               }});
  add_solves(t);
  for (const Attribute& policy : {Attribute("nothing"), Attribute("everything"), Attribute(Ints{2, 3})}) {
    t.push_back(noted({"checkpoint",
                       graph_dtypes,
                       {{{3}}, {{3}}},
                       [policy](DType d, const PrimitiveSet& set) {
                         return Attributes{{"graph", inner_graph(d, set)}, {"policy", policy}};
                       }},
                      policy.get_if<Ints>() != nullptr             ? "two values"
                      : *policy.get_if<std::string>() == "nothing" ? "nothing"
                                                                   : "everything"));
  }
}

// A step of a scan: const w, carries c and n, slice x; n counts, and d becomes active in the second step
// alone.
Graph step_graph(DType dtype, const PrimitiveSet& set) {
  GraphBuilder g("step", set);
  const Type type{dtype, {3}};
  const Value w = g.input("w", type), c = g.input("c", type), d = g.input("d", type),
              n = g.input("n", Type(i32)), x = g.input("x", type);
  const Value next = ops::sin(w * c) + x * d, turn = ops::convert_element_type(n, dtype);
  return g.build({next, ops::cos(x) * w * ops::broadcast_scalar(turn, {3}), n + ops::full_like(n, 1),
                  next * x, ops::reduce_sum(d, {0}), n});
}

// The branches of a cond of x and y: one has no tangent of either, and one has a result of x.
GraphList branch_graphs(DType dtype, const PrimitiveSet& set) {
  const auto branch = [&](const char* name, const auto& f) {
    GraphBuilder g(name, set);
    const Type type{dtype, {3}};
    const Value x = g.input("x", type), y = g.input("y", type);
    const Values results = f(x, y);
    return g.build(std::span<const Value>(results.data(), results.size())).share();
  };
  return {branch("products",
                 [](Value x, Value y) {
                   return Values{ops::sin(x * y), x};
                 }),
          branch("exponentials",
                 [](Value x, Value y) {
                   return Values{ops::exp(x) * y, ops::cos(y)};
                 }),
          branch("none", [](Value x, Value) {
            return Values{ops::full_like(x, 2.0), x * x};
          })};
}

void add_control_flow(std::vector<Row>& t) {
  t.push_back(
      {"cond", graph_dtypes, {{{}, whole(0, 3), i32}, {{3}}, {{3}}}, [](DType d, const PrimitiveSet& set) {
         return Attributes{{"branches", branch_graphs(d, set)}};
       }});
  for (const bool reverse : {false, true}) {
    for (const int length : {3, 1, 0}) {
      const Shape xs{length, 3};
      t.push_back(noted({"scan",
                         length == 3 ? graph_dtypes : floating_dtypes,
                         {{{3}}, {{3}}, {{3}}, {{}, whole(0, 3), i32}, {xs}},
                         [reverse, length](DType d, const PrimitiveSet& set) {
                           return Attributes{{"body", step_graph(d, set)},
                                             {"length", length},
                                             {"reverse", reverse},
                                             {"num_consts", 1},
                                             {"num_carry", 3}};
                         }},
                        length == 0   ? "no step"
                        : length == 1 ? "one step"
                        : reverse     ? "reverse"
                                      : "forward"));
    }
  }
}

// A loop with a bound: w, of whose steps there are `steps`, carries c, k, which stays, and n, which counts.
void add_loops(std::vector<Row>& t) {
  const Shape all{3};
  for (const auto& of : {std::pair{3, 3}, {2, 4}, {4, 2}, {0, 2}}) {
    const int steps = of.first, bound = of.second;
    t.push_back(noted({"while",
                       steps == 3 ? graph_dtypes : floating_dtypes,
                       {{all}, {all}, {all}, {{}, whole(0, 0), i32}},
                       [steps, bound](DType d, const PrimitiveSet& set) {
                         GraphBuilder body("step", set), cond("until", set);
                         const Type type{d, {3}};
                         const Value w = body.input("w", type), c = body.input("c", type),
                                     k = body.input("k", type), n = body.input("n", Type(i32));
                         for (const char* name : {"w", "c", "k"}) (void)cond.input(name, type);
                         const Value at = cond.input("n", Type(i32));
                         return Attributes{
                             {"cond", cond.build({ops::lt(at, ops::full_like(at, steps))})},
                             {"body", body.build({ops::sin(w * c) + k * c, k, n + ops::full_like(n, 1)})},
                             {"max_steps", bound},
                             {"num_consts", 1}};
                       }},
                      steps == 3   ? "as many as the bound"
                      : steps == 2 ? "fewer than the bound"
                      : steps == 4 ? "ended by the bound"
                                   : "no step"));
  }
}

}  // namespace

void add_graph_holders(std::vector<Row>& t) {
  add_custom(t);
  add_control_flow(t);
  add_loops(t);
}

}  // namespace tidu::test
