// custom.cpp - custom_jvp_call and custom_vjp_call beyond the table of primitives: which rule is used in
// which mode, constant and integer operands, third order, batching, dumps, and refusals that name graph and
// position, here also those of linear_call and checkpoint.
#include "tidu/primitives/custom.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "check/custom_support.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::test::custom_calls {
namespace {

// y = n sin(x) and the sum of x z, of x and z (f64[3]) and n (i64), beside n as it is. The rule says three
// times the derivative of the first output, so that one sees when it is used.
Graph plain() {
  GraphBuilder g("plain");
  const Value x = g.input("x", v3), n = g.input("n", i64), z = g.input("z", v3);
  const Value factor = ops::broadcast_scalar(ops::convert_element_type(n, f64), {3});
  return g.build({factor * ops::sin(x), n, ops::reduce_sum(x * z, {0})});
}
Graph jvp_rule(double factor) {
  GraphBuilder g("rule");
  const Value x = g.input("x", v3), n = g.input("n", i64), z = g.input("z", v3), dx = g.input("dx", v3),
              dz = g.input("dz", v3);
  const Value many = ops::broadcast_scalar(ops::convert_element_type(n, f64), {3});
  return g.build({many * ops::sin(x), n, ops::reduce_sum(x * z, {0}),
                  ops::full_like(x, factor) * (many * ops::cos(x) * dx),
                  ops::reduce_sum(x * dz + dx * z, {0})});
}
Graph forward_rule() {
  GraphBuilder g("forward");
  const Value x = g.input("x", v3), n = g.input("n", i64), z = g.input("z", v3);
  const Value many = ops::broadcast_scalar(ops::convert_element_type(n, f64), {3});
  return g.build({many * ops::sin(x), n, ops::reduce_sum(x * z, {0}), many * ops::cos(x), x, z});
}
// The graph with its inputs as residuals.
Graph forward_of(const Graph& graph) {
  std::vector<ValueId> kept(graph.outputs().begin(), graph.outputs().end());
  kept.insert(kept.end(), graph.inputs().begin(), graph.inputs().end());
  return GraphBuilder::extending(graph)->build_ids(kept);
}
Graph backward_rule(double factor, bool clipped = false) {
  GraphBuilder g("backward");
  const Value slope = g.input("slope", v3), x = g.input("x", v3), z = g.input("z", v3),
              ct0 = g.input("ct0", v3), ct1 = g.input("ct1", f64);
  const Value spread = ops::broadcast_scalar(ct1, {3});
  Value first = ops::full_like(x, factor) * slope * ct0;
  if (clipped) first = ops::clamp(ops::full_like(x, -0.1), first, ops::full_like(x, 0.1));
  return g.build({first + z * spread, x * spread});
}
// The call within a function of x, n and z, so that cotangents and tangents pass through.
Graph around(const std::function<Values(std::span<const Value>)>& call) {
  GraphBuilder g("around");
  const Value x = g.input("x", v3), n = g.input("n", i64), z = g.input("z", v3);
  const Values y = call(std::vector{x * x, n, z});
  return g.build({y[0] * y[0] * z, y[2] * y[2]});
}
Graph with_plain() {
  return around([](std::span<const Value> x) { return ops::call(plain(), x); });
}
Graph with_jvp(double factor) {
  return around([=](std::span<const Value> x) { return ops::custom_jvp_call(plain(), jvp_rule(factor), x); });
}
Graph with_vjp(double factor, bool clipped = false) {
  return around([=](std::span<const Value> x) {
    return ops::custom_vjp_call(plain(), forward_rule(), backward_rule(factor, clipped), x);
  });
}

TEST_CASE("custom rules: to third order in either mode they agree with the plain graph when they are right") {
  const Names both{"x", "z"};
  DerivativeOptions named;
  named.named_inputs = true;
  for (const Graph& custom : {with_jvp(1.0), with_vjp(1.0)}) {
    const Graph expected = with_plain();
    check_same(custom, expected, 1);
    check_same(jvp(custom), jvp(expected), 2);
    check_same(vjp(custom), vjp(expected), 3);
    check_same(jvp(custom, {"z"}), jvp(expected, {"z"}), 4);
    check_same(vjp(custom, {"x"}), vjp(expected, {"x"}), 5);
    const auto twice = [&](const Graph& f, bool forward, bool over) {
      const Graph once = forward ? jvp(f, both, named) : vjp(f, both, named);
      return over ? jvp(once, both, named) : vjp(once, both, named);
    };
    for (const bool forward : {true, false}) {
      for (const bool over : {true, false}) {
        CAPTURE(forward);
        CAPTURE(over);
        check_same(twice(custom, forward, over), twice(expected, forward, over), 6);
        check_same(vjp(twice(custom, forward, over), both), vjp(twice(expected, forward, over), both), 7,
                   1e-10);
      }
    }
    check_same(jacfwd(custom), jacrev(expected), 8);
    check_same(jacrev(custom), jacrev(expected), 8);
  }
}

TEST_CASE("custom rules: it is the rule that is used, in both modes") {
  const Graph f = around([](std::span<const Value> x) { return ops::call(plain(), x); });
  for (const bool by_jvp : {true, false}) {
    const auto alone = [&](double factor) {
      GraphBuilder g("alone");
      const std::vector<Value> x{g.input("x", v3), g.input("n", i64), g.input("z", v3)};
      return g.build({by_jvp ? ops::custom_jvp_call(plain(), jvp_rule(factor), x)[0]
                             : ops::custom_vjp_call(plain(), forward_rule(), backward_rule(factor), x)[0]});
    };
    Tensors in = inputs_of(alone(1.0), 3);
    Random random(4);
    in.push_back(check::random_tensor(random, v3));
    for (const auto& derive : {tangents_of, gradients_of}) {
      const Tensors once = run(derive(alone(1.0), {"x"}), in), thrice = run(derive(alone(3.0), {"x"}), in);
      for (std::int64_t i = 0; i < 3; ++i) CHECK(near(3.0 * once[0].at(i), thrice[0].at(i)));
    }
  }
}

TEST_CASE("custom_vjp_call: a backward that is not linear is used as it is; forward mode takes the graph") {
  check_same(jvp(with_vjp(1.0, true)), jvp(with_plain()), 5);
  GraphBuilder g("alone");
  const std::vector<Value> x{g.input("x", v3), g.input("n", i64), g.input("z", v3)};
  const Graph alone =
      g.build({ops::custom_vjp_call(plain(), forward_rule(), backward_rule(1.0, true), x)[0]});
  Tensors in = inputs_of(alone, 3);
  in.push_back(vector({5.0, -5.0, 0.01}));
  const Tensor clipped = run(gradients_of(alone, {"x"}), in)[0];
  const Tensor exact = run(gradients_of(with_outputs(plain(), std::vector<std::size_t>{0}), {"x"}), in)[0];
  for (std::int64_t i = 0; i < 3; ++i)
    CHECK(clipped.at(i).real() == doctest::Approx(std::clamp(exact.at(i).real(), -0.1, 0.1)));
  // At second order the clipped elements have no derivative, as in the backward graph.
  const Tensors second =
      run(gradients_of(with_outputs(gradients_of(alone, {"x"}), std::vector<std::size_t>{0}), {"x"}), [&] {
        Tensors all = in;
        all.push_back(vector({1.0, 1.0, 1.0}));
        return all;
      }());
  for (std::int64_t i = 0; i < 3; ++i)
    CHECK((second[0].at(i).real() == 0.0) == (std::abs(exact.at(i).real()) > 0.1));
}

TEST_CASE("custom rules: the linear graph of a custom_vjp_call holds its backward, and keeps its residuals") {
  const Linearization lin = linearize(with_vjp(1.0), {.wrt = std::vector<std::size_t>{2}});
  CHECK(count(lin.linear, "linear_call") == 1);
  CHECK(count(lin.augmented, "custom_vjp_call") == 1);
  const Transposition transposed = linear_transpose(lin.linear);
  CHECK(count(transposed.graph, "linear_call") == 1);
  CHECK(count(linear_transpose(transposed.graph).graph, "linear_call") == 1);
  // By z alone only x is read by the rule.
  for (std::size_t i = 0; i < lin.linear.num_operations(); ++i) {
    if (lin.linear.operation(i).name() == "linear_call") CHECK(lin.linear.operation(i).num_inputs() == 2);
  }
}

TEST_CASE("custom_vjp_call: graphs that a backward holds in many places are transposed once each") {
  // (a, t) -> (sin a, t cos(a) / 2), 2^depth times one after the other.
  const auto backward = [](int depth) {
    GraphBuilder w("wave", standard_primitives());
    const Value a = w.input("a", f64), t = w.input("t", f64);
    Graph graph = w.build({ops::sin(a), ops::full_like(a, 0.5) * ops::cos(a) * t});
    for (int i = 0; i < depth; ++i) {
      GraphBuilder twice(detail::str("twice.", i), standard_primitives());
      const Values once = ops::call(graph, std::vector{twice.input("a", f64), twice.input("t", f64)});
      const Values results = ops::call(graph, std::vector{once[0], once[1]});
      graph = twice.build({results[0], results[1]});
    }
    return with_outputs(graph, std::vector<std::size_t>{1});
  };
  const auto ruled = [&](int depth) {
    GraphBuilder w("forward"), g("f");
    const Value x = w.input("x", f64);
    const Graph sine = of_x(f64, [](Value v) { return ops::sin(v); });
    return g.build({ops::custom_vjp_call(sine, w.build({ops::sin(x), x}), backward(depth),
                                         std::vector{g.input("x", f64)})[0]});
  };
  const Tensors at{Tensor::scalar(f64, 0.7), Tensor::scalar(f64, 1.5)};
  for (const int depth : {0, 1, 3}) {
    const Tensor expected = run(backward(depth), at)[0];
    CHECK(near(run(jvp(ruled(depth)), at).at(1), expected));
    CHECK(near(run(vjp(ruled(depth)), at).at(1), expected));
  }
  for (const Graph& derivative : {jvp(ruled(40)), grad(ruled(40))}) CHECK(derivative.num_operations() < 100);
  // A result without readers need not be linear.
  GraphBuilder i("inner", standard_primitives()), b("backward"), w("forward"), g("f");
  const Value r = i.input("r", f64), t = i.input("t", f64), x = w.input("x", f64);
  const Graph inner = i.build({r * t, ops::gt(t, r)});
  const Graph product = b.build({ops::call(inner, std::vector{b.input("r", f64), b.input("t", f64)})[0]});
  const Graph sine = of_x(f64, [](Value v) { return ops::sin(v); });
  const Graph f = g.build(
      {ops::custom_vjp_call(sine, w.build({ops::sin(x), x}), product, std::vector{g.input("x", f64)})[0]});
  CHECK(near(run(jvp(f), at).at(1), Tensor::scalar(f64, 0.7 * 1.5)));
}

// The error of a custom_jvp_call with such a rule of x and its tangent.
std::string refused(const std::function<std::vector<Value>(Value, Value)>& outputs) {
  GraphBuilder g("f"), r("bent");
  const Value x = g.input("x", v3);
  const Graph sine = of_x(v3, [](Value v) { return ops::sin(v); });
  const Value a = r.input("x", v3), da = r.input("dx", v3);
  const Graph rule = r.build(outputs(a, da));
  const Graph graph = g.build({ops::custom_jvp_call(sine, rule, std::vector{x})[0]});
  return message_of([&] {
    try {
      jvp(graph);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::ad_rule);
      throw;
    }
  });
}

