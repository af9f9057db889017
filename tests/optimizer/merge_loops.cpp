// Operations that run graphs on the same operands become one: loops for a value and for its derivative,
// conds.
#include "tidu/optimizer/passes.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpu/compare.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;
using namespace tidu::test;

namespace merge_loops_cases {

std::size_t count(const Graph& graph, std::string_view name) {
  std::size_t found = 0;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i)
    found += graph.operation(i).name() == name ? 1 : 0;
  return found;
}

// h' = tanh(h w + x), and a sum of it that only the value needs.
Graph cell(std::int64_t n) {
  GraphBuilder b("cell");
  const Value w = b.input("w", {f64, {n, n}}), h = b.input("h", {f64, {n}}), x = b.input("x", {f64, {n}});
  const Value next = ops::tanh(ops::add(ops::dot_general(h, w, {{0}, {0}, {}, {}}), x));
  return b.build({next, ops::reduce_sum(ops::square(next), {0})});
}
Graph recurrent(std::int64_t n, std::int64_t steps) {
  GraphBuilder g("net");
  const std::vector<Value> operands{g.input("w", {f64, {n, n}}), g.input("h", {f64, {n}}),
                                    g.input("x", {f64, {steps, n}})};
  const Values results = ops::scan(cell(n), operands, {steps, false, 1, 1});
  return g.build({ops::add(ops::reduce_sum(results[0], {0}), ops::reduce_sum(results[1], {0}))});
}

// h' = tanh(h w + x), which each step gives.
Graph map_cell(std::int64_t n) {
  GraphBuilder b("cell");
  const Value w = b.input("w", {f64, {n, n}}), h = b.input("h", {f64, {n}}), x = b.input("x", {f64, {n}});
  const Value next = ops::tanh(ops::add(ops::dot_general(h, w, {{0}, {0}, {}, {}}), x));
  return b.build({next, next});
}

// The value by one graph, the gradients by another.
Graph apart(const Graph& f, const Names& wrt) {
  GraphBuilder g("apart");
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < f.inputs().size(); ++i)
    inputs.push_back(g.input(f.input_name(i), f.type(f.inputs()[i])));
  std::vector<Value> outputs;
  for (const Graph& part : {f, grad(f, wrt)}) {
    const std::vector<Value> values = inline_graph(g, part, inputs);
    for (const ValueId id : part.outputs()) outputs.push_back(values[id]);
  }
  return g.build(outputs);
}

void check_same(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-1, 1}, random));
  const std::vector<Tensor> expected = reference().run(graph, inputs),
                            merged = reference().run(passes::merge_loops(graph), inputs),
                            got = cpu().run(graph, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(std::memcmp(merged[i].bytes(), expected[i].bytes(), expected[i].num_bytes()) == 0);
    for (std::int64_t k = 0; k < expected[i].size(); ++k)
      CHECK(got[i].data<double>()[k] == doctest::Approx(expected[i].data<double>()[k]).epsilon(1e-12));
  }
}

}  // namespace merge_loops_cases

using namespace merge_loops_cases;

TEST_CASE("[merge] a loop for the value and one for the gradient are one") {
  std::mt19937_64 random(1);
  const Graph graph = apart(recurrent(5, 7), {"w", "h"});
  REQUIRE(count(graph, "scan") == 3);
  CHECK(count(Program::make(graph).graph(), "scan") == 2);  // forward and backward
  check_same(graph, random);
  ProgramOptions as_they_are;
  as_they_are.simplify = false;
  CHECK(count(Program::make(graph, as_they_are).graph(), "scan") == 3);
}

TEST_CASE("[merge] loops that read results of merged loops are merged, too") {
  std::mt19937_64 random(6);
  // Each layer reads results of all steps of the one before, and both loops of it read equal results of
  // another operation.
  const auto layers = [](std::int64_t n, std::int64_t steps, int depth) {
    GraphBuilder g("deep");
    const Value w = g.input("w", {f64, {n, n}});
    Value x = g.input("x", {f64, {steps, n}});
    for (int k = 0; k < depth; ++k) {
      const Value h = ops::broadcast_in_dim(ops::reduce_sum(ops::sin(x), {0, 1}), {n}, {});
      const Value ys = ops::scan(map_cell(n), std::vector{w, h, x}, {steps, false, 1, 1})[1];
      x = ops::mul(ys, ops::cos(ops::neg(ys)));
    }
    return g.build({ops::reduce_sum(ops::square(x), {0, 1})});
  };
  for (const int depth : {2, 5}) {
    const Graph graph = apart(layers(4, 6, depth), {"w", "x"});
    REQUIRE(count(graph, "scan") == static_cast<std::size_t>(3 * depth));
    CHECK(count(passes::merge_loops(graph), "scan") == static_cast<std::size_t>(2 * depth));
    check_same(graph, random);
  }
  // Their residuals for gradients exist for all layers at once in any case.
  const Graph large = apart(layers(40, 900, 3), {"w", "x"});
  CHECK(count(Program::make(large).graph(), "scan") == 6);
  ProgramOptions as_they_are;
  as_they_are.simplify = false;
  CHECK(Program::make(large).peak_bytes() <= Program::make(large, as_they_are).peak_bytes());
}

