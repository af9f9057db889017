// passes_left_out.cpp - programs compute the same with each rewrite of the CPU executor left out, and with
// all of them left out: a rewrite is never needed for another one's result.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/tidu.hpp"

namespace tidu::test::passes_left_out_cases {
namespace {

struct Case {
  std::string name;
  Graph graph;
  std::vector<Tensor> inputs, expected;
};

void add_case(std::vector<Case>& cases, const std::string& name, const Graph& graph,
              const std::vector<Tensor>& inputs) {
  cases.push_back({name, graph, inputs, reference().run(graph, std::span<const Tensor>(inputs))});
}

// Attention with its gradients: matmuls, softmax, heads by slices and transposes, a residual connection.
void add_attention(std::vector<Case>& cases) {
  const auto attention = [](const Array& x, const Array& w) {
    const Array all = matmul(x, w);  // [32, 96]
    std::vector<Array> heads;
    for (std::int64_t head = 0; head < 2; ++head) {
      const auto part = [&](std::int64_t first) {
        const std::int64_t from = 32 * first + 16 * head;
        return all.slice({Slice{0, 32}, Slice{from, from + 16}});
      };
      const Array scores = matmul(part(0), transpose(part(1))) * 0.25;
      heads.push_back(matmul(softmax(scores), part(2)));
    }
    const Array y = concatenate(heads, 1);
    return sum(tanh(y) * x + y * y);
  };
  std::mt19937_64 random(7);
  const std::vector<Tensor> inputs{random_tensor({f64, {32, 32}}, {-1, 1}, random),
                                   random_tensor({f64, {32, 96}}, {-0.3, 0.3}, random)};
  const Graph graph = trace(attention, inputs[0].type(), inputs[1].type());
  add_case(cases, "attention", value_and_grad(graph), inputs);
}

void add_conformance(std::vector<Case>& cases, std::size_t stride) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/conformance"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (std::size_t i = 0; i < paths.size(); i += stride) {
    std::ifstream file(paths[i]);
    const auto content = nlohmann::json::parse(file);
    const Graph graph = graph_from_json(content["graph"].dump());
    std::vector<Tensor> inputs;
    for (std::size_t k = 0; k < graph.inputs().size(); ++k)
      inputs.push_back(tensor_from_json(content["inputs"][std::string(graph.input_name(k))].dump()));
    add_case(cases, paths[i].filename().string(), graph, inputs);
  }
}

void check(const std::vector<Case>& cases, CpuPasses passes) {
  CpuOptions options;
  options.program.passes = passes;
  const CpuExecutor executor = cpu().with_options(options);
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const std::vector<Tensor> got = executor.run(one.graph, std::span<const Tensor>(one.inputs));
    REQUIRE(got.size() == one.expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string found = difference(got[i], one.expected[i], 1000);
      CHECK_MESSAGE(found.empty(), found);
    }
  }
}

}  // namespace

TEST_CASE("programs compute the same without each rewrite, and without all") {
  std::vector<Case> cases;
  add_attention(cases);
  add_conformance(cases, std::max<std::size_t>(1, 40 / scaled(20)));
  CpuPasses none;
  for (std::size_t i = 0; i < num_cpu_passes; ++i) {
    const auto pass = static_cast<CpuPass>(i);
    const std::string name(to_string(pass));
    CAPTURE(name);
    CHECK(cpu_pass_of(name) == pass);
    check(cases, CpuPasses().without(pass));
    none = none.without(pass);
    CHECK_FALSE(none.runs(pass));
  }
  check(cases, none);
  CHECK_FALSE(cpu_pass_of("no_such_pass").has_value());
}

TEST_CASE("a rewrite that is left out is not done") {
  GraphBuilder g("softmax");
  const Value x = g.input("x", {f32, {64, 64}});
  const Value e = ops::exp(x);
  const Graph graph = g.build({e / ops::broadcast_in_dim(ops::reduce_sum(e, {1}), Shape{64, 64}, Ints{0})});
  const auto text = [&](CpuPasses passes) {
    ProgramOptions options;
    options.passes = passes;
    return to_text(Program::make(graph, options));
  };
  CHECK(text({}) != text(CpuPasses().without(CpuPass::row_fusion)));
  CHECK(text({}) == text(CpuPasses().without(CpuPass::donation)));
}

}  // namespace tidu::test::passes_left_out_cases