TEST_CASE("custom_jvp_call: constant operands take no operations, and rules are held to be linear") {
  const Graph f = with_jvp(1.0);
  const Linearization one = linearize(f, {.wrt = std::vector<std::size_t>{0}});
  const Linearization two = linearize(f, {.wrt = std::vector<std::size_t>{0, 2}});
  CHECK(one.linear.num_operations() < two.linear.num_operations());
  CHECK(count(one.linear, "mul") + 2 <= count(two.linear, "mul"));

  CHECK(
      mentions(refused([](Value a, Value da) {
                 return std::vector{ops::sin(a), da * da};
               }),
               "expected graph jvp (\"bent\") to be linear in its tangents, got mul of them in operation 1"));
  CHECK(mentions(
      refused([](Value a, Value da) {
        return std::vector{a * da, da};
      }),
      "expected output 0 of graph jvp (\"bent\"), which is output 0 of graph, not to depend on tangents"));
  CHECK(mentions(refused([](Value a, Value da) {
                   return std::vector{ops::sin(a), da + a};
                 }),
                 "linear in the tangents, got add of a tangent and of operand 1"));
  CHECK(mentions(
      refused([](Value a, Value) {
        return std::vector{ops::sin(a), ops::cos(a)};
      }),
      "expected output 1 of graph jvp (\"bent\"), a tangent, to depend on tangents or to be made of zeros"));
  CHECK(refused([](Value a, Value) {
          return std::vector{ops::sin(a), ops::full_like(a, 0.0)};
        }) == "no error");
}

