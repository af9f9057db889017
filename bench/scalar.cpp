// scalar.cpp - costs that do not depend on the number of elements: tensor/alloc makes and drops a tensor of N
// bytes (f32), cpu/op/scalar and cpu/op/32x16 run a compiled program of one operation (mul, sin) or two
// (sincos: sin and cos of one operand) into fresh tensors and drop them. Time is by call.
#include <benchmark/benchmark.h>

#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace {

using namespace tidu;

void allocate(benchmark::State& state) {
  const Type type(f32, {state.range(0) / 4});
  for (auto _ : state) {
    Tensor tensor(type);
    benchmark::DoNotOptimize(tensor);
  }
}

Graph mul(Type type) {
  GraphBuilder builder("mul");
  return builder.build({ops::mul(builder.input("x", type), builder.input("y", type))});
}
Graph sin(Type type) {
  GraphBuilder builder("sin");
  return builder.build({ops::sin(builder.input("x", type))});
}
Graph sincos(Type type) {
  GraphBuilder builder("sincos");
  const Value x = builder.input("x", type);
  return builder.build({ops::sin(x), ops::cos(x)});
}

void run(benchmark::State& state, Graph (*make)(Type), DType dtype, const Shape& shape) {
  const Executable executable = cpu().compile(make(Type(dtype, shape)));
  const Graph& graph = executable.program().graph();
  Tensor operand(Type(dtype, shape));
  for (std::int64_t i = 0; i < operand.size(); ++i) {
    if (dtype == f32) {
      operand.mutable_data<float>()[i] = 0.5F;
    } else {
      operand.mutable_data<double>()[i] = 0.5;
    }
  }
  const std::vector<const Tensor*> inputs(graph.inputs().size(), &operand);
  const std::size_t num_outputs = graph.outputs().size();
  for (auto _ : state) {
    Tensor outputs[2];
    executable.run_into(inputs, {outputs, num_outputs});
    benchmark::DoNotOptimize(outputs);
  }
}

void compile(benchmark::State& state) {
  const Graph graph = mul(f64);
  for (auto _ : state) {
    const Executable executable = cpu().compile(graph);
    benchmark::DoNotOptimize(executable);
  }
}

BENCHMARK(allocate)->Name("tensor/alloc")->Arg(8)->Arg(256)->Arg(2048)->Arg(8192);
BENCHMARK_CAPTURE(run, mul, mul, f64, {})->Name("cpu/op/scalar/mul");
BENCHMARK_CAPTURE(run, sin, sin, f64, {})->Name("cpu/op/scalar/sin");
BENCHMARK_CAPTURE(run, sincos, sincos, f64, {})->Name("cpu/op/scalar/sincos");
BENCHMARK_CAPTURE(run, mul, mul, f32, {32, 16})->Name("cpu/op/32x16/mul");
BENCHMARK(compile)->Name("cpu/op/compile")->Unit(benchmark::kMicrosecond);

}  // namespace
