// constant_residuals.cpp - residuals that depend on constants alone are computed within backward. Here they
// are later results of operations of several, or stand beside an impure operation of which only the recorded
// results are known. Gradients are compared with formulas written by hand.
#include <cmath>
#include <functional>

#include "p_support.hpp"

namespace tidu::test {
namespace {

using Emit = std::function<Value(const Value&)>;

// Gradient at `at` of sum_i (c_i x_i) or the like: of the result of `emit` for an input of that many
// elements.
std::vector<double> gradient_of(const char* name, const Emit& emit, std::initializer_list<double> at) {
  Tape tape;
  const Var x = tape.leaf(vec(at));
  const RecordedGraph graph = graph_of(name, {x.second.type()}, [&](const auto& in) {
    return std::vector<Value>{ops::reduce_sum(emit(in[0]), {0})};
  });
  const Tensor result = gradient(backward(tape.apply(graph, {x})[0]), x);
  return {result.elements<double>().begin(), result.elements<double>().end()};
}

void check(const char* name, const Emit& emit, std::initializer_list<double> at,
           const std::vector<double>& right) {
  CAPTURE(name);
  const std::vector<double> got = gradient_of(name, emit, at);
  REQUIRE(got.size() == right.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(right[i]).epsilon(1e-12));
}

// [0, 1, 2, …]
Value count(const Value& like, std::int64_t n) { return ops::iota(*like.emitter(), {f64, {n}}, 0); }
// [[0, 1], [1, 2]], whose eigenvalues are 1 -+ sqrt 2
Value symmetric(const Value& like) {
  const Value rows = ops::iota(*like.emitter(), {f64, {2, 2}}, 0);
  return rows + ops::transpose(rows, {1, 0});
}

TEST_CASE("a residual may be a later result of an operation on constants alone") {
  const double root = std::sqrt(2.0);
  check("indices of top_k",
        [](const Value& x) {
          const Value n = count(x, 3);
          return ops::take(x, ops::top_k(n * (ops::full_like(n, 2.5) - n), 2)[1], 0);  // of [0, 1.5, 1]
        },
        {1, 2, 3}, {0, 1, 1});
  check("second operand of sort",
        [](const Value& x) {
          const Value n = count(x, 3);
          const Value sorted = ops::sort(std::vector{-n, n}, 0)[1];  // [2, 1, 0]
          return ops::sin(x) * sorted;
        },
        {0.5, 1, 2}, {2 * std::cos(0.5), std::cos(1), 0});
  check("eigenvalues of eigh", [](const Value& x) { return ops::square(ops::eigh(symmetric(x))[1] * x); },
        {1, 2}, {2 * (3 - 2 * root), 4 * (3 + 2 * root)});
  check("singular values", [](const Value& x) { return ops::svd(symmetric(x))[1] * x; }, {1, 2},
        {root + 1, root - 1});
  check("second result of a call",
        [](const Value& x) {
          GraphBuilder inner("inner");
          const Value n = inner.input("n", {f64, {2}});
          const Graph two = inner.build({ops::sin(n), ops::exp(n)});
          return ops::call(two, std::vector{count(x, 2)})[1] * x;
        },
        {3, 4}, {1, std::exp(1.0)});
}

TEST_CASE("both results of an operation on constants alone may be residuals") {
  check("values and indices of top_k",
        [](const Value& x) {
          const Values top = ops::top_k(count(x, 3), 2);  // [2, 1], [2, 1]
          return ops::take(x, top[1], 0) * top[0];
        },
        {1, 2, 3}, {0, 1, 2});
}

TEST_CASE("a residual of constants alone beside an impure operation of the input") {
  static constexpr Primitive draw{.name = "draw",
                                  .traits = Trait::impure | Trait::no_tangent,
                                  .infer = [](InferContext& c) { c.result(c.operand(0)); }};
  const PrimitiveSet set = standard_primitives().with({&draw});
  GraphBuilder builder("draws", set);
  const Value x = builder.input("x", {f64, {3}});
  const Value n = count(x, 3);
  const Value places = ops::top_k(n, 2)[1];  // [2, 1]
  const Value drawn = emit1(Op::make(draw, {}), {ops::sin(x)});
  const RecordedGraph graph =
      RecordedGraph::of(builder.build({ops::reduce_sum(ops::take(x, places, 0), {0}), drawn}));
  Tape tape;
  const Var leaf = tape.leaf(vec({1, 2, 3}));
  const std::vector<Tensor> results{scalar(5.0), vec({0, 0, 0})};
  const std::vector<EagerInput<Tensor>> inputs{EagerInput<Tensor>(leaf.first, leaf.second)};
  const auto made = tape.recorder.record_graph(graph, inputs, results);
  const Tensor got = gradient(backward({made[0], results[0]}), leaf);
  CHECK(same_bits(got, vec({0, 1, 1})));
}

}  // namespace
}  // namespace tidu::test
