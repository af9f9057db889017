// calls.cpp - the cost of calls and compilation: a small compiled function, and graphs of N operations.
#include <cmath>
#include <memory>
#include <tidu/frontend/functions.hpp>
#include <tidu/frontend/trace.hpp>
#include <tidu/linearize/transforms.hpp>
#include <vector>

#include "cpu/fusion/vector_ir.hpp"
#include "workload.hpp"

namespace workloads {
namespace {

using namespace tidu;

// sin(x) x + 1 of four numbers, through compile().
Workload call(const Setting& setting) {
  InputFile file(setting, "call");
  const Tensor x = file.next({f32, {4}});
  file.end();
  const auto f = compile([](const Array& a) { return sin(a) * a + 1; });
  const Array argument(x);
  Workload workload{.results = [=] { return std::vector<Tensor>{f(argument).tensor()}; },
                    .run = [=] { f(argument); }};
  const auto y = std::make_shared<std::vector<float>>(4);
  workload.bounds.push_back([=] {
    for (std::size_t i = 0; i < y->size(); ++i) {
      const float a = x.data<float>()[i];
      (*y)[i] = std::sin(a) * a + 1;
    }
  });
  return workload;
}

// A chain of so many operations of six kinds, in turn, on 16 numbers; the result is its sum.
Array chain(const Array& x, std::int64_t operations) {
  Array y = x;
  for (std::int64_t i = 0; i < operations; ++i) {
    switch (i % 6) {
      case 0: y = sin(y); break;
      case 1: y = y * x; break;
      case 2: y = tanh(y); break;
      case 3: y = y + x; break;
      case 4: y = exp(y); break;
      default: y = -y; break;
    }
  }
  return sum(y);
}

// Compilation of the chain's value and gradient; the timed part is Program::make and the CPU executor's
// compile, including the generation of code for fusions.
Workload compile_chain(const Setting& setting, std::int64_t operations) {
  InputFile file(setting, "compile");
  const Tensor x = file.next({f32, {16}});
  file.end();
  const Graph graph =
      value_and_grad(trace([operations](const Array& a) { return chain(a, operations); }, x.type()));
  CpuOptions options;
  options.threads = setting.threads;
  options.program = setting.program;
  const CpuExecutor executor = cpu().with_options(options);
  // A graph would come from the cache the second time, a Program is always compiled.
  const auto compiled = [=] {
    using cpu_detail::VectorJit;
    if (VectorJit* const code = VectorJit::get(VectorUnits::automatic)) code->clear();
    return executor.compile(Program::make(graph, options.program));
  };
  return {.results = [=] { return compiled().run({x}); }, .run = [=] { static_cast<void>(compiled()); }};
}

// A graph of 100 operations after compilation of an equal one, with which this one shares nothing. Each is
// used once: its structural key is computed on first use.
Workload cache_hit(const Setting& setting) {
  InputFile file(setting, "compile");
  const Tensor x = file.next({f32, {16}});
  file.end();
  const auto graph = [x] { return trace([](const Array& a) { return chain(a, 99); }, x.type()); };
  CpuOptions options;
  options.threads = setting.threads;
  options.program = setting.program;
  const CpuExecutor executor = cpu().with_options(options);
  const Executable kept = executor.compile(graph());
  struct Fresh {
    std::vector<Graph> graphs;
    std::size_t used = 0;
  };
  const auto fresh = std::make_shared<Fresh>();
  const auto before = [=](long runs) {
    *fresh = Fresh();
    for (long i = 0; i < runs; ++i) fresh->graphs.push_back(graph());
  };
  const auto run = [=] {
    static_cast<void>(kept);  // stays in the cache
    if (fresh->used == fresh->graphs.size()) before(1);
    static_cast<void>(executor.compile(fresh->graphs[fresh->used++]));
  };
  return {.results = [=] { return executor.compile(graph()).run({x}); }, .run = run, .before = before};
}

}  // namespace

void add_calls(Registry& registry) {
  registry["call"] = call;
  registry["cache_hit"] = cache_hit;
  for (const std::int64_t operations : {100, 1'000, 10'000, 100'000}) {
    registry["compile/" + std::to_string(operations)] = [operations](const Setting& setting) {
      return compile_chain(setting, operations);
    };
  }
}

}  // namespace workloads