TEST_CASE("[merge] residuals of loops do not live on for several at once") {
  GraphBuilder g("losses first");
  const Graph f = recurrent(40, 900);  // hands out 288 KB and more a loop
  const Value w = g.input("w", {f64, {40, 40}}), x = g.input("x", {f64, {900, 40}});
  std::vector<std::vector<Value>> inputs;
  std::vector<Value> losses, outputs;
  for (int k = 0; k < 8; ++k) {
    inputs.push_back({w, g.input(detail::str('h', k), {f64, {40}}), x});
    losses.push_back(inline_graph(g, f, inputs.back())[f.outputs()[0]]);
  }
  Value total = losses[0];
  for (int k = 1; k < 8; ++k) total = ops::add(total, losses[static_cast<std::size_t>(k)]);
  const Graph gradient = grad(recurrent(40, 900), {"w"});
  Value sum;
  for (std::size_t k = 0; k < 8; ++k) {
    const Value one = inline_graph(g, gradient, inputs[k])[gradient.outputs()[0]];
    const Value scaled = ops::mul(one, ops::broadcast_in_dim(ops::div(losses[k], total), {40, 40}, {}));
    sum = k == 0 ? scaled : ops::add(sum, scaled);
  }
  const Graph graph = g.build({total, sum});
  ProgramOptions as_they_are;
  as_they_are.simplify = false;
  const Program merged = Program::make(graph);
  CHECK(count(graph, "scan") == 24);
  CHECK(count(merged.graph(), "scan") < 24);
  CHECK(merged.peak_bytes() < 3 * Program::make(graph, as_they_are).peak_bytes());
}

TEST_CASE("[merge] loops that are not merged keep their properties") {
  const Graph graph = apart(recurrent(3, 4), {"w"});
  const auto linear = [](const Graph& of) {
    std::size_t found = 0;
    for (std::uint32_t i = 0; i < of.num_operations(); ++i)
      found += of.operation(i).name() == "scan" && of.operation(i).is_linear() ? 1 : 0;
    return found;
  };
  REQUIRE(linear(graph) == 1);
  const Graph merged = passes::merge_loops(graph);
  CHECK(count(merged, "scan") == 2);
  CHECK(linear(merged) == 1);
}

TEST_CASE("[merge] loops of second derivatives, and in steps of loops") {
  std::mt19937_64 random(2);
  const Graph f = recurrent(4, 3);
  GraphBuilder h("twice");
  std::vector<Value> inputs;
  const Graph second = hvp(f, {"h"});
  for (std::size_t i = 0; i < second.inputs().size(); ++i)
    inputs.push_back(h.input(detail::str("in.", i), second.type(second.inputs()[i])));
  std::vector<Value> outputs;
  for (const Graph& part : {f, value_and_grad(f, {"h"}), second}) {
    const std::vector<Value> values = inline_graph(h, part, std::span(inputs).first(part.inputs().size()));
    for (const ValueId id : part.outputs()) outputs.push_back(values[id]);
  }
  const Graph all = h.build(outputs);
  check_same(all, random);
  CHECK(count(Program::make(all).graph(), "scan") < count(all, "scan") - 1);

  // Each step runs both.
  GraphBuilder s("outer");
  const Graph inner = apart(recurrent(4, 3), {"h"});
  const std::vector<Value> given{s.input("w", {f64, {4, 4}}), s.input("h", {f64, {4}}),
                                 s.input("x", {f64, {3, 4}})};
  const std::vector<Value> values = inline_graph(s, inner, given);
  const Graph step = s.build({ops::sub(given[1], values[inner.outputs()[1]]), values[inner.outputs()[0]]});
  GraphBuilder g("loops");
  const Value w = g.input("w", {f64, {4, 4}}), h0 = g.input("h", {f64, {4}}),
              x = g.input("x", {f64, {2, 3, 4}});
  const Values results = ops::scan(step, std::vector{w, h0, x}, {2, false, 1, 1});
  check_same(g.build({results[0], results[1]}), random);
}

