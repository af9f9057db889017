// compared_values.cpp - a program that recomputes a value may round it differently than the one that computed
// it first. Here recorded results differ by an ulp from those of the graph: the extremum of an intermediate
// value is still found among its elements, by the gradient and by the gradient of one output alone.
#include <cmath>

#include "p_support.hpp"

namespace tidu::test {
namespace {

// As a frontend whose kernels round otherwise than the executor's.
std::vector<Var> apply_rounded(Tape& tape, const RecordedGraph& graph, const Var& x) {
  std::vector<Tensor> results = reference().run(graph.graph(), {x.second});
  for (Tensor& result : results) {
    Tensor other(result.type());
    for (std::size_t i = 0; i < other.mutable_elements<double>().size(); ++i)
      other.mutable_elements<double>()[i] = std::nextafter(result.elements<double>()[i], 10.0);
    result = other;
  }
  std::vector<Var> made;
  const EagerInput<Tensor> input(x.first, x.second);
  auto outputs = tape.recorder.record_graph(graph, std::span(&input, 1), results);
  for (std::size_t i = 0; i < results.size(); ++i) made.emplace_back(std::move(outputs[i]), results[i]);
  return made;
}

using FunctionOfValue = Value (*)(const Value&);
void check_rounded(const char* name, FunctionOfValue make, const std::vector<double>& right) {
  CAPTURE(name);
  Tape tape;
  const Var x = tape.leaf(vec({0.3, 1.2, 0.7}));
  const RecordedGraph graph =
      graph_of(name, {x.second.type()}, [&](const auto& in) { return std::vector<Value>{make(in[0])}; });
  const Gradients<Tensor> gradients = backward(apply_rounded(tape, graph, x)[0]);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(gradients.at(x.first.key).elements<double>()[i] == doctest::Approx(right[i]).epsilon(1e-12));
}

TEST_CASE("an intermediate value is compared with the extremum that the same program computed") {
  check_rounded("maximum", [](const Value& x) { return ops::reduce_max(ops::sin(x), {0}); },
                {0, std::cos(1.2), 0});
  check_rounded("minimum", [](const Value& x) { return ops::reduce_min(ops::sin(x), {0}); },
                {std::cos(0.3), 0, 0});
  check_rounded("maximum of what was moved",
                [](const Value& x) {
                  const Value wide = ops::broadcast_in_dim(ops::exp(ops::neg(x)), {2, 3}, {1});
                  return ops::reduce_max(ops::reshape(wide, {6}), {0});
                },
                {-std::exp(-0.3), 0, 0});
  check_rounded("chosen where it is the maximum",
                [](const Value& x) {
                  const Value y = ops::sin(x);
                  const Value most = ops::broadcast_in_dim(ops::reduce_max(y, {0}), {3}, {});
                  const Value zero = ops::full_like(y, 0.0);
                  return ops::reduce_max(ops::select_n(ops::ge(y, most), zero, ops::square(y)), {0});
                },
                {0, 2 * std::sin(1.2) * std::cos(1.2), 0});
}

TEST_CASE("a compared value is recomputed for one output of several, too") {
  const Var at = Tape().leaf(vec({0.3, 1.2, 0.7}));
  const RecordedGraph graph = graph_of("two", {at.second.type()}, [](const auto& in) {
    const Value y = ops::sin(in[0]);
    const Value most = ops::reduce_max(y, {0});
    return std::vector<Value>{most, ops::exp(most * most)};
  });
  const double sine = std::sin(1.2), slope = std::cos(1.2);
  for (const std::size_t output : {0U, 1U}) {
    CAPTURE(output);
    Tape tape;
    const Var x = tape.leaf(vec({0.3, 1.2, 0.7}));
    const Gradients<Tensor> gradients = backward(apply_rounded(tape, graph, x)[output]);
    const Tensor& got = gradients.at(x.first.key);
    const double right = output == 0 ? slope : 2 * sine * std::exp(sine * sine) * slope;
    CHECK(got.elements<double>()[0] == 0.0);
    CHECK(got.elements<double>()[1] == doctest::Approx(right).epsilon(1e-12));
    CHECK(got.elements<double>()[2] == 0.0);
  }
}

// Keeps how many inputs each computation of residuals had.
class CountsInputs final : public Interpreted {
 public:
  Result<Values> execute_forward(const eager::GraphCall& call,
                                 std::span<const Tensor* const> inputs) const override {
    num_inputs.push_back(inputs.size());
    return Interpreted::execute_forward(call, inputs);
  }
  mutable std::vector<std::size_t> num_inputs;
};

TEST_CASE("the extremum of an operand is read where it was saved") {
  Tape tape;
  const Var x = tape.leaf(vec({0.3, 1.2, 0.7}));
  const RecordedGraph graph = graph_of("maximum", {x.second.type()}, [](const auto& in) {
    return std::vector<Value>{ops::reduce_max(in[0], {0})};
  });
  const CountsInputs executor;
  const Var most = tape.apply(graph, {x})[0];
  (void)eager::try_backward(most.first.key, most.first.trace, std::nullopt, executor, nullptr).value();
  CHECK(executor.num_inputs == std::vector<std::size_t>{2});  // x and its maximum
}

}  // namespace
}  // namespace tidu::test
