// Every kernel of the conformance programs and their gradients compiles for sm_90.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cuda/fuse.hpp"
#include "cuda/nvrtc.hpp"
#ifdef TIDU_WITH_ADBENCH
#include "adbench/problem.hpp"
#endif
#include "support/support.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::test::compile_cases {
namespace {

using cuda_detail::KernelSource;
using Kernels = std::map<std::string, std::shared_ptr<const KernelSource>>;

// Nodes of the program of a graph, or of as many operations as have a plan.
void add_kernels(const Graph& graph, Kernels& to, int& refused) {
  const Graph optimized = optimize(with_control_flow_unrolled(graph));
  try {
    for (const cuda_detail::Node& node : cuda_detail::plan_nodes(optimized)) {
      for (const cuda_detail::Step& step : node.plan.steps) {
        if (const auto* launch = std::get_if<cuda_detail::Launch>(&step))
          to.emplace(launch->kernel->entry, launch->kernel);
      }
    }
  } catch (const Error&) {
    ++refused;  // a library's operation
  }
}

}  // namespace

TEST_CASE("kernels of the conformance programs, of ADBench and of their gradients compile for sm_90") {
  if (!has_nvrtc()) {
    std::cout << "SKIPPED: no NVRTC here, so no kernel is compiled for a device\n";
    return;
  }
  Kernels kernels;
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/conformance")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const auto content = nlohmann::json::parse(file);
    if (!content.contains("graph")) continue;
    const Graph graph = graph_from_json(content["graph"].dump());
    add_kernels(graph, kernels, refused);
    try {
      add_kernels(vjp(graph), kernels, refused);
    } catch (const Error&) {
      continue;  // no derivative
    }
  }
#ifdef TIDU_WITH_ADBENCH
  const auto data = source_dir() / "examples/data/adbench";
  for (const adbench::Problem& problem :
       {adbench::read_gmm(data / "gmm_1k_d10_K25.txt", false), adbench::read_ba(data / "ba_test.txt"),
        adbench::read_hand(data / "hand_test_complicated.txt", data / "model", true),
        adbench::read_lstm(data / "lstm_l2_c1024.txt", adbench::LstmForm::flat)}) {
    add_kernels(problem.objective, kernels, refused);
    add_kernels(problem.derivative, kernels, refused);
  }
#endif
  CHECK(kernels.size() > 100);
  std::vector<std::shared_ptr<const KernelSource>> all;
  for (const auto& [name, kernel] : kernels) all.push_back(kernel);
  // In an order that mixes them, so that a part of them is a sample.
  std::vector<std::shared_ptr<const KernelSource>> order;
  const std::size_t stride = 37;
  for (std::size_t first = 0; first < stride; ++first) {
    for (std::size_t i = first; i < all.size(); i += stride) order.push_back(all[i]);
  }
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  order.resize(order.size() / 20);  // the compiler is not ours to look at
#else
  if (shortened()) order.resize(order.size() / 10);
#endif
  std::mutex mutex;
  std::size_t next = 0, spilling = 0;
  int max_registers = 0, max_shared = 0, max_stack = 0, max_spilled = 0;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (;;) {
      std::span<const std::shared_ptr<const KernelSource>> some;
      {
        const std::lock_guard lock(mutex);
        some = std::span(order).subspan(next, std::min<std::size_t>(order.size() - next, 32));
        next += some.size();
      }
      if (some.empty()) return;
      const std::vector<Compiled> results = compile_for_device(some);
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < some.size(); ++i) {
        const Compiled& result = results[i];
        if (!result.ok) failures.push_back(some[i]->entry + "\n" + result.log + "\n" + some[i]->text);
        // A few bytes, of what a loop does not change, so that more threads are there at once: asked for no
        // more than two blocks, the assembler spills in half as many kernels and takes more registers in half
        // of all.
        spilling += result.spilled_bytes > 0 ? 1 : 0;
        max_spilled = std::max(max_spilled, result.spilled_bytes);
        max_registers = std::max(max_registers, result.registers);
        max_shared = std::max(max_shared, result.shared_bytes);
        max_stack = std::max(max_stack, result.stack_bytes);
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  for (const std::string& failure : failures) CHECK_MESSAGE(false, failure);
  std::cout << "sm_90: " << order.size() << " of " << all.size() << " kernels compiled, at most "
            << max_registers << " registers, " << max_shared << " bytes of shared memory, " << max_stack
            << " bytes of stack; " << spilling << " spill, at most " << max_spilled << " bytes; " << refused
            << " programs wait for a library\n";
}

TEST_CASE("of kernels that are compiled together the one that does not compile is told") {
  if (!has_nvrtc()) return;
  std::vector<std::shared_ptr<const KernelSource>> kernels;
  for (const std::string name : {"first", "second", "third"}) {
    const std::string value = name == "second" ? "missing" : "3.0";
    kernels.push_back(std::make_shared<const KernelSource>(
        KernelSource{name, "FN double value() { return " + value + "; }\nextern \"C\" __global__ void " +
                               name + "(double* out) { *out = value(); }\n"}));
  }
  const std::vector<Compiled> results = compile_for_device(kernels);
  CHECK(results[0].ok);
  CHECK(!results[1].ok);
  CHECK(results[1].log.find("missing") != std::string::npos);
  CHECK(results[2].ok);
  kernels.erase(kernels.begin() + 1);
  for (const Compiled& result : compile_for_device(kernels)) {
    CHECK(result.ok);
    CHECK(result.registers > 0);
  }
}

}  // namespace tidu::test::compile_cases
