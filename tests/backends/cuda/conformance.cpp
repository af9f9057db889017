// Cases of tests/data/conformance by the executor: planned, loaded, run plainly and replayed, with gradients,
// on the fake device and, where there is one, on this machine's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cpu/compare.hpp"
#include "cuda/conformance_cases.hpp"
#include "cuda/fake_device.hpp"
#include "cuda/fuse.hpp"
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
TEST_CASE("Conformance cases on a fake device give what the reference executor gives") {
  const std::vector<ConformanceCase> cases = sampled_conformance_cases(12);
  // All kernels are compiled together.
  for (const ConformanceCase& one : cases) {
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
  check_conformance(CudaExecutor(device, {}), cases, refused);
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
  for (const ConformanceCase& one : sampled_conformance_cases(std::max<std::size_t>(1, 12 / scaled(12)))) {
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
  check_conformance(*cuda, sampled_conformance_cases(std::max<std::size_t>(1, 12 / scaled(12))), refused);
  CHECK(refused == 0);
}

}  // namespace tidu::test::conformance_cases
