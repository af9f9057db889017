// step_graph.cpp - the steps of small programs before and after step passes, against what the passes promise:
// which operations are absorbed, and which values need no buffer.
#include "cpu/steps/step_passes.hpp"

#include <algorithm>

#include "cpu/compare.hpp"
#include "cpu/fusion/vector_ir.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace {

// A StepGraph together with everything it refers to.
struct Steps {
  explicit Steps(const Graph& of, const ProgramOptions& program_options = {})
      : program(Program::make(of, program_options)),
        options(compile_options()),
        plans(program, options, kernels, std::make_shared<Arena>(0), call_site),
        graph(program, plans, options, call_site, false, ~std::size_t{0}) {}
  static CompileOptions compile_options() {
    CompileOptions options;
    options.vector_jit = VectorJit::get(VectorUnits::automatic);
    return options;
  }
  std::size_t num_absorbed() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(graph.steps(), [](const Step& step) { return step.absorbed; }));
  }

  Program program;
  KernelTable kernels;
  CompileOptions options;
  CallSite call_site;
  OperationPlans plans;
  StepGraph graph;
};

// w - 0.5 a b, for square matrices.
Graph descent(std::int64_t n) {
  GraphBuilder g("descent");
  const Type type(f32, {n, n});
  const Value w = g.input("w", type), a = g.input("a", type), b = g.input("b", type);
  return g.build({ops::sub(w, ops::mul(ops::full(g, type, 0.5), ops::matmul(a, b)))});
}

}  // namespace

TEST_CASE("[step graph] a matmul epilogue absorbs the matmul, whose result has no buffer") {
  Steps steps(descent(200));
  REQUIRE(steps.graph.has_composites());
  const std::size_t before = steps.program.plan().large_bytes;
  CHECK(before >= 200 * 200 * sizeof(float));
  run_step_passes(steps.graph);
  CHECK(steps.num_absorbed() == 1);
  const auto has_plan = [](const Step& step) { return step.plan != nullptr; };
  CHECK(std::ranges::count_if(steps.graph.steps(), has_plan) == 1);
  CHECK(steps.graph.assign_buffers().plan().large_bytes == 0);
}

TEST_CASE("[step graph] without passes the steps are those of the schedule, with its buffers") {
  ProgramOptions options;
  for (const StepPassEntry& pass : step_passes) options.passes = options.passes.without(pass.name);
  Steps steps(descent(200), options);
  run_step_passes(steps.graph);
  CHECK(steps.num_absorbed() == 0);
  CHECK(steps.graph.changed_operations() == std::vector<bool>(steps.program.graph().num_operations(), false));
  CHECK(steps.graph.assign_buffers().plan().large_bytes == steps.program.plan().large_bytes);
}

TEST_CASE("[step graph] a program of single operations has steps only if a pass needs them") {
  GraphBuilder g("single");
  const Value x = g.input("x", Type(f64, {3, 5}));
  Steps steps(g.build({ops::transpose(x, {1, 0})}));
  run_step_passes(steps.graph);
  CHECK(steps.graph.empty());
  CHECK(steps.graph.changed_operations().empty());
}

TEST_CASE("[step graph] each pass is in the list once, in the order of CpuPass") {
  for (std::size_t i = 1; i < std::size(step_passes); ++i)
    CHECK(static_cast<int>(step_passes[i - 1].name) < static_cast<int>(step_passes[i].name));
}
