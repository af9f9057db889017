// dependence.cpp - dependence through operations that hold graphs, result by result: values and tangents that
// pass through one loop, branch or call together, and batches of some of these.
#include "check/same_function.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

namespace dependence_cases {

const Type v3{f64, {3}};
const std::vector<std::string> holders{"cond", "call", "checkpoint", "scan", "while"};

// For y, and for dy if there is one: sin y and its tangent, or the same again.
Graph wave(std::size_t count, bool changes) {
  GraphBuilder g(changes ? "wave" : "same", standard_primitives());
  const Value y = g.input("y", v3);
  std::vector<Value> outputs{changes ? ops::sin(y) : y};
  if (count == 2) {
    const Value dy = g.input("dy", v3);
    outputs.push_back(changes ? ops::cos(y) * dy : dy);
  }
  return g.build(outputs);
}

// n, then these: n counted up, then the outputs of the graph; while n is less than 2.
Graph counting(const Graph& graph) {
  GraphBuilder g("counting", standard_primitives());
  const Value n = g.input("n", i32);
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) inputs.push_back(g.input(graph.input_name(i), v3));
  const std::vector<Value> values = inline_graph(g, graph, inputs);
  std::vector<Value> outputs{n + ops::full_like(n, 1)};
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return g.build(outputs);
}
Graph below(std::size_t count, int steps) {
  GraphBuilder g("below", standard_primitives());
  const Value n = g.input("n", i32);
  for (std::size_t i = 0; i < count; ++i) (void)g.input(detail::str('x', i), v3);
  return g.build({ops::lt(n, ops::full_like(n, steps))});
}

std::vector<Value> held(const std::string& how, Value p, const std::vector<Value>& x) {
  const Graph inner = wave(x.size(), true);
  Values results;
  if (how == "cond") results = ops::cond(p, std::vector{wave(x.size(), false), inner}, x);
  if (how == "call") results = ops::call(inner, x);
  if (how == "checkpoint") results = ops::checkpoint(inner, x);
  if (how == "scan") results = ops::scan(inner, x, {2, false, 0, x.size()});
  if (how != "while") return {results.begin(), results.end()};
  std::vector<Value> operands{ops::full(*p.emitter(), Type(i32), 0.0)};
  operands.insert(operands.end(), x.begin(), x.end());
  results = ops::while_loop(below(x.size(), 2), counting(inner), operands, {0, 3});
  return {results.begin() + 1, results.end()};
}

// Three such steps in a scan, a while with a bound, or a cond.
Graph looped(const std::string& how, const std::string& outer, std::size_t count) {
  GraphBuilder s("step", standard_primitives()), g(outer, standard_primitives());
  const Value p = s.input("p", bool_);
  std::vector<Value> inside, x;
  for (std::size_t i = 0; i < count; ++i) inside.push_back(s.input(detail::str('x', i), v3));
  std::vector<Value> next = held(how, p, inside);
  // Read again: exp(sin y), and its tangent.
  next[0] = ops::exp(ops::sin(next[0]));
  if (count == 2) next[1] = next[0] * (ops::cos(held(how, p, inside)[0]) * next[1]);
  const Graph step = s.build(next);
  const Value flag = g.input("p", bool_);
  for (std::size_t i = 0; i < count; ++i) x.push_back(g.input(detail::str('x', i), v3));
  std::vector<Value> operands{flag};
  operands.insert(operands.end(), x.begin(), x.end());
  if (outer == "scan") {
    const Values results = ops::scan(step, operands, {3, false, 1, count});
    return g.build(std::span<const Value>(results.data(), results.size()));
  }
  if (outer == "cond") {
    const Values results = ops::cond(flag, std::vector{step, step}, operands);
    return g.build(std::span<const Value>(results.data(), results.size()));
  }
  // p is a const, then n and the others.
  GraphBuilder b("body", standard_primitives()), c("cond", standard_primitives());
  std::vector<Value> in_body{b.input("p", bool_)};
  (void)c.input("p", bool_);
  const Value n = b.input("n", i32), at = c.input("n", i32);
  for (std::size_t i = 0; i < count; ++i) {
    in_body.push_back(b.input(detail::str('x', i), v3));
    (void)c.input(detail::str('x', i), v3);
  }
  const std::vector<Value> values = inline_graph(b, step, in_body);
  std::vector<Value> outputs{n + ops::full_like(n, 1)};
  for (const ValueId id : step.outputs()) outputs.push_back(values[id]);
  operands.insert(operands.begin() + 1, ops::full(g, Type(i32), 0.0));
  const Values results =
      ops::while_loop(c.build({ops::lt(at, ops::full_like(at, 3))}), b.build(outputs), operands, {1, 4});
  return g.build({results.begin() + 1, results.end()});
}

