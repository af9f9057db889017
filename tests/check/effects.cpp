// effects.cpp - operations that hold graphs with effects: they run as often as they are called, in every form
// that a graph takes.
#include "check/helpers.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/primitives/custom.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

namespace effect_cases {

const Type v3{f64, {3}};

TEST_CASE("graphs with an impure operation run as often as they are called") {
  static std::size_t runs = 0;
  static const Primitive count{.name = "test.count",
                               .traits = Trait::impure | Trait::no_tangent,
                               .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&count});
  const auto executor = reference().with_kernel("test.count", [](const KernelCall& c) {
    ++runs;
    c.outputs()[0] = c.input(0);
  });
  const auto counted = [&](const Graph& graph, const std::vector<Tensor>& inputs) {
    runs = 0;
    executor.run(graph, inputs);
    return runs;
  };
  const auto counting = [&](int level) {
    GraphBuilder g("count", set);
    const Value a = g.input("a", v3);
    Graph graph = g.build({ops::sin(a) * emit1(Op::make(count), {a})});
    for (int i = 0; i < level; ++i) {
      GraphBuilder outer("outer", set);
      graph = outer.build({ops::call(graph, std::vector{outer.input("a", v3)})[0]});
    }
    return graph;
  };
  const Tensor x = vector({1.0, 2.0, 3.0});
  for (const int level : {0, 1, 3}) {
    const Graph inner = counting(level);
    CAPTURE(level);
    CHECK(inner.data().has_effects);
    // Equal calls are two, and one whose result has no reader stays.
    GraphBuilder g("f", set);
    const Value a = g.input("a", v3);
    const Value first = ops::call(inner, std::vector{a})[0], second = ops::call(inner, std::vector{a})[0];
    CHECK_FALSE(first == second);
    (void)ops::call(inner, std::vector{a});
    const Graph f = g.build({first + second});
    CHECK(counted(f, {x}) == 3);
    CHECK(counted(prune(f), {x}) == 3);
    CHECK(counted(Program::make(f).graph(), {x}) == 3);
    CHECK(counted(graph_from_json(to_json(f), set), {x}) == 3);
    CHECK(counted(jvp(f), {x, x}) == 3);
    CHECK(counted(vjp(f), {x, x}) == 3);
    CHECK(counted(Program::make(vjp(f)).graph(), {x, x}) == 3);
  }
}

// r^2 ct where the derivative of sin is cos x: forward mode has to be that of backward, too.
TEST_CASE("forward mode transposes a backward whose call makes values, with an effect, and cotangents") {
  static const Primitive probe{.name = "test.probe",
                               .traits = Trait::impure | Trait::no_tangent,
                               .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  static const PrimitiveSet set = standard_primitives().with({&probe});
  static std::size_t runs = 0;
  const auto executor = reference().with_kernel("test.probe", [](const KernelCall& c) {
    ++runs;
    c.outputs()[0] = c.input(0);
  });
  for (const bool checkpointed : {false, true}) {
    GraphBuilder i("inner", set), b("backward", set), s("sine", set), w("forward", set), g("f", set);
    const Value r = i.input("r", v3), t = i.input("t", v3);
    const Graph inner = i.build({r * t, emit1(Op::make(probe), {r})});
    const Value br = b.input("r", v3), bt = b.input("t", v3);
    const std::vector<Value> operands{br, bt};
    const Values in = checkpointed ? ops::checkpoint(inner, operands) : ops::call(inner, operands);
    const Graph backward = b.build({in[0] * in[1]});
    const Graph sine = s.build({ops::sin(s.input("x", v3))});
    const Value x = w.input("x", v3);
    const Graph forward = w.build({ops::sin(x), x});
    const Graph f =
        g.build({ops::custom_vjp_call(sine, forward, backward, std::vector{g.input("x", v3)})[0]});
    const Tensor at = vector({1.0, 2.0, -3.0}), seed = vector({1.0, 0.5, 2.0});
    runs = 0;
    const std::vector<Tensor> pushed = executor.run(jvp(f), {at, seed});
    CHECK(runs == 1);
    for (std::int64_t k = 0; k < 3; ++k)
      CHECK(pushed[1].at(k).real() == doctest::Approx(at.at(k).real() * at.at(k).real() * seed.at(k).real()));
  }
}

}  // namespace effect_cases
}  // namespace
