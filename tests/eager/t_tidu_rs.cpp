// t_tidu_rs.cpp - [T9] the cases of recording and of backward that any such system must pass, each once more
// in a few lines; and transposition through an emitter that computes.
#include <array>

#include "counted.hpp"
#include "tidu/linearize/linearize.hpp"
#include "tidu/linearize/transpose.hpp"

namespace tidu::test::counted {
namespace {

TEST_CASE("[T9] eager: the cotangents of one leaf in both operands add") {
  CountedTape tape;
  const Var x = tape.leaf(3.0);
  const auto gradients = tape.backward(tape.apply<prim::mul>(x, x));
  CHECK(gradients.size() == 1);
  CHECK(gradients.at(x.who.key).value == 6.0);
  CHECK(tape.executor.count('a') == 1);
}

TEST_CASE("[T9] eager: only seeded outputs are linearized") {
  const RecordedGraph graph = graph_of(1, [](std::vector<Value> v) {
    return std::vector{v[0], v[0] + v[0]};
  });
  CountedTape tape;
  const Var x = tape.leaf(3.0);
  const std::vector<Var> y = tape.apply(graph, {&x});
  CHECK(tape.backward(y[1]).at(x.who.key).value == 2.0);
  REQUIRE(tape.executor.calls.size() == 1);
  CHECK(tape.executor.calls[0].inputs == 1);  // one seed, not two
  CHECK(tape.executor.calls[0].outputs == 1);
}

TEST_CASE("[T9] eager: dependencies come before their users") {
  CountedTape tape;
  const Var a = tape.leaf(3.0), b = tape.leaf(4.0);
  const Var z = tape.apply<prim::neg>(tape.apply<prim::add>(a, b));
  const auto gradients = tape.backward(z);
  REQUIRE(tape.executor.calls.size() == 2);
  CHECK(tape.executor.calls[0].node == "neg");
  CHECK(tape.executor.calls[1].node == "add");
  CHECK(gradients.at(a.who.key).value == -1.0);
  CHECK(gradients.at(b.who.key).value == -1.0);
}

TEST_CASE("[T9] eager: a graph of several operations is one node") {
  const RecordedGraph graph =
      graph_of(2, [](std::vector<Value> v) { return std::vector{v[0] * v[1] + v[1]}; });
  CountedTape tape;
  const Var x = tape.leaf(2.0), y = tape.leaf(3.0);
  const Var z = std::move(tape.apply(graph, {&x, &y}, false).front());
  CHECK(tape.recorder.num_recorded() == 1);
  const auto gradients = tape.backward(z);
  CHECK(gradients.at(x.who.key).value == 3.0);
  CHECK(gradients.at(y.who.key).value == 3.0);
}

TEST_CASE("[T9] eager: an inactive operand of a product has no entry") {
  CountedTape tape;
  const Var x = tape.leaf(3.0);
  Var y = tape.leaf(5.0);
  y.who.requires_grad = false;
  const auto gradients = tape.backward(tape.apply<prim::mul>(x, y));
  CHECK(gradients.at(x.who.key).value == 5.0);
  CHECK(gradients.find(y.who.key) == nullptr);
}

TEST_CASE("[T9] eager: a sum of three with an inactive one in the middle") {
  const RecordedGraph graph =
      graph_of(3, [](std::vector<Value> v) { return std::vector{v[0] + v[1] + v[2]}; });
  CountedTape tape;
  const Var a = tape.leaf(1.0), c = tape.leaf(3.0);
  Var b = tape.leaf(2.0);
  b.who.requires_grad = false;
  const auto gradients = tape.backward(std::move(tape.apply(graph, {&a, &b, &c}).front()));
  CHECK(gradients.size() == 2);
  CHECK(gradients.at(a.who.key).value == 1.0);
  CHECK(gradients.at(c.who.key).value == 1.0);
  CHECK(gradients.find(b.who.key) == nullptr);
}

TEST_CASE("[T9] eager: backward from the second output, and the saved values") {
  const RecordedGraph graph = graph_of(1, [](std::vector<Value> v) { return std::vector{v[0], -v[0]}; });
  eager::RecorderOptions options;
  options.save_everything = true;
  CountedTape tape(options);
  const Var x = tape.leaf(3.0);
  const std::vector<Var> y = tape.apply(graph, {&x});
  CHECK(y[0].who.trace);
  CHECK(y[0].who.trace == y[1].who.trace);
  const eager::NodeView node(y[1].who.trace);
  std::string saved;
  for (std::size_t i = 0; i < node.num_saved(); ++i) saved += node.saved_name(i) + ' ';
  CHECK(saved == "input 0 (f64[]) output 0 (f64[]) output 1 (f64[]) ");
  CHECK(tape.backward(y[1]).at(x.who.key).value == -1.0);
}

// An emitter whose values are numbers.
class Calculator final : public Emitter {
 public:
  Value number(double x) {
    numbers.push_back(x);
    return Value(this, static_cast<ValueId>(numbers.size() - 1));
  }
  double of(Value value) const { return numbers[value.id()]; }
  Type type_of(ValueId) const override { return f64; }
  Values emit(const Op& op, std::span<const Value> operands, Where) override {
    GraphBuilder builder;
    std::vector<Value> inputs;
    std::vector<double> in;
    for (const Value operand : operands) {
      inputs.push_back(builder.input(std::to_string(inputs.size()), f64));
      in.push_back(of(operand));
    }
    const Values outputs = builder.emit(op, inputs);
    Values results;
    for (const double x : interpret(builder.build(std::vector<Value>(outputs.begin(), outputs.end())), in))
      results.push_back(number(x));
    ++emitted;
    return results;
  }
  const PrimitiveSet& primitives() const override { return standard_primitives(); }
  std::vector<double> numbers;
  int emitted = 0;
};

TEST_CASE("[T9] transposing through an emitter that computes: a sum, and a fan-out") {
  const auto cotangents = [](const RecordedGraph& graph, double seed, int* emitted) {
    const Graph linear = linearize(graph.graph()).linear;
    Calculator calculator;
    const std::optional<Value> seeds[] = {calculator.number(seed)};
    std::vector<double> results;
    for (const auto& value : linear_transpose_with(calculator, linear, {}, {}, seeds))
      results.push_back(calculator.of(value.value()));
    *emitted = calculator.emitted;
    return results;
  };
  int emitted = 0;
  CHECK(cotangents(graph_of(2, [](std::vector<Value> v) { return std::vector{v[0] + v[1]}; }), 1.0,
                   &emitted) == std::vector<double>{1.0, 1.0});
  CHECK(emitted == 0);
  // The two cotangents of x are summed by the set's own sum.
  CHECK(cotangents(graph_of(1, [](std::vector<Value> v) { return std::vector{v[0] + v[0]}; }), 1.0,
                   &emitted) == std::vector<double>{2.0});
  CHECK(emitted == 1);
}

TEST_CASE("[T9] eager: two ops that read one leaf") {
  CountedTape tape;
  const Var x = tape.leaf(2.0), y = tape.leaf(3.0);
  const auto gradients = tape.backward(tape.apply<prim::add>(tape.apply<prim::mul>(x, y), x));
  CHECK(gradients.at(x.who.key).value == 4.0);
  CHECK(gradients.at(y.who.key).value == 2.0);
}

}  // namespace
}  // namespace tidu::test::counted