TEST_CASE("custom rules: sums in graphs that operations hold are held to be linear too") {
  // t + c, which is affine but where c is zero.
  GraphBuilder s("sum", standard_primitives()), k("kept", standard_primitives());
  const Value c = s.input("c", v3), t = s.input("t", v3), other = k.input("c", v3);
  (void)other;
  const Graph sum = s.build({c + t}), kept = k.build({k.input("t", v3)});
  GraphBuilder l("until", standard_primitives()), u("looped", standard_primitives());
  (void)l.input("c", v3);
  (void)l.input("t", v3);
  const Graph until = l.build({ops::lt(l.input("n", i32), ops::full(l, Type(i32), 2.0))});
  const Value uc = u.input("c", v3), ut = u.input("t", v3), un = u.input("n", i32);
  const Graph both = u.build({ut + uc, un + ops::full_like(un, 1)});
  const auto number = [](Value a, bool zero) { return ops::full_like(a, zero ? 0.0 : 2.0); };
  const std::vector<std::pair<std::string, std::function<Value(Value, Value, bool)>>> holders{
      {"of a const",
       [&](Value a, Value da, bool zero) {
         return ops::scan(sum, std::vector{number(a, zero), da}, {3, false, 1, 1})[0];
       }},
      {"of what a carry begins with",
       [&](Value a, Value da, bool zero) {
         return ops::scan(sum, std::vector{da, number(a, zero)}, {3, false, 1, 1})[0];
       }},
      {"in a branch",
       [&](Value a, Value da, bool zero) {
         const Value which = ops::gt(ops::reduce_sum(a, {0}), ops::full(*a.emitter(), Type(f64), 0.0));
         return ops::cond(which, std::vector{kept, sum}, std::vector{number(a, zero), da})[0];
       }},
      {"in a loop",
       [&](Value a, Value da, bool zero) {
         const Value n = ops::full(*a.emitter(), Type(i32), 0.0);
         return ops::while_loop(until, both, std::vector{number(a, zero), da, n}, {1, 4})[0];
       }},
      {"in a call in a scan", [&](Value a, Value da, bool zero) {
         GraphBuilder b("step", standard_primitives());
         const Value x = b.input("c", v3), y = b.input("t", v3);
         const Graph step = b.build({ops::call(sum, std::vector{x, y})[0]});
         return ops::scan(step, std::vector{number(a, zero), da}, {3, false, 1, 1})[0];
       }}};
  for (const auto& holder : holders) {
    const std::string& name = holder.first;
    const auto& held = holder.second;
    CAPTURE(name);
    const std::string message = refused([&](Value a, Value da) {
      return std::vector{ops::sin(a), held(a, da, false)};
    });
    CHECK_MESSAGE(mentions(message, "got a sum of one and of what neither depends on tangents"), message);
    CHECK_MESSAGE(mentions(message, "add in operation "), message);
    CHECK(refused([&](Value a, Value da) {
            return std::vector{ops::sin(a), held(a, da, true)};
          }) == "no error");
    // As a backward it is taken as it is, and forward mode is that of the graph.
    GraphBuilder f("f"), r("backward"), w("forward");
    const Graph sine = of_x(v3, [](Value v) { return ops::sin(v); });
    const Value x = w.input("x", v3), residual = r.input("x", v3), ct = r.input("ct", v3);
    const Graph forward = w.build({ops::sin(x), x}), backward = r.build({held(residual, ct, false)});
    const Graph ruled =
        f.build({ops::custom_vjp_call(sine, forward, backward, std::vector{f.input("x", v3)})[0]});
    const Tensor at = vector({0.5, 1.0, 2.0}), one = vector({1.0, 0.0, -1.0});
    CHECK(near(run(jvp(ruled), {at, one}).at(1), run(jvp(sine), {at, one}).at(1)));
    CHECK(near(run(vjp(ruled), {at, one}).at(1), run(backward, {at, one}).at(0)));
  }
}

