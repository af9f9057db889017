// conditionals.cpp - cond beyond the table of primitives: derivatives and batches compared with selecting
// between all branches, the set of residuals, nesting, strong zeros, dumps, errors.
#include <algorithm>
#include <limits>

#include "check/same_function.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/dot.hpp"
#include "tidu/graph/html.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/strong_zeros.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

namespace conditional_cases {

const Type v3{f64, {3}};

std::vector<Operation> conds_of(const Graph& graph) { return operations_of(graph, "cond"); }

using Body = std::function<Values(Value a, Value w, Value n)>;
Graph branch(const std::string& name, const Body& body) {
  GraphBuilder b(name, standard_primitives());
  const Value a = b.input("a", v3), w = b.input("w", v3), n = b.input("n", i32);
  const Values results = body(a, w, n);
  return b.build(std::span<const Value>(results.data(), results.size()));
}

// Of a and w, active or not, and n: the second result depends on a in the first branch alone, the last is an
// integer; residuals are operands, results, constants, or neither.
std::vector<Graph> branches() {
  return {
      branch("sines",
             [](Value a, Value w, Value n) {
               const Value product = ops::sin(a * w);
               return Values{ops::exp(product), a * w, ops::reduce_sum(product, {0}), n};
             }),
      branch(
          "exponentials",
          [](Value a, Value w, Value n) {
            const Value e = ops::exp(a), rows = ops::full_like(a, 2.5);
            return Values{e, w * ops::cos(w), ops::reduce_sum(e * rows * w, {0}), n + ops::full_like(n, 1)};
          }),
      branch("none", [](Value a, Value w, Value n) {
        return Values{ops::full_like(a, 0.5), w, ops::reduce_sum(ops::tanh(ops::tanh(w)), {0}), n};
      })};
}

Graph chosen_of(const std::vector<Graph>& all, DType index) {
  GraphBuilder g("chosen");
  const Value at = g.input("index", Type(index)), a = g.input("a", v3), w = g.input("w", v3),
              n = g.input("n", i32);
  const Values results = ops::cond(at, all, std::vector{a, w, n});
  return g.build(std::span<const Value>(results.data(), results.size()));
}
Graph chosen(DType index) {
  std::vector<Graph> all = branches();
  if (index == bool_) all.pop_back();
  return chosen_of(all, index);
}

const std::vector<std::int64_t> indices{-2, 0, 1, 2, 7};

void same_for_all(const Graph& got, const Graph& expected) {
  verify(got);
  for (const std::int64_t index : indices) {
    CAPTURE(index);
    same_function(got, expected, inputs_for(got, 7, index));
  }
}

TEST_CASE("cond: every derivative is that of all branches inlined") {
  for (const DType index : {bool_, i32}) {
    const Graph f = chosen(index), written = with_control_flow_unrolled(f);
    CAPTURE(index);
    CHECK(conds_of(written).empty());
    same_for_all(f, written);
    for (const Names& wrt : {Names{}, Names{"a"}, Names{"w"}}) {
      same_for_all(jvp(f, wrt), jvp(written, wrt));
      same_for_all(vjp(f, wrt), vjp(written, wrt));
      same_for_all(jvp(vjp(f, wrt), wrt), jvp(vjp(written, wrt), wrt));
      same_for_all(vjp(vjp(f, wrt), wrt), vjp(vjp(written, wrt), wrt));
      same_for_all(vjp(jvp(f, wrt), wrt), vjp(jvp(written, wrt), wrt));
      same_for_all(vjp(jvp(vjp(f, wrt), wrt), wrt), vjp(jvp(vjp(written, wrt), wrt), wrt));
      same_for_all(jacfwd(f, wrt), jacfwd(written, wrt));
      same_for_all(jacrev(f, wrt), jacrev(written, wrt));
    }
    for (const Names& batched : {Names{}, Names{"a"}, Names{"index"}, Names{"index", "a"}, Names{"w", "n"}}) {
      same_for_all(vmap(f, 2, batched), vmap(written, 2, batched));
      same_for_all(vjp(vmap(f, 2, batched)), vjp(vmap(written, 2, batched)));
      same_for_all(vmap(vjp(f), 2, batched), vmap(vjp(written), 2, batched));
      same_for_all(vmap(jvp(vjp(f, {"a"}), {"a"}), 2, batched),
                   vmap(jvp(vjp(written, {"a"}), {"a"}), 2, batched));
      same_for_all(vmap(vmap(f, 2, batched), 3, batched), vmap(vmap(written, 2, batched), 3, batched));
    }
  }
}

TEST_CASE("cond: an index that is the same for all examples keeps the branches apart") {
  CHECK(conds_of(vmap(chosen(i32), 4, {"a", "w"})).size() == 1);
  CHECK(conds_of(vmap(vjp(chosen(i32)), 4, {"a"})).size() == 2);
  const Graph f = vmap(chosen(bool_), 4, {"index"});
  CHECK(conds_of(f).empty());
  CHECK(operations_of(f, "select_n").size() == 4);
}

TEST_CASE("cond: absent tangents stay absent, residuals are shared and kept where they are") {
  const Graph f = chosen(i32);
  CHECK(jvp_parts(f, {"a"}).present == std::vector<bool>{true, true, true});
  const Graph h = chosen_of({branch("w",
                                    [](Value, Value w, Value n) {
                                      return Values{w, w, ops::exp(w), n};
                                    }),
                             branch("n",
                                    [](Value, Value w, Value n) {
                                      return Values{ops::sin(w), w, ops::stop_gradient(w), n};
                                    })},
                            i32);
  CHECK(jvp_parts(h, {"a"}).present == std::vector<bool>(3, false));
  CHECK(jvp_parts(h, {"w"}).present == std::vector<bool>{true, true, true});
  CHECK(conds_of(jvp(h, {"a"})).size() == 1);

  // exp(w) is a result, cos(w) is handed out: one further result; of the tangents and operands, w's alone.
  const Linearization lin = linearize(h, {.wrt = std::vector<std::size_t>{1, 2}});
  const std::vector<Operation> primal = conds_of(lin.augmented), linear = conds_of(lin.linear);
  REQUIRE(primal.size() == 1);
  REQUIRE(linear.size() == 1);
  CHECK(primal[0].num_outputs() == 4 + 1);
  CHECK(linear[0].num_inputs() == 1 + 2 + 1);
  CHECK_FALSE(linear[0].is_linear_in(0));

  // Two branches that need two and one share two; one that reads operands alone is left as it is.
  const Graph two = branch("two", [](Value a, Value w, Value n) {
    return Values{ops::sin(a), ops::cos(w), ops::mul(a, w), n};
  });
  const Graph one = branch("one", [](Value a, Value w, Value n) { return Values{w, a, ops::sin(a), n}; });
  const auto linearized = [](const std::vector<Graph>& all) { return linearize(chosen_of(all, i32)); };
  CHECK(conds_of(linearized({one, two}).augmented)[0].num_outputs() == 4 + 2);
  const Graph products = branch("products", [](Value a, Value w, Value n) {
    return Values{a * w, w, a * a, n};
  });
  CHECK(conds_of(linearized({products, products}).augmented)[0].num_outputs() == 4);
}

TEST_CASE("cond: a linear cond that users make is transposed by its linear operands") {
  const auto linear_branch = [](const std::string& name,
                                const std::function<Values(Value, Value, Value)>& f) {
    GraphBuilder b(name, standard_primitives());
    const Value s = b.input("s", f64), t = b.input("t", v3), u = b.input("u", v3);
    const Values results = f(s, t, u);
    return b.build(std::span<const Value>(results.data(), results.size()));
  };
  const std::vector<Graph> all{linear_branch("scaled",
                                             [](Value s, Value t, Value u) {
                                               return Values{ops::broadcast_scalar(ops::sin(s), {3}) * t, u};
                                             }),
                               linear_branch("summed",
                                             [](Value, Value t, Value u) {
                                               return Values{t + u, ops::full_like(u, 0.0)};
                                             }),
                               linear_branch("zero", [](Value, Value t, Value) {
                                 return Values{ops::full_like(t, 0.0), ops::full_like(t, 0.0)};
                               })};
  GraphBuilder g("linear");
  const std::vector<Value> operands{g.input("s", f64), g.input("t", v3), g.input("u", v3)};
  const Value index = g.input("index", i32);
  const Values results = ops::cond(index, all, operands);
  const Graph linear = g.build({results[0], results[1]});
  for (const std::vector<std::size_t>& inputs :
       {std::vector<std::size_t>{1, 2}, std::vector<std::size_t>{2}}) {
    for (const std::vector<bool>& seeded : {std::vector<bool>{true, true}, std::vector<bool>{false, true}}) {
      TransposeOptions options;
      options.linear_inputs = inputs;
      options.seeded = seeded;
      const Graph transposed = linear_transpose(linear, options).graph;
      if (transposed.outputs().empty()) continue;
      same_for_all(transposed, linear_transpose(with_control_flow_unrolled(linear), options).graph);
      CHECK(conds_of(transposed).size() == 1);
    }
  }
}

// --- nesting

Graph called_in(const Graph& inner, const std::function<Values(const Graph&, std::span<const Value>)>& call) {
  GraphBuilder g("f");
  std::vector<Value> operands;
  for (std::size_t i = 0; i < inner.inputs().size(); ++i)
    operands.push_back(g.input(inner.input_name(i), inner.type(inner.inputs()[i])));
  const Values results = call(inner, operands);
  return g.build({ops::reduce_sum(ops::square(results[0]) * results[1], {0}) + ops::sin(results[2])});
}

void same_derivatives(const Graph& f) {
  const Graph written = with_control_flow_unrolled(f);
  same_for_all(f, written);
  same_for_all(grad(f), grad(written));
  same_for_all(hvp(f), hvp(written));
  same_for_all(vmap(grad(f), 2, {"a"}), vmap(grad(written), 2, {"a"}));
  same_for_all(vmap(grad(f), 2, {"index", "w"}), vmap(grad(written), 2, {"index", "w"}));
  same_for_all(vjp(vmap(f, 2, {"index", "a"})), vjp(vmap(written, 2, {"index", "a"})));
}

TEST_CASE("cond: in calls, checkpoints and conds") {
  const Graph inner = chosen(i32);
  same_derivatives(
      called_in(inner, [](const Graph& g, std::span<const Value> x) { return ops::call(g, x); }));
  same_derivatives(
      called_in(inner, [](const Graph& g, std::span<const Value> x) { return ops::checkpoint(g, x); }));
  same_derivatives(called_in(inner, [](const Graph& g, std::span<const Value> x) {
    return ops::checkpoint(g, x, CheckpointPolicy::save({g.outputs()[0]}));
  }));
  same_derivatives(called_in(
      inner, [](const Graph& g, std::span<const Value> x) { return ops::custom_jvp_call(g, jvp(g), x); }));
  const Graph other = [&inner] {
    GraphBuilder b("other");
    const Value index = b.input("index", i32), a = b.input("a", v3), w = b.input("w", v3),
                n = b.input("n", i32);
    const Values results = ops::checkpoint(inner, std::vector{index, ops::sin(a), a, n});
    return b.build({w * results[0], a, results[2], n + index});
  }();
  same_derivatives(called_in(inner, [&](const Graph& g, std::span<const Value> x) {
    const Value which = ops::gt(ops::reduce_sum(x[1], {0}), ops::full(*x[1].emitter(), Type(f64), 0.0));
    return ops::cond(which, std::vector{g, other}, x);
  }));
}

TEST_CASE("cond: in scans, and scans in conds") {
  // A step chooses by its slice.
  GraphBuilder s("step");
  const Value w = s.input("w", v3), a = s.input("a", v3), n = s.input("n", i32), i = s.input("i", i32);
  const Values of_step = ops::cond(i, branches(), std::vector{a, w, n});
  const Graph body = s.build({ops::tanh(of_step[0]), of_step[3], of_step[1], of_step[2]});
  const auto loop = [&](std::span<const Value> x) {
    const Values results = ops::scan(
        body, std::vector{x[2], x[1], x[3], ops::iota(*x[0].emitter(), Type(i32, {4}), 0)}, {4, false, 1, 2});
    return Values{results[0], ops::reduce_sum(results[2], {0}), ops::reduce_sum(results[3], {0}), results[1]};
  };
  const Graph inner = chosen(i32);
  same_derivatives(called_in(inner, [&](const Graph&, std::span<const Value> x) { return loop(x); }));

  GraphBuilder t("loops");
  std::vector<Value> operands;
  for (std::size_t k = 0; k < 4; ++k)
    operands.push_back(t.input(inner.input_name(k), inner.type(inner.inputs()[k])));
  const Values looped = loop(operands);
  const Graph loops = t.build(std::span<const Value>(looped.data(), looped.size()));
  same_derivatives(called_in(inner, [&](const Graph& g, std::span<const Value> x) {
    return ops::cond(x[0], std::vector{g, loops, g}, x);
  }));
}

TEST_CASE("cond: the branch not taken has no effect on results and gradients") {
  GraphBuilder p("positive", standard_primitives()), o("other", standard_primitives());
  const Graph positive = p.build({ops::sqrt(p.input("x", f64))});
  const Graph other = o.build({ops::neg(o.input("x", f64))});
  GraphBuilder g("f");
  const Value x = g.input("x", f64);
  const Graph f = g.build(
      {ops::cond(ops::gt(x, ops::full_like(x, 0.0)), std::vector{other, positive}, std::vector{x})[0]});
  CHECK(real_number(grad(f), {scalar(0.0)}) == -1.0);
  CHECK(real_number(grad(f), {scalar(4.0)}) == 0.25);
  CHECK(real_number(hvp(f), {scalar(0.0), scalar(1.0)}, 2) == 0.0);
  CHECK(real_number(hvp(f), {scalar(4.0), scalar(1.0)}, 2) == doctest::Approx(-1.0 / 32));
}

TEST_CASE("cond: strong zeros reach into the branches") {
  const auto one = [](const std::string& name, const std::function<Value(Value)>& f) {
    GraphBuilder b(name, standard_primitives());
    return b.build({f(b.input("a", f64))});
  };
  const Graph risky = one("risky", [](Value a) {
    const Value positive = ops::gt(a, ops::full_like(a, 0));
    return ops::select_n(positive, a, a * ops::rsqrt(a));
  });
  const Graph plain = one("plain", [](Value a) { return ops::sin(a); });
  GraphBuilder g("f");
  const Value index = g.input("index", i32);
  const Graph f = g.build({ops::cond(index, std::vector{risky, plain}, std::vector{g.input("a", f64)})[0]});
  const Tensor first = Tensor::scalar(i32, 0), second = Tensor::scalar(i32, 1);
  const Graph strong = grad(f, {}, {.linear_transform = strong_zeros});
  CHECK(std::isnan(real_number(grad(f), {first, scalar(0.0)})));
  CHECK(real_number(strong, {first, scalar(0.0)}) == 1.0);
  CHECK(real_number(strong, {first, scalar(4.0)}) == 0.25);
  CHECK(real_number(strong, {second, scalar(0.0)}) == 1.0);
}

TEST_CASE("cond: dumps load and give the same bytes, pages are made") {
  const DerivativeOptions named{.named_inputs = true};
  const Graph f = chosen(i32);
  for (const Graph& graph :
       {f, vjp(f, {}, named), jvp(vjp(f, {"a"}, named), {"a"}, named), vmap(f, 2, {"a"})}) {
    const std::string text = to_json(graph);
    const Graph loaded = graph_from_json(text);
    CHECK(to_json(loaded) == text);
    CHECK(structurally_equal(loaded, graph));
    verify(loaded);
    CHECK(to_text(graph).find("cond branches=[\"sines\" (") != std::string::npos);
    CHECK(to_dot(graph).find("branches") != std::string::npos);
    CHECK(to_html(graph).find("exponentials") != std::string::npos);
    CHECK(to_text(Program::make(graph)).find("cond") != std::string::npos);
  }
  CHECK(f.structural_key() == chosen(i32).structural_key());
  std::vector<Graph> turned = branches();
  CHECK(f.structural_key() == chosen_of(turned, i32).structural_key());
  std::reverse(turned.begin(), turned.end());
  CHECK_FALSE(f.structural_key() == chosen_of(turned, i32).structural_key());
  CHECK_FALSE(structurally_equal(f, chosen_of(turned, i32)));
  turned.pop_back();
  CHECK_FALSE(structurally_equal(f, chosen_of(turned, i32)));
}

TEST_CASE("cond: signatures that do not fit are refused by branch, operand and output") {
  const std::vector<Graph> all = branches();
  GraphBuilder g("f");
  const Value index = g.input("i", i32), flag = g.input("flag", bool_), a = g.input("a", v3),
              n = g.input("n", i32), many = g.input("many", Type(i32, {2})), x = g.input("x", f64);
  const auto refused = [&](Value at, const std::vector<Graph>& graphs, const std::vector<Value>& operands) {
    try {
      ops::cond(at, graphs, operands);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::type);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto says = [](const std::string& text, std::string_view part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  const std::vector<Value> right{a, a, n};
  CHECK(ops::cond(index, all, right).size() == 4);
  says(refused(index, {}, right), "[cond] expected one branch or more, got none");
  says(refused(flag, all, right), "[cond] expected 2 branches for an index of dtype bool, got 3");
  says(refused(many, all, right),
       "[cond] expected a scalar index of dtype bool or i32 for operand 0, got i32[2]");
  says(refused(x, all, right),
       "[cond] expected a scalar index of dtype bool or i32 for operand 0, got f64[]");
  says(refused(index, all, {a, a}),
       "[cond] expected an index and 3 operands for branch 0 (\"sines\"), got 3 operands in all");
  says(refused(index, all, {a, x, n}),
       "[cond] expected f64[3] for operand 2 (input \"w\" of branch 0, \"sines\"), got f64[]");
  const Graph fewer = branch("fewer", [](Value v, Value w, Value) { return Values{v, w}; });
  says(refused(index, {all[0], fewer}, right),
       "[cond] expected 4 outputs in branch 1 (\"fewer\"), as in branch 0 (\"sines\"), got 2");
  const Graph wrong = branch("wrong", [](Value v, Value w, Value k) { return Values{v, w, k, k}; });
  says(refused(index, {all[0], wrong}, right),
       "[cond] expected f64[] for output 2 of branch 1 (\"wrong\"), as in branch 0 (\"sines\"), got i32[]");
  GraphBuilder e("empty", standard_primitives());
  e.input("a", v3);
  const Graph empty = e.build(std::span<const Value>());
  says(refused(index, {empty}, {a}),
       "[cond] expected branches with one output or more, got none in branch 0 (\"empty\")");
  static const Primitive draw{.name = "test.draw",
                              .traits = Trait::impure | Trait::no_tangent,
                              .infer = [](InferContext& context) { context.result(context.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&draw});
  GraphBuilder noisy("noisy", set), outer("branch", set), plain("plain", set), holder("f", set);
  const Graph inner = noisy.build({emit1(Op::make(draw), {noisy.input("a", v3)})});
  const Graph effect = outer.build({ops::call(inner, std::vector{outer.input("a", v3)})[0]});
  const Graph calm = plain.build({plain.input("a", v3)});
  says(refused(holder.input("i", i32), {calm, effect}, {holder.input("v", v3)}),
       "[cond] expected a branch without effects, got test.draw in \"noisy\"");
  CHECK_THROWS_WITH_AS(with_control_flow_unrolled(chosen(i32), 20),
                       doctest::Contains("at most 20 operations"), Error);
  CHECK_THROWS_WITH_AS(Op::make(prim::cond, {{"branches", all[0]}}),
                       doctest::Contains("[cond] expected attribute \"branches\" to be a list of graphs"),
                       Error);
  CHECK_THROWS_WITH_AS(Op::make(prim::cond, {{"branches", GraphList{nullptr}}}),
                       doctest::Contains("[cond] expected a graph in attribute \"branches\", got none"),
                       Error);
  // Branches that a dump gives are looked at as others.
  const std::string text = to_json(chosen(bool_));
  const auto broken = [&text](std::string_view what, std::string_view with) {
    std::string changed = text;
    changed.replace(changed.find(what), what.size(), with);
    try {
      (void)graph_from_json(changed);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  says(broken("\"branches\": [{", "\"branches\": [1, {"), "a graph");
  says(broken("\"branches\": [{", "\"branches\": {\"a\": [{"), "");
  says(broken("\"branches\": [{\"format\": \"tidu.graph\", \"version\": 1",
              "\"branches\": [{\"format\": \"tidu.graph\", \"version\": 2"),
       "version");
}

}  // namespace conditional_cases
}  // namespace
