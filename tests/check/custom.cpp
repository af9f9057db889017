// custom.cpp - custom_jvp_call, custom_vjp_call, linear_call and checkpoint beyond the table of primitives:
// which rule is used in which mode, constant and integer operands, third order, policies and what they save,
// batching, dumps, and refusals that name graph and position.
#include "tidu/primitives/custom.hpp"

#include <malloc.h>  // mallinfo2

#include <algorithm>
#include <array>
#include <cmath>

#include "check/helpers.hpp"
#include "support/probe.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/graph/merge.hpp"
#include "tidu/program/program.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

const Type v3{f64, {3}};

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (a.at(i) != b.at(i)) return false;
  }
  return true;
}

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

Tensors inputs_of(const Graph& graph, std::uint64_t seed) {
  Random random(seed);
  Tensors inputs;
  for (const ValueId id : graph.inputs()) {
    inputs.push_back(graph.type(id) == Type(i64) ? Tensor::scalar<std::int64_t>(2)
                                                 : check::random_tensor(random, graph.type(id)));
  }
  return inputs;
}

// Both graphs have equal outputs, on both executors.
void check_same(const Graph& a, const Graph& b, std::uint64_t seed, double tolerance = 1e-11) {
  const Tensors inputs = inputs_of(a, seed);
  const Tensors left = reference().run(a, inputs), right = reference().run(b, inputs),
                fast = cpu().run(a, inputs);
  REQUIRE(left.size() == right.size());
  for (std::size_t k = 0; k < left.size(); ++k) {
    CAPTURE(k);
    CHECK(near(left[k], right[k], tolerance));
    CHECK(near(fast[k], right[k], tolerance));
  }
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

// y = exp(r) x and the sum of x, of which the transpose says so many times what is right.
Values scaled(double factor, std::span<const Value> operands) {
  GraphBuilder g("scaled"), t("transposed");
  const Value r = g.input("r", v3), x = g.input("x", v3);
  const Graph graph = g.build({ops::exp(r) * x, ops::reduce_sum(x, {0})});
  const Value s = t.input("r", v3), ct0 = t.input("ct0", v3), ct1 = t.input("ct1", f64);
  const Value right = ops::exp(s) * ct0 + ops::broadcast_scalar(ct1, {3});
  const Graph transpose = t.build({ops::full_like(s, factor) * right});
  return factor == 0 ? ops::call(graph, operands) : ops::linear_call(graph, transpose, 1, operands);
}
Graph with_scaled(double factor) {
  GraphBuilder g("around");
  const Value x = g.input("x", v3), z = g.input("z", v3);
  const Values y = scaled(factor, std::vector{ops::sin(x) * z, x * z});
  return g.build({y[0] * y[0] * z, y[1] * y[1]});
}

TEST_CASE("linear_call: in any mode and of any order it is the plain call when its transpose is right") {
  const Names both{"x", "z"};
  DerivativeOptions named;
  named.named_inputs = true;
  const auto derived = [&](const Graph& f, unsigned modes, int order) {
    Graph result = f;
    for (int i = 0; i < order; ++i)
      result = (modes >> i & 1U) != 0 ? jvp(result, both, named) : vjp(result, both, named);
    return result;
  };
  const Graph custom = with_scaled(1), expected = with_scaled(0);
  for (int order = 1; order <= 3; ++order) {
    for (unsigned modes = 0; modes < 1U << order; ++modes) {
      CAPTURE(order);
      CAPTURE(modes);
      check_same(derived(custom, modes, order), derived(expected, modes, order), 21, 1e-9);
    }
  }
  for (const Names& by : {Names{"x"}, Names{"z"}}) {
    check_same(vjp(custom, by), vjp(expected, by), 22);
    check_same(vmap(vjp(custom), 4, by), vmap(vjp(expected), 4, by), 23);
    check_same(vjp(vmap(custom, 4, by)), vjp(vmap(expected, 4, by)), 24);
  }
}

TEST_CASE("linear_call: its own transpose is what reverse mode takes, also of the call's derivatives") {
  const auto alone = [](double factor) {
    GraphBuilder g("alone");
    const std::vector<Value> operands{g.input("r", v3), g.input("x", v3)};
    return g.build({scaled(factor, operands)[0]});
  };
  // `many` is how often the right value comes out.
  const auto expect = [&](const std::function<Graph(const Graph&)>& derive, std::size_t output, double many) {
    const Graph wrong = derive(alone(3)), right = derive(alone(0));
    const Tensors inputs = inputs_of(wrong, 25);
    const Tensor got = run(wrong, inputs)[output], want = run(right, inputs)[output];
    for (std::int64_t i = 0; i < 3; ++i) CHECK(got.at(i).real() == doctest::Approx(many * want.at(i).real()));
  };
  DerivativeOptions named;
  named.named_inputs = true;
  const auto backward = [&](Names by) { return [=](const Graph& f) { return vjp(f, by, named); }; };
  const auto forward = [&](Names by) { return [=](const Graph& f) { return jvp(f, by, named); }; };
  const auto then = [](const auto& first, const auto& second) {
    return [=](const Graph& f) { return second(first(f)); };
  };
  // Outputs are those of the function, then tangents or cotangents.
  expect(backward({"x"}), 1, 3);
  expect(backward({"r"}), 1, 1);
  expect(forward({"x"}), 1, 1);
  // The tangent is linear in that of x, the cotangent in that of the result.
  expect(then(forward({"x"}), backward({"x.tangent"})), 2, 3);
  expect(then(backward({"x"}), forward({"cotangent.0"})), 3, 3);
  expect(then(backward({"x"}), backward({"cotangent.0"})), 2, 1);
}

TEST_CASE(
    "custom rules: the linear graph of a custom_vjp_call holds its backward, and keeps what that reads") {
  const Linearization lin = linearize(with_vjp(1.0), {.wrt = std::vector<std::size_t>{2}});
  CHECK(count(lin.linear, "linear_call") == 1);
  CHECK(count(lin.augmented, "custom_vjp_call") == 0);
  const Transposition transposed = linear_transpose(lin.linear);
  CHECK(count(transposed.graph, "linear_call") == 1);
  CHECK(count(linear_transpose(transposed.graph).graph, "linear_call") == 1);
  // By z alone only x is read by the rule.
  for (std::size_t i = 0; i < lin.linear.num_operations(); ++i) {
    if (lin.linear.operation(i).name() == "linear_call") CHECK(lin.linear.operation(i).num_inputs() == 2);
  }
}

TEST_CASE("custom_jvp_call: constant operands take no operations, and rules are held to be linear") {
  const Graph f = with_jvp(1.0);
  const Linearization one = linearize(f, {.wrt = std::vector<std::size_t>{0}});
  const Linearization two = linearize(f, {.wrt = std::vector<std::size_t>{0, 2}});
  CHECK(one.linear.num_operations() < two.linear.num_operations());
  CHECK(count(one.linear, "mul") + 2 <= count(two.linear, "mul"));

  const auto refused = [](const std::function<std::vector<Value>(Value, Value)>& outputs) {
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
  };
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

TEST_CASE(
    "custom_jvp_call: a tangent is zero where the rule passes the tangent of a constant through graphs") {
  // The padding is a residual of the linear graphs, in which nobody sees that it is zero.
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

// tanh(w x) applied `depth` times, each layer a checkpoint of that policy, or not.
Graph layers(std::size_t depth, std::int64_t width, const std::optional<CheckpointPolicy>& policy) {
  const Type matrix(f64, {width, width}), vector(f64, {16, width});
  GraphBuilder layer("layer");
  const Value a = layer.input("a", vector), b = layer.input("b", matrix);
  Value h = a;
  for (int i = 0; i < 4; ++i) h = ops::tanh(ops::matmul(h, b));
  const Graph inner = layer.build({h});
  GraphBuilder g("net");
  Value x = g.input("x", vector);
  const Value w = g.input("w", matrix);
  for (std::size_t i = 0; i < depth; ++i) {
    const std::vector<Value> operands{x, w};
    x = policy ? ops::checkpoint(inner, operands, *policy)[0] : ops::call(inner, operands)[0];
  }
  return g.build({ops::reduce_sum(x * x, {0, 1})});
}
std::size_t bytes_of(const std::vector<Residual>& manifest) {
  std::size_t bytes = 0;
  for (const Residual& residual : manifest) bytes += residual.bytes;
  return bytes;
}

TEST_CASE("checkpoint: saves bytes of residuals and memory, and changes no bit of a gradient") {
  const Graph kept = layers(12, 16, CheckpointPolicy::everything()), by_call = layers(12, 16, std::nullopt);
  const Graph dropped = layers(12, 16, CheckpointPolicy::nothing());
  const Graph some = layers(12, 16, CheckpointPolicy::save({5}));  // the second tanh
  const std::size_t all = bytes_of(pullback(kept).manifest), none = bytes_of(pullback(dropped).manifest),
                    few = bytes_of(pullback(some).manifest);
  CHECK(all == bytes_of(pullback(by_call).manifest));
  CHECK(none < few);
  CHECK(few < all);
  CHECK(none * 3 < all);

  const auto peak = [](const Graph& f) { return Program::make(value_and_grad(f)).peak_bytes(); };
  CHECK(peak(dropped) * 2 < peak(kept));
  CHECK(peak(some) < peak(kept));
  // Neither is it undone where all is one graph that was merged, dumped or made anew.
  const Graph gradient = value_and_grad(dropped);
  const std::vector<Graph> parts{gradient};
  CHECK(Program::make(materialize_merge(parts)).peak_bytes() == peak(dropped));
  CHECK(Program::make(graph_from_json(to_json(gradient))).peak_bytes() == peak(dropped));
  CHECK(Program::make(prune(Program::make(gradient).graph())).peak_bytes() == peak(dropped));
  const Linearization lin = linearize(dropped);
  const Transposition transposed = linear_transpose(lin.linear);
  const std::vector<Graph> apart{lin.augmented, transposed.graph};
  const Graph merged = materialize_merge(apart);
  const Linearization lin_kept = linearize(kept);
  const std::vector<Graph> apart_kept{lin_kept.augmented, linear_transpose(lin_kept.linear).graph};
  CHECK(Program::make(merged).peak_bytes() * 2 < Program::make(materialize_merge(apart_kept)).peak_bytes());

  const Tensors in = inputs_of(kept, 5);
  const Tensors expected = cpu().run(value_and_grad(by_call), in);
  for (const Graph& f : {kept, dropped, some}) {
    const Tensors got = cpu().run(value_and_grad(f), in);
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(same_bits(got[k], expected[k]));
    const Tensors interpreted = reference().run(value_and_grad(f), in);
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(near(interpreted[k], expected[k]));
  }
}

// What the heap holds is read in every tanh; sanitizers have heaps of their own.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TIDU_TEST_HEAP 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef TIDU_TEST_HEAP
#endif
#endif
#ifdef TIDU_TEST_HEAP
TEST_CASE("checkpoint: the memory that an executor is seen to use is less") {
  static std::size_t most = 0;
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const ReferenceExecutor watched = reference().with_kernel("tanh", [in_use](const KernelCall& c) {
    const auto x = c.input(0).elements<double>();
    const auto y = c.output().mutable_elements<double>();
    std::transform(x.begin(), x.end(), y.begin(), [](double v) { return std::tanh(v); });
    most = std::max(most, in_use());
  });
  const auto peak = [&](const CheckpointPolicy& policy) {
    const Graph f = value_and_grad(layers(24, 64, policy));
    const Tensors in = inputs_of(f, 5);
    const std::size_t before = in_use();
    most = before;
    watched.run(f, in);
    return most - before;
  };
  const std::size_t kept = peak(CheckpointPolicy::everything()), dropped = peak(CheckpointPolicy::nothing());
  CHECK(kept > 24 * 4 * 16 * 64 * sizeof(double) / 2);
  CHECK(dropped * 2 < kept);
}
#endif

TEST_CASE("checkpoint: second order recomputes too, and agrees with a call in every mode") {
  const auto net = [](const std::optional<CheckpointPolicy>& policy) { return layers(3, 4, policy); };
  const Graph by_call = net(std::nullopt);
  const auto peak = [](const Graph& f) { return Program::make(hvp(f)).peak_bytes(); };
  CHECK(peak(layers(12, 16, CheckpointPolicy::nothing())) * 2 <
        peak(layers(12, 16, CheckpointPolicy::everything())));
  for (const CheckpointPolicy& policy :
       {CheckpointPolicy::nothing(), CheckpointPolicy::everything(), CheckpointPolicy::save({3, 5})}) {
    const Graph f = net(policy);
    check_same(hvp(f), hvp(by_call), 21);
    check_same(jvp(f), jvp(by_call), 22);
    check_same(vjp(vjp(f)), vjp(vjp(by_call)), 23);
    check_same(vjp(jvp(f)), vjp(jvp(by_call)), 24);
    check_same(jvp(vjp(vjp(f))), jvp(vjp(vjp(by_call))), 25, 1e-9);
    check_same(vjp(f, {"w"}), vjp(by_call, {"w"}), 26);
    for (const Names& batched : {Names{"x"}, Names{"w"}, Names{}}) {
      check_same(vmap(f, 3, batched), vmap(by_call, 3, batched), 27);
      check_same(vjp(vmap(f, 3, batched)), vjp(vmap(by_call, 3, batched)), 28);
      check_same(vmap(vjp(f), 3, batched), vmap(vjp(by_call), 3, batched), 29);
    }
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
  // An inner graph whose ids are in another order: 0 is what it computes.
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

TEST_CASE("checkpoint: what an impure operation made is kept, and does not run twice") {
  static const Primitive draw{.name = "test.draw",
                              .traits = Trait::impure | Trait::no_tangent,
                              .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&draw});
  GraphBuilder inner("noisy", set);
  const Value a = inner.input("a", v3);
  const Graph noisy = inner.build({ops::sin(a * emit1(Op::make(draw), {a}))});
  GraphBuilder g("f", set);
  const Graph f = g.build({ops::checkpoint(noisy, std::vector{g.input("x", v3)})[0]});
  const auto executor =
      reference().with_kernel("test.draw", [](const KernelCall& c) { c.outputs()[0] = c.input(0); });
  std::size_t draws = 0;
  const Graph written = Program::make(vjp(f)).graph();
  for (std::size_t i = 0; i < written.num_operations(); ++i)
    draws += written.operation(i).name() == "test.draw" ? 1U : 0U;
  CHECK(draws == 1);
  CHECK(executor.run(vjp(f), {vector({1.0, 2.0, 3.0}), vector({1.0, 1.0, 1.0})}).size() == 2);
}

}  // namespace