TEST_CASE(
    "custom_jvp_call: a tangent is zero where the rule passes the tangent of a constant through graphs") {
  // The padding is a residual of the linear graphs, which do not know that it is zero.
  GraphBuilder g("padded");
  const Value a = g.input("a", v3);
  const Graph padded = g.build({ops::pad(a, ops::full(g, Type(f64), 0.0), {{1, 1, 0}})});
  GraphBuilder h("both");
  const Value x = h.input("x", v3), y = h.input("y", v3);
  const Graph inner = h.build({ops::sin(x) * x, ops::call(padded, std::array{y})[0]});
  for (const bool linear_calls : {false, true}) {
    GraphBuilder o("outer");
    const Value p = o.input("p", v3), q = o.input("q", v3);
    Graph held = inner;
    if (linear_calls) {
      GraphBuilder k("held");
      const Value s = k.input("s", v3), t = k.input("t", v3);
      held = k.build(ops::custom_vjp_call(inner, forward_of(inner), gradients_of(inner), std::array{s, t}));
    }
    const Values results = ops::custom_jvp_call(held, jvp(held), std::array{p, ops::stop_gradient(q)});
    const Graph f = o.build({results[1], results[0]});
    const Tensors at{vector({0.5, 1.0, 2.0}), vector({3.0, 4.0, 5.0})};
    Tensors with = at;
    with.push_back(vector({1, 2, 3, 4, 5}));
    with.push_back(vector({1, 1, 1}));
    const Tensors gradient = run(gradients_of(f), with);
    CHECK(near(gradient[0].at(1), std::cos(1.0) + std::sin(1.0)));
    CHECK(near(gradient[1].at(1), 0.0));
  }
}

