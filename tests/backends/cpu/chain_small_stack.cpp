// A program of a million operations is made, compiled, run and destroyed on a small stack.
#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;

TEST_CASE("a chain of a million operations") {
  const std::size_t count = test::scaled(1000000);
  double expected = 0.7;
  GraphBuilder builder("chain");
  const Value x = builder.input("x", f64);
  Value y = x;
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    y = ops::tanh(ops::add(ops::sin(ops::mul(y, x)), x));
    expected = std::tanh(std::sin(expected * 0.7) + 0.7);
  }
  const Program program = Program::make(builder.build({y}));
  CHECK(program.plan().slots.size() < 8);
  CHECK(program.workspace_bytes() < 128);
  const Executable executable = cpu().compile(program);
  CHECK(executable.num_instructions() == count / 4 * 4);
  for (int repeat = 0; repeat < 2; ++repeat)
    CHECK(executable.run({Tensor::scalar(0.7)})[0].item<double>() == expected);
}
