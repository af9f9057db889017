// Cases of tests/data/conformance by the executor: planned, loaded, run plainly and replayed, with gradients,
// on the fake device and, where there is one, on this machine's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cpu/compare.hpp"
#include "cuda/fake_device.hpp"
#include "cuda/groups.hpp"
#include "cuda/machine.hpp"
#include "cuda/this_machine.hpp"
#include "support/shard.hpp"
#include "support/support.hpp"
#include "tidu/cuda.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/tensor/json.hpp"

namespace tidu::test::conformance_cases {
namespace {

struct Case {
  std::string name;
  Graph graph;
  std::vector<Tensor> inputs, expected;
};

// The graph of a case and its gradients, on inputs that the file has and ones for cotangents.
void add_cases(const std::filesystem::path& path, std::vector<Case>& cases) {
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

// Every so many files, and all with arrays without elements.
std::vector<Case> every(std::size_t stride) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/conformance"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Case> cases;
  Shard shard;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string name = paths[i].filename().string();
    const bool chosen =
        i % stride == 0 || name.find("empty") != std::string::npos || name.find("_none") != std::string::npos;
    if (chosen && shard.next()) add_cases(paths[i], cases);
  }
  return cases;
}

// Twice plainly put on a stream and captured, and replayed. Cases without a kernel yet are counted.
void check(const CudaExecutor& cuda, const std::vector<Case>& cases, std::size_t& refused) {
  for (const Case& one : cases) {
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

}  // namespace

TEST_CASE("Conformance cases on a fake device give what the reference executor gives") {
  const std::vector<Case> cases = every(12);
  // All kernels are compiled together.
  for (const Case& one : cases) {
    try {
      for (const cuda_detail::Node& node :
           cuda_detail::plan_nodes(optimize(with_control_flow_unrolled(one.graph))))
        Emulator::shared().add(node.plan);
    } catch (const Error&) {  // said below
    }
  }
  Emulator::shared().compile();
  const auto device = std::make_shared<FakeDevice>();
  std::size_t refused = 0;
  check(CudaExecutor(device, {}), cases, refused);
  CHECK_MESSAGE(device->faults().empty(), detail::list(device->faults()));
  CHECK(refused < cases.size() / 2);
  std::cout << cases.size() << " programs, " << refused << " without all their kernels\n";
}

TEST_CASE("every conformance case and its derivatives of first and second order have a plan") {
  const Machine machine;
  const auto plan = [&machine](const std::string& name, const Graph& graph) {
    try {
      (void)machine.cuda.compile(graph);
    } catch (const Error& error) {
      const std::string message = error.what();
      CHECK_MESSAGE(message.find("expected a kernel for the device") != std::string::npos, name, ": ",
                    message);
    }
  };
  std::size_t planned = 0;
  for (const Case& one : every(std::max<std::size_t>(1, 12 / scaled(12)))) {
    plan(one.name, one.graph);
    try {
      plan(one.name + " jvp", jvp(one.graph));
      const Graph reverse = vjp(one.graph);
      plan(one.name + " vjp", reverse);
      plan(one.name + " jvp of vjp", jvp(reverse));
    } catch (const Error&) {  // no derivative
    }
    ++planned;
  }
  CHECK(planned != 0);
}

TEST_CASE("Conformance cases on this machine's device, plain and replayed") {
  const CudaExecutor* const cuda = this_machine();
  if (cuda == nullptr) return;
  std::size_t refused = 0;
  check(*cuda, every(std::max<std::size_t>(1, 12 / scaled(12))), refused);
  CHECK(refused == 0);
}

}  // namespace tidu::test::conformance_cases