TEST_CASE("custom rules: signatures that do not fit are refused by graph and position") {
  GraphBuilder g("f");
  const Value x = g.input("x", v3);
  const Graph sine = of_x(v3, [](Value v) { return ops::sin(v); });
  const Graph wrong = of_xy(v3, Type(f32, {3}), [](Value a, Value b) { return Values{a, b}; });
  const Graph single = of_x(Type(f32, {3}), [](Value v) { return v; });
  const Graph short_one = of_xy(v3, v3, [](Value a, Value) { return Values{ops::sin(a)}; });
  CHECK(message_of([&] { ops::custom_jvp_call(sine, wrong, std::vector{x}); })
            .find("[custom_jvp_call] expected f64[3] for input 1 of graph jvp (\"f\"), the tangent of input "
                  "0, got f32[3]") == 0);
  CHECK(mentions(message_of([&] { ops::custom_jvp_call(sine, short_one, std::vector{x}); }),
                 "[custom_jvp_call] expected 2 outputs of graph jvp (\"f\"), got 1"));
  CHECK(mentions(message_of([&] { ops::custom_vjp_call(sine, sine, single, std::vector{x}); }),
                 "[custom_vjp_call] expected f64[3] for input 0 of graph backward (\"f\"), the cotangent of "
                 "output 0, got f32[3]"));
  CHECK(mentions(message_of([&] { ops::custom_vjp_call(sine, sine, sine, std::vector{x}); }), "no error"));
  CHECK(mentions(message_of([&] { ops::custom_vjp_call(sine, short_one, sine, std::vector{x}); }),
                 "[custom_vjp_call] expected 1 inputs of graph forward (\"f\"), got 2"));
  CHECK(mentions(message_of([&] { ops::linear_call(sine, sine, 2, std::vector{x}); }),
                 "[linear_call] expected num_residuals from 0 to 1, got 2"));
  CHECK(mentions(message_of([&] { ops::checkpoint(sine, std::vector{x}, CheckpointPolicy::save({7})); }),
                 "[checkpoint] expected policy to list values of graph \"f\", 0 to 2 exclusive, got 7"));
  CHECK(mentions(message_of([&] {
                   ops::checkpoint(sine, std::vector{x}, CheckpointPolicy::save({1, 1}));
                 }),
                 "expected policy to list each value once, got 1 twice"));
}

TEST_CASE("custom rules: batched over any inputs as a loop would, and differentiated afterwards") {
  const std::int64_t size = 4;
  for (const Graph& f : {with_jvp(1.0), with_vjp(1.0)}) {
    for (const Names& batched : {Names{"x", "z"}, Names{"x"}, Names{"z"}, Names{"n"}}) {
      CAPTURE(batched);
      check_same(vmap(f, size, batched), vmap(with_plain(), size, batched), 9);
      check_same(vjp(vmap(f, size, batched)), vjp(vmap(with_plain(), size, batched)), 10);
      check_same(jvp(vmap(f, size, batched)), jvp(vmap(with_plain(), size, batched)), 11);
      check_same(vmap(vjp(f), size, batched), vmap(vjp(with_plain()), size, batched), 12);
    }
  }
}