Graph closed_over(const Graph& f, const std::function<Values(std::span<const Value>)>& call) {
  GraphBuilder g("f");
  std::vector<Value> operands;
  for (std::size_t i = 0; i < f.inputs().size(); ++i)
    operands.push_back(g.input(f.input_name(i), f.type(f.inputs()[i])));
  const Value y = call(operands)[0];
  return g.build({ops::reduce_sum(y * y, {0})});
}

TEST_CASE("values and tangents through one operation in a custom rule: values depend on values alone") {
  for (const std::string outer : {"scan", "while", "cond"}) {
    for (const std::string& how : holders) {
      CAPTURE(outer);
      CAPTURE(how);
      const Graph f = looped(how, outer, 1), rule = looped(how, outer, 2);
      const Graph ruled =
          closed_over(f, [&](std::span<const Value> x) { return ops::custom_jvp_call(f, rule, x); });
      const Graph plain = closed_over(f, [&](std::span<const Value> x) { return ops::call(f, x); });
      for (const std::int64_t p : {0, 1}) {
        const auto same = [p](const Graph& got, const Graph& expected) {
          same_function(got, expected, inputs_for(got, 3, p));
        };
        same(jvp(ruled), jvp(plain));
        same(grad(ruled), grad(plain));
        same(hvp(ruled), hvp(plain));
        same(jvp(jvp(ruled)), jvp(jvp(plain)));
        same(vmap(grad(ruled), 2, {"x0"}), vmap(grad(plain), 2, {"x0"}));
        same(
            grad(closed_over(vmap(ruled, 3, {"x0"}),
                             [&](std::span<const Value> x) { return ops::call(vmap(ruled, 3, {"x0"}), x); })),
            grad(closed_over(vmap(plain, 3, {"x0"}), [&](std::span<const Value> x) {
              return ops::call(vmap(plain, 3, {"x0"}), x);
            })));
      }
    }
  }
}

TEST_CASE("a condition may read values of operations that make tangents too") {
  // y -> sin y, or (y, dy) -> (sin y, cos(y) dy), while sin(y) . sin(y) is more than 0.9.
  const auto loop = [](const std::string& how, std::size_t count) {
    const auto inputs = [count](GraphBuilder& g) {
      std::vector<Value> x;
      for (std::size_t i = 0; i < count; ++i) x.push_back(g.input(detail::str('x', i), v3));
      return x;
    };
    const auto made = [&](const std::vector<Value>& x) {
      return how == "call" ? ops::call(wave(count, true), x) : ops::checkpoint(wave(count, true), x);
    };
    GraphBuilder c("cond", standard_primitives()), b("body", standard_primitives()), g("f");
    const Value y = made(inputs(c))[0];
    const Value size = ops::reduce_sum(y * y, {0});
    const Graph cond = c.build({ops::gt(size, ops::full_like(size, 0.9))});
    const Values next = made(inputs(b));
    const Graph body = b.build(std::span<const Value>(next.data(), next.size()));
    const Values results = ops::while_loop(cond, body, inputs(g), {0, 6});
    return g.build(std::span<const Value>(results.data(), results.size()));
  };
  for (const std::string how : {"call", "checkpoint"}) {
    CAPTURE(how);
    const Graph f = loop(how, 1), rule = loop(how, 2);
    const Graph ruled =
        closed_over(f, [&](std::span<const Value> x) { return ops::custom_jvp_call(f, rule, x); });
    const Graph plain = closed_over(f, [&](std::span<const Value> x) { return ops::call(f, x); });
    for (const double by : {0.1, 1.0, 1.4}) {  // no step, some, all that the bound allows
      const Tensor at = check::tensor_of(v3, {by, 0.9 * by, by});
      const Tensor along = check::tensor_of(v3, {1.0, -2.0, 0.5});
      same_function(grad(ruled), grad(plain), {at});
      same_function(hvp(ruled), hvp(plain), {at, along});
    }
    same_function(vmap(grad(ruled), 2), vmap(grad(plain), 2));
  }
}

