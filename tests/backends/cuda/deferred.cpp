// deferred.cpp - the tests of the CPU executor's kernels, for the kernels of a device: what they compare is
// kept, compiled together at the end of each test case and run on the host, or on this machine's device where
// that is chosen (this_machine.hpp).
#include "cpu/compare.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "cuda/rules.hpp"
#include "cuda/this_machine.hpp"
#include "support/shard.hpp"

namespace tidu::test {
namespace {

struct Case {
  Graph graph;
  std::vector<Tensor> inputs;
};
std::vector<Case>& kept() {
  static std::vector<Case> cases;
  return cases;
}

}  // namespace

std::vector<std::string> differences(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const CpuExecutor&) {
  static Shard shard;
  if (shard.next()) kept().push_back({graph, inputs});
  return {};
}

namespace {

void check(const Case& one, const std::vector<Tensor>& got, bool fuse) {
  const auto text = [&] { return to_text(one.graph); };
  const std::vector<Tensor> expected = reference().run(one.graph, one.inputs);
  for (std::size_t k = 0; k < got.size(); ++k) {
    const std::string found = difference(got[k], expected[k]);
    CHECK_MESSAGE(found.empty(), found, " fused ", fuse, "\n", text());
  }
}

void check_on(const CudaExecutor& device, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    for (const bool fuse : {false, true}) {
      try {
        check(one, run_there(device, one.graph, one.inputs, fuse), fuse);
      } catch (const Error& error) {
        CHECK_MESSAGE(false, error.what(), " fused ", fuse, "\n", to_text(one.graph));
      }
    }
  }
}

}  // namespace

void finish_checks() {
  const std::vector<Case> cases = std::exchange(kept(), {});
  if (const CudaExecutor* const device = chosen_device()) return check_on(*device, cases);
  Emulator& emulator = Emulator::shared();
  for (const bool fuse : {false, true}) {
    cuda_detail::NodeOptions options;
    options.fuse = fuse;
    std::vector<std::vector<cuda_detail::Node>> plans;
    for (const Case& each : cases) {
      plans.push_back(cuda_detail::plan_nodes(each.graph, options));
      for (const cuda_detail::Node& node : plans.back()) emulator.add(node.plan);
    }
    if (!Emulator::is_enabled()) continue;
    emulator.compile();
    for (std::size_t i = 0; i < cases.size(); ++i)
      check(cases[i], emulator.run(cases[i].graph, plans[i], cases[i].inputs), fuse);
  }
}

}  // namespace tidu::test
