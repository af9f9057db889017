// c_sums.cpp - [C3] [C4] [C8] where cotangents are summed, that they flow one way, and that no number of
// operands, outputs or consumers is too large.
#include "counted.hpp"
#include "support.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::test::counted {
namespace {

// Takes the larger one where others take the sum.
class Largest final : public eager::BackwardExecutor<double> {
 public:
  mutable int adds = 0;
  Result<Values> execute_forward(const GraphCall& call, std::span<const double* const> in) const override {
    return run(call, in);
  }
  Result<Values> run_transposed_linear(const GraphCall& call,
                                       std::span<const double* const> in) const override {
    return run(call, in);
  }
  Result<double> add_operands(const eager::AddCall&, double a, const double& b) const override {
    ++adds;
    return std::max(a, b);
  }

 private:
  static Result<Values> run(const GraphCall& call, std::span<const double* const> in) {
    std::vector<double> inputs;
    for (const double* x : in) inputs.push_back(*x);
    return Values(interpret(call.graph, inputs));
  }
};

TEST_CASE("[C3] cotangents of different edges are summed by the executor, in one place") {
  Largest executor;
  eager::Recorder<double> recorder(&executor);
  EagerOutput leaf;
  leaf.key = recorder.keys().fresh();
  leaf.requires_grad = true;
  const std::array types{Type(f64), Type(f64)};
  const double x = 3.0, two = 2.0, five = 5.0;
  // x x + 2 x + 5 x: the derivative's terms are 3, 3, 2, 5, and none was summed elsewhere.
  const EagerOutput a = recorder.record(plain_op<prim::mul>(), {{leaf, x}, {leaf, x}}, x, types);
  const EagerOutput b =
      recorder.record(plain_op<prim::mul>(), {{leaf, x}, EagerInput<double>(two)}, x, types);
  const EagerOutput c =
      recorder.record(plain_op<prim::mul>(), {{leaf, x}, EagerInput<double>(five)}, x, types);
  const EagerOutput ab = recorder.record(plain_op<prim::add>(), {{a, x}, {b, x}}, x, types);
  const EagerOutput abc = recorder.record(plain_op<prim::add>(), {{ab, x}, {c, x}}, x, types);
  for (const eager::Order order : {eager::Order::latest_first, eager::Order::random}) {
    executor.adds = 0;
    BackwardOptions options;
    options.keep_graph = true;
    options.order = order;
    const auto gradients =
        eager::try_backward<double>(abc.key, abc.trace, 1.0, executor, nullptr, options).value();
    CHECK(gradients.at(leaf.key) == 5.0);
    CHECK(executor.adds == 3);
  }
}

TEST_CASE("[C3] a cotangent has the shape of the operand it belongs to") {
  GraphBuilder builder("scaled");
  const Value s = builder.input("s", f64), v = builder.input("v", {f64, {3}});
  const RecordedGraph graph = RecordedGraph::of(builder.build({v * ops::broadcast_in_dim(s, {3}, {})}));
  test::Tape tape;
  const auto x = tape.leaf(2.0);
  const auto y = tape.leaf(Tensor::from<double>(Shape{3}, {1.0, 2.0, 4.0}));
  const auto z = tape.apply(graph, {x, y})[0];
  const auto gradients = test::backward(z, Tensor::from<double>(Shape{3}, {1.0, 10.0, 100.0}));
  CHECK(gradients.at(x.first.key).type() == Type(f64));
  CHECK(gradients.at(x.first.key).item<double>() == 421.0);
  CHECK(gradients.at(y.first.key).shape() == Shape{3});
  CHECK(gradients.at(y.first.key).at(2).real() == 200.0);
}

TEST_CASE("[C4] no rule reads gradients that were accumulated before") {
  CountedTape tape;
  eager::Leaf<Counted> w(tape.recorder.keys(), "w");
  const Var x = CountedTape::of(w, 3.0), y = tape.leaf(5.0);
  const Var root = tape.apply<prim::mul>(tape.apply<prim::mul>(x, x), y);
  BackwardOptions options;
  options.keep_graph = true;
  options.accumulate = true;
  for (const double held : {0.0, 1e6, std::numeric_limits<double>::quiet_NaN()}) {
    w.set_gradient(Counted(held));
    const auto gradients = tape.backward(root, options);
    CHECK(gradients.at(y.who.key).value == 9.0);
    const double now = w.gradient()->value;
    if (std::isnan(held)) {
      CHECK(std::isnan(now));
    } else {
      CHECK(now == held + 30.0);
    }
    // Neither does a call that does not accumulate.
    BackwardOptions plain;
    plain.keep_graph = true;
    CHECK(tape.backward(root, plain).at(w.key()).value == 30.0);
  }
}

TEST_CASE("[C8] a diamond, x + x, and a fan-in of 20,000") {
  CountedTape tape;
  const Var x = tape.leaf(3.0);
  CHECK(tape.backward(tape.apply<prim::add>(x, x)).at(x.who.key).value == 2.0);
  const Var a = tape.apply<prim::sin>(x);
  const Var diamond =
      tape.apply<prim::mul>(tape.apply<prim::neg>(a), tape.apply<prim::mul>(a, CountedTape::constant(2.0)));
  CHECK(tape.backward(diamond).at(x.who.key).value == doctest::Approx(-4.0 * std::sin(3.0) * std::cos(3.0)));
  const Var b = tape.apply<prim::sin>(x);
  Var sum = tape.apply<prim::neg>(b);
  for (int i = 0; i < 19999; ++i) sum = tape.apply<prim::add>(sum, b);
  CHECK(tape.backward(sum).at(x.who.key).value == doctest::Approx(19998.0 * std::cos(3.0)));
}

const Primitive sum_of_many{.name = "test.sum",
                            .arity = variadic,
                            .linearity = linearity::linear,
                            .infer = [](InferContext& c) { c.result(c.operand(0)); },
                            .transpose = [](TransposeContext& c) -> Derivatives {
                              Derivatives all = Derivatives::absent(c.num_operands());
                              for (std::size_t i = 0; i < c.num_operands(); ++i)
                                if (c.linear(i)) all.set(i, c.cotangent());
                              return all;
                            }};

TEST_CASE("[C8] operations with more than four, and more than 64, operands") {
  const PrimitiveSet set = standard_primitives().with({&sum_of_many});
  for (const std::size_t count : {5U, 9U, 47U, 48U, 49U, 63U, 64U, 65U, 130U}) {
    CAPTURE(count);
    CountedTape tape;
    std::vector<Var> leaves;
    std::vector<const Var*> operands;
    for (std::size_t i = 0; i < count; ++i) leaves.push_back(tape.leaf(static_cast<double>(i)));
    // Every seventh is inactive, and the first stands in the last place too.
    for (std::size_t i = 6; i < count; i += 7) leaves[i].who.requires_grad = false;
    for (const Var& leaf : leaves) operands.push_back(&leaf);
    operands.back() = &leaves[0];
    const Var y = tape.apply(Op::make(sum_of_many), operands, set);
    const Var z = tape.apply<prim::mul>(y, CountedTape::constant(3.0));
    for (const bool graph : {false, true}) {
      BackwardOptions options;
      options.keep_graph = true;
      options.create_graph = graph;
      const auto gradients = tape.backward(z, options);
      for (std::size_t i = 0; i + 1 < count; ++i) {
        const Counted* got = gradients.find(leaves[i].who.key);
        CHECK((got != nullptr) == (i % 7 != 6));
        if (got != nullptr) CHECK(got->value == (i == 0 ? 6.0 : 3.0));
      }
      CHECK(gradients.find(leaves.back().who.key) == nullptr);
    }
    // The gradient of one operand alone.
    const eager::Requested requested[] = {leaves[count - 2].who};
    if (leaves[count - 2].who.requires_grad)
      CHECK(tape.backward(z, {}, requested).requested()[0].value->value == 3.0);
  }
}

TEST_CASE("[C8] a composite node with more than 64 inputs and outputs, seeded in part") {
  const std::size_t count = 70;
  const RecordedGraph graph = graph_of(count, [&](std::vector<Value> v) {
    std::vector<Value> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(v[i] * v[(i + 1) % count]);
    return out;
  });
  CountedTape tape;
  std::vector<Var> leaves;
  std::vector<const Var*> operands;
  for (std::size_t i = 0; i < count; ++i) leaves.push_back(tape.leaf(1.0 + static_cast<double>(i)));
  for (const Var& leaf : leaves) operands.push_back(&leaf);
  const std::vector<Var> y = tape.apply(graph, operands);
  const Var z = tape.apply<prim::add>(y[3], tape.apply<prim::mul>(y[66], y[67]));
  const auto gradients = tape.backward(z);
  std::vector<double> expected(count, 0.0);
  const auto x = [](std::size_t i) { return 1.0 + static_cast<double>(i); };
  expected[3] += x(4);
  expected[4] += x(3);
  // (x66 x67) (x67 x68)
  expected[66] += x(67) * x(67) * x(68);
  expected[67] += 2 * x(66) * x(67) * x(68);
  expected[68] += x(66) * x(67) * x(67);
  for (std::size_t i = 0; i < count; ++i) {
    const Counted* got = gradients.find(leaves[i].who.key);
    CHECK((got != nullptr ? got->value : 0.0) == expected[i]);
    CHECK((got != nullptr) == (expected[i] != 0.0));
  }
}

}  // namespace
}  // namespace tidu::test::counted
