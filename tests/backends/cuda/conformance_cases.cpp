// conformance_cases.cpp - cases read from files, and run by an executor.
#include "cuda/conformance_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cpu/compare.hpp"
#include "support/shard.hpp"
#include "support/support.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/reference/executor.hpp"
#include "tidu/tensor/json.hpp"

namespace tidu::test {
namespace {

// The graph of a case and its gradients, on inputs that the file has and ones for cotangents.
void add_cases(const std::filesystem::path& path, std::vector<ConformanceCase>& cases) {
  std::ifstream file(path);
  const auto content = nlohmann::json::parse(file);
  if (!content["expect"].contains("vjp")) return;  // a loop without a bound, which a device has not
  const Graph graph = graph_from_json(content["graph"].dump());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    inputs.push_back(tensor_from_json(content["inputs"][std::string(graph.input_name(i))].dump()));
  const auto add = [&](const char* what, const Graph& made, const std::vector<Tensor>& on) {
    cases.push_back(
        {path.stem().string() + what, made, on, reference().run(made, std::span<const Tensor>(on))});
  };
  add("", graph, inputs);
  try {
    const Graph reverse = vjp(graph);
    std::vector<Tensor> seeded = inputs;
    for (std::size_t i = inputs.size(); i < reverse.inputs().size(); ++i)
      seeded.push_back(ones(reverse.type(reverse.inputs()[i])));
    add(" backward", reverse, seeded);
  } catch (const Error&) {  // no derivative
  }
}

}  // namespace

std::vector<ConformanceCase> sampled_conformance_cases(std::size_t stride,
                                                       std::span<const std::string_view> named) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/conformance"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<ConformanceCase> cases;
  Shard shard;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string name = paths[i].filename().string();
    const bool chosen = i % stride == 0 || name.find("empty") != std::string::npos ||
                        name.find("_none") != std::string::npos ||
                        std::find(named.begin(), named.end(), paths[i].stem().string()) != named.end();
    if (chosen && shard.next()) add_cases(paths[i], cases);
  }
  return cases;
}

void check_conformance(const CudaExecutor& cuda, const std::vector<ConformanceCase>& cases,
                       std::size_t& refused) {
  for (const ConformanceCase& one : cases) {
    INFO(one.name);
    try {
      const CudaExecutable program = cuda.compile(one.graph);
      std::vector<Tensor> there;
      for (const Tensor& input : one.inputs) there.push_back(cuda.put(input).value());
      for (int round = 0; round < 3; ++round) {
        const std::vector<Tensor> got = program.run(std::span<const Tensor>(there));
        REQUIRE(got.size() == one.expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::string found = difference(got[i], one.expected[i], 100);
          CHECK_MESSAGE(found.empty(), found);
        }
      }
    } catch (const Error& error) {
      const std::string message = error.what();
      CHECK_MESSAGE(message.find("expected a kernel for the device") != std::string::npos, message);
      ++refused;
    }
  }
}

}  // namespace tidu::test
