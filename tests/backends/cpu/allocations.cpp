// Small programs allocate nothing when they run again: every conformance case and its VJP whose results fit
// in the pool's blocks, and row fusions run one by one, with every kind of vector code.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cpu/compare.hpp"
#include "graph/counting_allocator.hpp"
#include "support/support.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/graph/pool.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/tensor/json.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

// Bytes asked of operator new by a run after three others, whose outputs it replaces.
std::size_t allocated_by_a_run(const Executable& executable, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  std::vector<Tensor> outputs(executable.program().graph().outputs().size());
  for (int i = 0; i < 3; ++i) executable.run_into(pointers, outputs);
  const std::size_t before = allocated_bytes();
  executable.run_into(pointers, outputs);
  return allocated_bytes() - before;
}

// Whether results of these types come from the pool, as tensors do that fit beside their header.
bool results_are_small(const Graph& graph) {
  return std::all_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](ValueId id) { return graph.type(id).bytes() <= detail::pool_largest - 64; });
}

// The sum of squares of each row's softmax.
Graph softmax_of_rows(Type type) {
  GraphBuilder builder("softmax");
  const Value x = builder.input("x", type);
  const Value e = ops::exp(ops::sub(x, ops::broadcast_in_dim(ops::reduce_max(x, {1}), type.shape(), {0})));
  const Value y = ops::div(e, ops::broadcast_in_dim(ops::reduce_sum(e, {1}), type.shape(), {0}));
  return builder.build({ops::reduce_sum(ops::square(y), {1})});
}

std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  std::mt19937_64 random(1);
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
  return inputs;
}

CpuExecutor with_units(VectorUnits units) {
  CpuOptions options;
  options.threads = 1;
  options.vector_units = units;
  return CpuExecutor(options);
}

#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
constexpr bool pooled = false;  // nothing is, so that the sanitizer sees it
#else
constexpr bool pooled = true;
#endif

}  // namespace

TEST_CASE("conformance cases of small results and their VJPs allocate nothing when run again") {
  if (!pooled) return;
  std::size_t programs = 0;
  for (const VectorUnits units : {VectorUnits::automatic, VectorUnits::none}) {
    const CpuExecutor executor = with_units(units);
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/conformance")) {
      const std::string name = entry.path().stem().string();
      // In f32 matrices are decomposed in f64, in vectors of their own.
      const bool in_f64 = name == "cholesky_f32" || name == "custom_linear_solve_f32_plain" ||
                          name == "custom_root_f32_plain";
      if (entry.path().extension() != ".json" || in_f64) continue;
      INFO(name);
      std::ifstream file(entry.path());
      const auto content = nlohmann::json::parse(file);
      const Graph graph = graph_from_json(content["graph"].dump());
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < graph.inputs().size(); ++i)
        inputs.push_back(tensor_from_json(content["inputs"][std::string(graph.input_name(i))].dump()));
      const auto check = [&](const Graph& made, const std::string& what) {
        if (!results_are_small(made)) return;
        for (std::size_t i = inputs.size(); i < made.inputs().size(); ++i)
          inputs.push_back(Tensor::zeros(made.type(made.inputs()[i])));
        CHECK_MESSAGE(allocated_by_a_run(executor.compile(made), inputs) == 0, what);
        ++programs;
      };
      check(graph, "as it is");
      if (const Result<Graph> reverse = try_vjp(graph)) check(*reverse, "its VJP");
    }
  }
  CHECK(programs > 1000);
}

TEST_CASE("row fusions allocate nothing when run again, by vector code or one operation at a time") {
  if (!pooled) return;
  const Graph graph = softmax_of_rows({f32, {50, 700}});
  for (const VectorUnits units : {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none})
    CHECK(allocated_by_a_run(with_units(units).compile(graph), random_inputs(graph)) == 0);
}

TEST_CASE("large temporaries come back without asking the system again") {
  if (!pooled) return;
  GraphBuilder builder("products");
  const Value x = builder.input("x", {f64, {300, 300}});
  const Value y = ops::tanh(ops::matmul(ops::tanh(ops::matmul(x, x)), x));
  const Graph graph = builder.build({ops::reduce_sum(y, {0, 1})});
  CHECK(allocated_by_a_run(with_units(VectorUnits::automatic).compile(graph), random_inputs(graph)) == 0);
}