TEST_CASE("batches of tangents leave the values that go through the same operation alone") {
  for (const std::string outer : {"scan", "while"}) {
    for (const std::string& how : holders) {
      CAPTURE(outer);
      CAPTURE(how);
      const Graph f = looped(how, outer, 2), mapped = vmap(f, 5, {"x1"});
      same_function(mapped, vmap(with_control_flow_unrolled(f), 5, {"x1"}));
      const std::vector<Operation> loops = operations_of(mapped, outer);
      REQUIRE(loops.size() == 1);
      const Graph body = loops[0].op().graph("body");
      CHECK(body.type(body.outputs()[outer == "while" ? 1 : 0]) == v3);
      CHECK(body.type(body.outputs()[outer == "while" ? 2 : 1]) == Type(f64, {5, 3}));
    }
  }
  // A condition that does not depend on batched values is one for all.
  GraphBuilder b("body"), c("cond"), w("both"), g("f");
  const Value wn = w.input("n", i32), wx = w.input("x", v3);
  const Graph both = w.build({wn + ops::full_like(wn, 1), ops::sin(wx)});
  const Value n = b.input("n", i32), x = b.input("x", v3), at = c.input("n", i32), beside = c.input("x", v3);
  const Values stepped = ops::call(both, std::vector{n, x}), next = ops::call(both, std::vector{at, beside});
  const Graph body = b.build({stepped[0], stepped[1]}),
              cond = c.build({ops::lt(next[0], ops::full_like(at, 4))});
  const Values results = ops::while_loop(cond, body, std::vector{g.input("n", i32), g.input("x", v3)});
  const Graph f = g.build({results[0], results[1]}), mapped = vmap(f, 2, {"x"});
  const Tensor rows = check::tensor_of(Type(f64, {2, 3}), {1, 2, 3, 4, 5, 6});
  const Tensors got = run(mapped, {Tensor::scalar(i32, 1), rows});
  for (std::int64_t i = 0; i < 6; ++i) CHECK(near(got.at(1).at(i), std::sin(std::sin(rows.at(i).real()))));
  CHECK(operations_of(mapped, "while")[0].num_outputs() == 2);  // none for who goes on
}

TEST_CASE("equal operations in an inner graph may have an operand of which only one has a reader") {
  // (a, b, c) -> (sin a, cos b, exp c): one time a and b are read, the other a alone.
  GraphBuilder t("three", standard_primitives()), k("pair", standard_primitives()), g("f");
  const Value a = t.input("a", v3), b = t.input("b", v3), c = t.input("c", v3);
  const Graph three = t.build({ops::sin(a), ops::cos(b), ops::exp(c)});
  const Value y = k.input("y", v3), d = k.input("d", v3);
  const Values first = ops::call(three, std::vector{y, y + y, d}),
               second = ops::call(three, std::vector{ops::tanh(y), d, y});
  const Graph pair = k.build({first[0] * first[1] + second[0], first[2] + second[1]});
  GraphBuilder s("step", standard_primitives());
  const Values in_step = ops::call(pair, std::vector{s.input("y", v3), s.input("d", v3)});
  const Values results = ops::scan(s.build({in_step[0], in_step[1]}),
                                   std::vector{g.input("y", v3), g.input("d", v3)}, {3, false, 0, 2});
  const Graph f = g.build({results[0], results[1]}), written = with_control_flow_unrolled(f);
  for (const Names& batched : {Names{"d"}, Names{"y"}, Names{}})
    same_function(vmap(f, 2, batched), vmap(written, 2, batched));
  same_function(vjp(f, {"d"}), vjp(written, {"d"}));
}