TEST_CASE("custom_vjp_call: batched, residuals that are the same for all examples are not copied") {
  const auto residuals = [](const Graph& f) {
    std::vector<Type> types;
    for (std::size_t i = 0; i < f.num_operations(); ++i) {
      if (f.operation(i).name() != "custom_vjp_call") continue;
      const Graph forward = f.operation(i).op().graph("forward");
      for (const ValueId id : forward.outputs().subspan(3)) types.push_back(forward.type(id));
    }
    return types;
  };
  const Type rows{f64, {4, 3}};
  // slope, x and z, which the rule keeps, of x, n and z.
  CHECK(residuals(vmap(with_vjp(1.0), 4, {"z"})) == std::vector<Type>{v3, v3, rows});
  CHECK(residuals(vmap(with_vjp(1.0), 4, {"n"})) == std::vector<Type>{rows, v3, v3});
  CHECK(residuals(vmap(with_vjp(1.0), 4, {"x"})) == std::vector<Type>{rows, rows, v3});
  // With a rule that is not linear, too.
  for (const Names& batched : {Names{"x"}, Names{"z"}, Names{"n"}}) {
    const Graph f = vmap(with_vjp(1.0, true), 4, batched),
                all = vmap(with_vjp(1.0, true), 4, {"x", "n", "z"});
    const auto mapped = [&](const std::string& name) {
      return std::find(batched.begin(), batched.end(), name) != batched.end();
    };
    // As with every input copied, and gradients summed.
    GraphBuilder g("copied");
    std::vector<Value> operands;
    for (std::size_t i = 0; i < 3; ++i) {
      const Value x = g.input(f.input_name(i), f.type(f.inputs()[i]));
      const Type type = all.type(all.inputs()[i]);
      Ints places;
      for (std::size_t axis = 0; axis < x.rank(); ++axis)
        places.push_back(static_cast<std::int64_t>(axis) + 1);
      operands.push_back(mapped(f.input_name(i)) ? x : ops::broadcast_in_dim(x, type.shape(), places));
    }
    const std::vector<Value> values = inline_graph(g, all, operands);
    const Graph copied = g.build({values[all.outputs()[0]], values[all.outputs()[1]]});
    check_same(f, copied, 13);
    check_same(vjp(f), vjp(copied), 14);
  }
}

TEST_CASE("custom rules: dumps load and give the same bytes, policies by the ids of the dump") {
  DerivativeOptions named;
  named.named_inputs = true;
  for (const Graph& f :
       {with_jvp(2.0), with_vjp(2.0), with_vjp(1.0, true), layers(2, 3, CheckpointPolicy::nothing()),
        layers(2, 3, CheckpointPolicy::save({5, 3}))}) {
    for (const Graph& graph : {f, vjp(f, {}, named), jvp(vjp(f, {"x"}, named), {"x"}, named)}) {
      const std::string text = to_json(graph);
      const Graph loaded = graph_from_json(text);
      CHECK(to_json(loaded) == text);
      CHECK(structurally_equal(loaded, graph));
    }
  }
  // An inner graph whose ids are in another order: 0 is its result.
  const std::string_view head = R"({"format": "tidu.graph", "version": 1, "name": "f", "values": [
 {"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []}], "inputs": [0], "operations": [
 {"op": "checkpoint", "inputs": [0], "outputs": [1], "attrs": {"graph": {"format": "tidu.graph", "version": 1, "name": "g", "values": [{"id": 0, "dtype": "f64", "shape": []}, {"id": 1, "dtype": "f64", "shape": []}, {"id": 2, "dtype": "f64", "shape": [], "name": "a"}], "inputs": [2], "operations": [{"op": "sin", "inputs": [2], "outputs": [1]}, {"op": "exp", "inputs": [1], "outputs": [0]}], "outputs": [0]}, "policy": )";
  const std::string tail = "}}], \"outputs\": [1]}";
  const Graph loaded = graph_from_json(std::string(head) + "[1]" + tail);
  CHECK(loaded.operation(0).op().attribute("policy") == Attribute(Ints{1}));
  CHECK(graph_from_json(std::string(head) + "[0]" + tail).operation(0).op().attribute("policy") ==
        Attribute(Ints{2}));
  CHECK(to_json(graph_from_json(to_json(loaded))) == to_json(loaded));
  for (const char* policy : {"[3]", "[-1]", "[1, 1]", "\"some\"", "1.5", "[0.5]", "null", "{}"}) {
    CAPTURE(policy);
    const auto result = try_graph_from_json(std::string(head) + policy + tail);
    REQUIRE(!result);
    CHECK(mentions(result.error().what(), "policy"));
  }
}

}  // namespace
}  // namespace tidu::test::custom_calls