TEST_CASE("[merge] conds on the same operands are one") {
  std::mt19937_64 random(3);
  const auto branch = [](bool sine, bool more) {
    GraphBuilder b("branch");
    const Value x = b.input("x", {f64, {6}});
    const Value y = ops::exp(ops::square(sine ? ops::sin(x) : ops::tanh(x)));
    return b.build(more ? std::vector{ops::square(y), ops::neg(y)} : std::vector{ops::neg(y)});
  };
  GraphBuilder g("conds");
  const Value at = ops::convert_element_type(g.input("at", {f64, {}}), i32);
  const std::vector<Value> x{g.input("x", {f64, {6}})};
  const Values one = ops::cond(at, std::vector{branch(true, false), branch(false, false)}, x),
               two = ops::cond(at, std::vector{branch(true, true), branch(false, true)}, x);
  const Graph graph = g.build({one[0], two[0], two[1]});
  CHECK(count(Program::make(graph).graph(), "cond") == 1);
  check_same(graph, random);
  const Graph merged = passes::merge_loops(graph);
  CHECK(merged.outputs()[0] == merged.outputs()[2]);
}

TEST_CASE("[merge] results that one branch alone computes alike are two") {
  std::mt19937_64 random(5);
  const auto branch = [](int kind) {
    GraphBuilder b("branch");
    const Value y = ops::exp(ops::sin(b.input("x", {f64, {6}})));
    return b.build({kind == 0 ? ops::square(y) : kind == 1 ? ops::neg(y) : ops::sqrt(y)});
  };
  GraphBuilder g("conds");
  const Value at = ops::convert_element_type(g.input("at", {f64, {}}), i32);
  const std::vector<Value> x{g.input("x", {f64, {6}})};
  const Values one = ops::cond(at, std::vector{branch(0), branch(1)}, x),
               two = ops::cond(at, std::vector{branch(0), branch(2)}, x);
  const Graph graph = g.build({one[0], two[0]});
  CHECK(count(passes::merge_loops(graph), "cond") == 1);
  for (const double index : {0.0, 1.0}) {
    const std::vector<Tensor> inputs{Tensor::scalar(index), random_tensor(Type(f64, {6}), {-1, 1}, random)};
    const std::vector<Tensor> expected = reference().run(graph, inputs), got = cpu().run(graph, inputs);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(got[i].data<double>()[0] == doctest::Approx(expected[i].data<double>()[0]));
  }
}

TEST_CASE("[merge] loops that have little in common stay") {
  const auto step = [](bool sine) {
    GraphBuilder b("step");
    const Value x = b.input("x", {f64, {3}});
    return b.build({sine ? ops::exp(ops::sin(x)) : ops::sqrt(ops::cos(x))});
  };
  GraphBuilder g("maps");
  const std::vector<Value> operands{g.input("x", {f64, {4, 3}})};
  const Values one = ops::scan(step(true), operands, {4, false, 0, 0}),
               two = ops::scan(step(false), operands, {4, false, 0, 0});
  CHECK(count(passes::merge_loops(g.build({one[0], two[0]})), "scan") == 2);
}

TEST_CASE("[merge] loops that do other things stay") {
  std::mt19937_64 random(4);
  const auto steps = [](int kind) {
    GraphBuilder b("step");
    const Value h = b.input("h", {f64, {3}}), x = b.input("x", {f64, {3}});
    const Value next = ops::add(ops::sin(h), ops::mul(h, x));
    if (kind == 1) return b.build({ops::neg(next), next});  // another carry
    if (kind == 2) return b.build({next, ops::exp(ops::cos(ops::tanh(ops::square(ops::sin(x)))))});
    return b.build({next, h});
  };
  for (const int kind : {1, 2}) {
    GraphBuilder g("loops");
    const std::vector<Value> operands{g.input("h", {f64, {3}}), g.input("x", {f64, {4, 3}})};
    const Values one = ops::scan(steps(0), operands, {4, false, 0, 1}),
                 two = ops::scan(steps(kind), operands, {4, false, 0, 1});
    const Graph graph = g.build({one[0], one[1], two[0], two[1]});
    CHECK(count(passes::merge_loops(graph), "scan") == (kind == 1 ? 2U : 1U));
    check_same(graph, random);
  }
  GraphBuilder g("loops");
  const std::vector<Value> operands{g.input("h", {f64, {3}}), g.input("x", {f64, {4, 3}})};
  const Values one = ops::scan(steps(0), operands, {4, false, 0, 1}),
               two = ops::scan(steps(0), operands, {4, true, 0, 1});
  const Graph graph = g.build({one[0], one[1], two[0], two[1]});
  CHECK(count(passes::merge_loops(graph), "scan") == 2);
  check_same(graph, random);
}