TEST_CASE("values that no batched operand reaches are unchanged after an operation that holds graphs") {
  std::vector<std::pair<std::string, Graph>> inner;
  for (const std::string outer : {"scan", "while", "cond"})
    inner.emplace_back(outer, looped("cond", outer, 2));
  for (const auto& each : inner) {
    for (const std::string& how :
         {each.first, std::string("call"), std::string("checkpoint"), std::string("listed")}) {
      CAPTURE(each.first);
      CAPTURE(how);
      const Graph held = each.second;
      GraphBuilder g("f");
      std::vector<Value> x;
      for (const ValueId id : held.inputs()) x.push_back(g.input(held.label(id), held.type(id)));
      std::vector<Value> results;
      if (how == each.first) {
        const std::vector<Value> values = inline_graph(g, held, x);
        for (const ValueId id : held.outputs()) results.push_back(values[id]);
      } else {
        const Values of_held = how == "call" ? ops::call(held, x)
                               : how == "checkpoint"
                                   ? ops::checkpoint(held, x)
                                   : ops::checkpoint(held, x, CheckpointPolicy::save({held.outputs()[0]}));
        results.assign(of_held.begin(), of_held.end());
      }
      const Graph f = g.build({ops::exp(results[0]) * results[1], ops::tanh(results[0]), results[0]});
      const Graph mapped = vmap(f, 4, {"x1"}), alone = vmap(f, 4, {"p"});
      REQUIRE(operations_of(mapped, "exp").size() == 1);
      CHECK(mapped.type(operations_of(mapped, "exp")[0].output()) == v3);
      CHECK(mapped.type(operations_of(mapped, "tanh")[0].output()) == v3);
      CHECK(alone.type(operations_of(alone, "exp")[0].output()) == Type(f64, {4, 3}));
      const Graph written = with_control_flow_unrolled(f);
      for (const Names& batched : {Names{"x1"}, Names{"x0"}, Names{"p"}, Names{}}) {
        same_function(vmap(f, 4, batched), vmap(written, 4, batched));
        same_function(vjp(vmap(f, 4, batched)), vjp(vmap(written, 4, batched)));
        same_function(vmap(vjp(f), 4, batched), vmap(vjp(written), 4, batched));
        same_function(vmap(vmap(jvp(f), 2, batched), 3, {"x1"}),
                      vmap(vmap(jvp(written), 2, batched), 3, {"x1"}));
      }
    }
  }
  // A branch whose result is one for all, beside one whose is not.
  const Graph same = wave(2, false);
  GraphBuilder t("turned", standard_primitives()), g("f");
  const Value a = t.input("y", v3), b = t.input("dy", v3), p = g.input("p", bool_);
  const Graph turned = t.build({b, a});
  const Values results =
      ops::cond(p, std::vector{same, turned}, std::vector{g.input("x", v3), g.input("y", v3)});
  const Graph f = g.build({results[0], results[1]});
  for (const Names& batched : {Names{"x"}, Names{"y"}, Names{"p"}, Names{}}) {
    for (const std::int64_t first : {0, 1}) {
      const Graph mapped = vmap(f, 2, batched), written = vmap(with_control_flow_unrolled(f), 2, batched);
      same_function(mapped, written, inputs_for(mapped, 5, first));
    }
  }
}

TEST_CASE("an operand that was not given is refused, not taken for another") {
  const Graph f = wave(2, true);
  GraphBuilder g("g");
  const Value y = g.input("y", v3);
  try {
    (void)inline_graph(g, f, std::vector<Value>{y, Value()});
    FAIL_CHECK("no error");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(error.kind() == ErrorKind::invalid_argument);
    CHECK_MESSAGE(
        text.find("[mul] expected a value for operand 1 (%2), got an unset one") != std::string::npos, text);
    CHECK_MESSAGE(text.find("in operation 2 of \"wave\"") != std::string::npos, text);
  }
}

}  // namespace dependence_cases
}  // namespace
