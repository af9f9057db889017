// Constant folding: values that depend on constants alone are computed when a program is made, by the
// evaluator.
#include "simplify_support.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::test {

TEST_CASE("constants are folded by the evaluator that is given") {
  GraphBuilder builder("f");
  const Value x = builder.input("x", Type(f64, {4}));
  const Value ramp = ops::iota(builder, Type(f64, {4}), 0);
  const Value weights = ops::exp(ramp) / ops::broadcast_scalar(ops::reduce_sum(ops::exp(ramp), {0}), {4});
  const Value big = ops::sin(ops::iota(builder, Type(f64, {100000}), 0));
  const Graph graph = builder.build({x * weights, ops::reduce_sum(big, {0})});
  int calls = 0;
  const auto counted = [&](const Graph& constants) {
    ++calls;
    return evaluator(reference())(constants);
  };
  ProgramOptions options;
  const Program program = Program::make(graph, options, counted);
  CHECK(calls == 1);
  CHECK(program.graph().num_operations() == 5);  // a constant, mul; iota, sin, reduce_sum
  const Tensor at = Tensor::from<double>({4}, std::vector<double>{1, -2, 3, NAN});
  CHECK(same_bits(reference().run(graph, {at})[0], reference().run(program.graph(), {at})[0]));
  CHECK(Program::make(graph, options).graph().num_operations() > 5);
  Program::make(program.graph(), options, counted);
  CHECK(calls == 1);  // nothing left to fold
  options.constant_bytes = 16;
  CHECK(Program::make(graph, options, counted).graph().num_operations() > 5);
}

TEST_CASE("constants are folded only as far as they take little memory together") {
  GraphBuilder builder("f");
  std::vector<Value> outputs;
  for (int i = 0; i < 300; ++i)
    outputs.push_back(ops::exp(ops::constant(builder, Literal::scalar(f64, static_cast<double>(i)))));
  ProgramOptions options;
  options.constant_bytes = 8;
  const Graph graph = builder.build(outputs);
  const Graph folded = Program::make(graph, options, evaluator(reference())).graph();
  CHECK(folded.num_operations() == 256 + 2 * 44);
  CHECK(differences(reference(), graph, folded, {}) == "");
}

TEST_CASE("constants that cannot be computed stay, and an evaluator that returns other types is reported") {
  GraphBuilder builder("f");
  const Graph graph = builder.build({ops::exp(ops::iota(builder, Type(f64, {4}), 0))});
  const auto fails = [](const Graph&) -> std::vector<Literal> { throw Error(ErrorKind::execution, "no"); };
  CHECK(Program::make(graph, {}, fails).graph().num_operations() == 2);
  const auto other = [](const Graph&) -> std::vector<Literal> { return {Literal()}; };
  CHECK(Program::try_make(graph, {}, other).error().kind() == ErrorKind::execution);
}

}  // namespace tidu::test
