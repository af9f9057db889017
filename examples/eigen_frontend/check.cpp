// check.cpp - runs the executor kit on the executor of this folder, as a test of a frontend does. The kit's
// own graphs are of the standard primitives, which this executor does not have, so the test passes a graph of
// its own, and an oracle with kernels for numbers: matrices of one element are enough to detect a wrong
// method.
#include <cmath>
#include <iostream>
#include <tidu/check/executor_kit.hpp>
#include <tidu/graph/builder.hpp>
#include <tidu/reference/executor.hpp>

#include "frontend.hpp"

namespace {

using namespace tidu;
using mini::Mat;
using mini::Matrix;

ReferenceExecutor oracle() {
  const auto with = [](const ReferenceExecutor& executor, const char* name, auto function) {
    return executor.with_kernel(
        name, [function](const KernelCall& call) { *call.output().mutable_data<double>() = function(call); });
  };
  const auto x = [](const KernelCall& c) { return c.input(0).item<double>(); };
  const auto y = [](const KernelCall& c) { return c.input(1).item<double>(); };
  ReferenceExecutor made;
  made = with(made, "mini.add", [=](const KernelCall& c) { return x(c) + y(c); });
  made = with(made, "mini.mul", [=](const KernelCall& c) { return x(c) * y(c); });
  made = with(made, "mini.matmul", [=](const KernelCall& c) { return x(c) * y(c); });
  made = with(made, "mini.scale",
              [=](const KernelCall& c) { return x(c) * Tensor(c.op().literal("factor")).item<double>(); });
  made = with(made, "mini.tanh", [=](const KernelCall& c) { return std::tanh(x(c)); });
  return with(made, "mini.transpose", x);
}

// (tanh(x w) ∘ w)ᵀ and tanh(x w)
Graph some_graph() {
  GraphBuilder builder("some graph", mini::primitives());
  const auto emit = [](const char* name, std::initializer_list<Value> operands) {
    return emit1(Op::make(*mini::primitives().find(name)), operands);
  };
  const Value x = builder.input("x", f64), w = builder.input("w", f64);
  const Value h = emit("mini.tanh", {emit("mini.matmul", {x, w})});
  return builder.build({emit("mini.transpose", {emit("mini.mul", {h, w})}), h});
}

}  // namespace

int main() {
  const OperandConversion<Mat> conversion{
      [](const Tensor& tensor) {
        return std::make_shared<const Matrix>(Matrix::Constant(1, 1, tensor.item<double>()));
      },
      [](const Mat& matrix) { return Tensor::scalar((*matrix)(0, 0)); }};
  const ReferenceExecutor numbers = oracle();
  ExecutorKitOptions options;
  options.dtypes = {};    // no graphs of the standard primitives
  options.typed = false;  // operands have no type that the executor could look at
  options.more_graphs = {some_graph()};
  options.oracle = &numbers;
  const ExecutorReport report = check_executor(mini::Executor(), conversion, options);
  std::cout << to_text(report);
  return report.ok ? 0 : 1;
}
