// Every kernel of the conformance programs and their gradients compiles for sm_90.
#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cuda/groups.hpp"
#include "cuda/nvrtc.hpp"
#ifdef TIDU_WITH_ADBENCH
#include "adbench/problem.hpp"
#endif
#include "support/support.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/program/program.hpp"

namespace tidu::test {
namespace {

using cuda_detail::KernelSource;
using Kernels = std::map<std::string, std::shared_ptr<const KernelSource>>;

// Nodes of the program of a graph, or of as many operations as have a plan.
void add_kernels(const Graph& graph, Kernels& to, int& refused) {
  ProgramOptions options;
  options.fuse = options.block = false;
  const Program program = Program::make(graph, options);
  try {
    for (const cuda_detail::Node& node : cuda_detail::plan_nodes(program.graph())) {
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
  // In an order that mixes them, until the time is over.
  std::vector<std::size_t> order;
  const std::size_t stride = 37;
  for (std::size_t first = 0; first < stride; ++first) {
    for (std::size_t i = first; i < all.size(); i += stride) order.push_back(i);
  }
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  constexpr int seconds = 10;  // the compiler is not ours to look at
#else
  constexpr int seconds = 240;
#endif
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::mutex mutex;
  std::size_t next = 0, compiled = 0, spilling = 0;
  int most_registers = 0, most_shared = 0, most_stack = 0, most_spilled = 0;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (;;) {
      std::size_t i = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == order.size() || std::chrono::steady_clock::now() > end) return;
        i = order[next++];
      }
      const Compiled result = compile_for_device(*all[i]);
      const std::lock_guard lock(mutex);
      ++compiled;
      if (!result.ok) failures.push_back(all[i]->entry + "\n" + result.log + "\n" + all[i]->text);
      // A few bytes, of what a loop does not change, so that more threads are there at once: asked for no
      // more than two blocks, the assembler spills in half as many kernels and takes more registers in half
      // of all.
      spilling += result.spilled_bytes > 0 ? 1 : 0;
      most_spilled = std::max(most_spilled, result.spilled_bytes);
      most_registers = std::max(most_registers, result.registers);
      most_shared = std::max(most_shared, result.shared_bytes);
      most_stack = std::max(most_stack, result.stack_bytes);
    }
  };
  std::thread other(work);
  work();
  other.join();
  for (const std::string& failure : failures) CHECK_MESSAGE(false, failure);
  std::cout << "sm_90: " << compiled << " of " << all.size() << " kernels compiled"
            << (compiled < all.size() ? " (a sample: the time was over)" : "") << ", at most "
            << most_registers << " registers, " << most_shared << " bytes of shared memory, " << most_stack
            << " bytes of stack; " << spilling << " spill, at most " << most_spilled << " bytes; " << refused
            << " programs wait for a library\n";
}

}  // namespace tidu::test
