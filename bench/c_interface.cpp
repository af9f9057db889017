// c_interface.cpp - the cost of a call through the C interface beyond one in C++: c/call/N runs a compiled
// sin(x) x + 1 of N elements by Executable::run_into and by tidu_run_memory, in turns in one run. Time is
// that of both; cpp_ns and c_ns are the least of a batch by call, more_ns is their difference (goal: 100).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <vector>

#include "tidu/c.h"
#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace {

using namespace tidu;

Graph program_of(std::int64_t size) {
  GraphBuilder builder("call");
  const Value x = builder.input("x", Type(f64, {size}));
  return builder.build({ops::add(ops::mul(ops::sin(x), x), x)});
}

void ok(tidu_status status) {
  if (status != TIDU_OK) std::abort();
}

constexpr int batch = 1000;

template <class Call>
double nanoseconds(Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < batch; ++i) call();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  return time.count() / batch;
}

void call(benchmark::State& state) {
  const Graph graph = program_of(state.range(0));
  const Executable executable = cpu().compile(graph);
  const Tensor x = Tensor::zeros(graph.type(graph.inputs()[0]));
  const std::vector<const Tensor*> inputs{&x};
  std::vector<Tensor> outputs(1);

  const std::string json = to_json(graph);
  tidu_graph* loaded = nullptr;
  tidu_executor* executor = nullptr;
  tidu_executable* program = nullptr;
  ok(tidu_graph_from_json(json.data(), json.size(), nullptr, &loaded));
  ok(tidu_cpu_create(nullptr, &executor));
  ok(tidu_compile(executor, loaded, &program));
  std::vector<double> to(static_cast<std::size_t>(state.range(0)));
  const void* const from[] = {x.bytes()};
  void* const results[] = {to.data()};

  double cpp = std::numeric_limits<double>::max(), c = cpp;
  for (auto _ : state) {
    cpp = std::min(cpp, nanoseconds([&] { executable.run_into(inputs, outputs); }));
    c = std::min(c, nanoseconds([&] { ok(tidu_run_memory(program, from, 1, results, 1)); }));
  }
  state.counters["cpp_ns"] = cpp;
  state.counters["c_ns"] = c;
  state.counters["more_ns"] = c - cpp;
  tidu_executable_release(program);
  tidu_executor_release(executor);
  tidu_graph_release(loaded);
}

BENCHMARK(call)->Name("c/call")->Arg(1)->Arg(4)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace
