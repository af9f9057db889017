// affine_rules.cpp - custom rules that are linear although a sum in an inner graph looks as if they were not:
// in operations that are linear by declaration, beside zeros, and for a result without readers.
#include "check/custom_support.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::test::affine_rules_cases {
namespace {

const Type v3{f64, {3}};
const Tensor at = vector({0.5, 1.0, 2.0}), one = vector({1.0, 0.0, -1.0});

Tensor jvp_of(const Graph& f) { return run(jvp(f), {at, one}).at(1); }
Tensor vjp_of(const Graph& f) { return run(vjp(f), {at, one}).at(1); }

// 3 t, computed with a constant that goes again: linear because it says so.
Values tripled(Value r, Value t) {
  GraphBuilder g("graph", standard_primitives()), b("transpose", standard_primitives());
  const Value gr = g.input("r", v3), gt = g.input("t", v3), br = b.input("r", v3), bt = b.input("t", v3);
  const Value moved = gt + gr;
  const Value back = moved - gr;
  const Graph graph = g.build({ops::full_like(gt, 3.0) * back});
  const Graph transpose = b.build({ops::full_like(br, 3.0) * bt});
  return ops::linear_call(graph, transpose, 1, std::vector{r, t});
}
Graph step() {
  GraphBuilder s("step", standard_primitives());
  const Value r = s.input("r", v3), t = s.input("t", v3);
  return s.build({tripled(r, t)[0]});
}
// floor, which has no derivative, with a backward of its own; forward keeps x.
Graph with_backward(const Graph& backward) {
  const Graph floor = of_x(v3, [](Value x) { return ops::floor(x); });
  GraphBuilder w("forward"), f("f");
  const Value x = w.input("x", v3);
  const Graph forward = w.build({ops::floor(x), x});
  return f.build({ops::custom_vjp_call(floor, forward, backward, std::vector{f.input("x", v3)})[0]});
}

}  // namespace

TEST_CASE("custom rules: a linear_call is linear within loops, whatever its graph adds") {
  GraphBuilder r("rule"), f("f");
  const Value x = r.input("x", v3), dx = r.input("dx", v3);
  const Graph rule = r.build({ops::sin(x), ops::scan(step(), std::vector{x, dx}, {2, false, 1, 1})[0]});
  const Graph sine = of_x(v3, [](Value v) { return ops::sin(v); });
  const Graph by_jvp = f.build({ops::custom_jvp_call(sine, rule, std::vector{f.input("x", v3)})[0]});
  GraphBuilder b("backward");
  const Value residual = b.input("r", v3), ct = b.input("ct", v3);
  const Graph by_vjp = with_backward(b.build({tripled(residual, ct)[0]}));
  for (const auto& [graph, factor] : {std::pair(by_jvp, 9.0), std::pair(by_vjp, 3.0)}) {
    for (std::int64_t i = 0; i < 3; ++i) {
      CHECK(near(jvp_of(graph).at(i), factor * one.at(i)));
      CHECK(near(vjp_of(graph).at(i), factor * one.at(i)));
    }
  }
}

TEST_CASE("custom_vjp: zeros that a branch or a loop gives make no rule affine") {
  for (const bool in_loop : {false, true}) {
    // Cotangents of x and of s: 2 ct, or ct, and zeros.
    const auto pair_of = [](double factor) {
      GraphBuilder g("pair", standard_primitives());
      const Value ct = g.input("ct", v3);
      return g.build({ops::full_like(ct, factor) * ct, ops::full_like(ct, 0.0)});
    };
    GraphBuilder b("backward"), w("forward"), f("f"), l("body", standard_primitives());
    const Value kept = b.input("x", v3), ct = b.input("ct", v3);
    const Value lt = l.input("t", v3), lz = l.input("z", v3);
    const Graph body = l.build({ops::full_like(lt, 2.0) * lt, lz});
    const Value positive = ops::gt(ops::reduce_sum(kept, {0}), ops::full(b, Type(f64), 0.0));
    const Values both = in_loop
                            ? ops::scan(body, std::vector{ct, ops::full_like(ct, 0.0)}, {1, false, 0, 2})
                            : ops::cond(positive, std::vector{pair_of(1.0), pair_of(2.0)}, std::vector{ct});
    const Graph backward = b.build({both[0], both[1]});
    const Value x = w.input("x", v3), s = w.input("s", v3);
    const Graph forward = w.build({ops::floor(x) + ops::floor(s), x});
    GraphBuilder p("floors");
    const Value px = p.input("x", v3), ps = p.input("s", v3);
    const Graph floors = p.build({ops::floor(px) + ops::floor(ps)});
    const std::vector<Value> operands{f.input("x", v3), f.input("s", v3)};
    const Graph ruled = f.build({ops::custom_vjp_call(floors, forward, backward, operands)[0]});
    const Tensor tangent = run(jvp(ruled), {at, at, one, one}).at(1);
    const Tensors gradients = run(vjp(ruled), {at, at, one});
    for (std::int64_t i = 0; i < 3; ++i) {
      CHECK(near(tangent.at(i), 2.0 * one.at(i)));
      CHECK(near(gradients.at(1).at(i), 2.0 * one.at(i)));
    }
  }
}

TEST_CASE("custom rules: a sum for a result without readers makes no rule affine") {
  GraphBuilder i("inner", standard_primitives()), b("backward"), r("rule"), f("f");
  const Value c = i.input("c", v3), t = i.input("t", v3);
  const Graph inner = i.build({ops::full_like(t, 2.0) * t, t + c});
  const Value residual = b.input("r", v3), ct = b.input("ct", v3);
  const Graph by_vjp = with_backward(b.build({ops::call(inner, std::vector{residual, ct})[0]}));
  const Value x = r.input("x", v3), dx = r.input("dx", v3);
  const Graph rule = r.build({ops::floor(x), ops::scan(inner, std::vector{x, dx}, {1, false, 1, 1})[0]});
  const Graph floor = of_x(v3, [](Value v) { return ops::floor(v); });
  const Graph by_jvp = f.build({ops::custom_jvp_call(floor, rule, std::vector{f.input("x", v3)})[0]});
  for (const Graph& graph : {by_vjp, by_jvp}) {
    for (std::int64_t k = 0; k < 3; ++k) {
      CHECK(near(jvp_of(graph).at(k), 2.0 * one.at(k)));
      CHECK(near(vjp_of(graph).at(k), 2.0 * one.at(k)));
    }
  }
}

}  // namespace tidu::test::affine_rules_cases
