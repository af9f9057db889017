// The growth of a process in a run beyond the prediction. Other tests would leave an allocator with holes
// that runs may or may not fill.
#include <doctest/doctest.h>

#include <cstdlib>
#if defined(__GLIBC__)

#include <malloc.h>

#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cpu/compare.hpp"
#include "tidu/linearize/transforms.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

// By how much the process grew at most while it ran, in bytes; nothing where pages of 2 MiB are used unasked.
template <class F>
std::optional<double> growth(const F& run) {
  std::ifstream huge("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string always;
  if (huge >> always && always == "[always]") return std::nullopt;
  const auto kilobytes = [](const std::string& of) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(of + ':', 0) == 0) return std::stod(line.substr(of.size() + 1));
    }
    return 0.0;
  };
  malloc_trim(0);
  std::ofstream clear("/proc/self/clear_refs");
  if (!(clear << 5 << std::flush)) return std::nullopt;
  const double before = kilobytes("VmRSS"), files = kilobytes("RssFile");
  run();
  return (kilobytes("VmHWM") - before - (kilobytes("RssFile") - files)) * 1024;
}

// The gradient of two layers without biases.
Graph layers(std::int64_t batch, std::int64_t width) {
  GraphBuilder g("layers");
  const Value w1 = g.input("w1", {f32, {width, width}}), w2 = g.input("w2", {f32, {width, width}});
  const Value hidden = ops::tanh(ops::matmul(g.input("x", {f32, {batch, width}}), w1));
  const Value loss = ops::reduce_sum(ops::square(ops::tanh(ops::matmul(hidden, w2))), {0, 1});
  return value_and_grad(g.build({loss}), {"w1", "w2"});
}

}  // namespace

TEST_CASE("[memory] the process grows by the predicted bytes in a run of many steps") {
  GraphBuilder g("steps");
  Value x = g.input("x", {f32, {40}});
  for (int i = 0; i < 60'000; ++i) x = i % 2 == 0 ? ops::cumsum(x, 0) : ops::rev(x, {0});
  const Executable executable = cpu().compile(g.build({x}));
  const std::vector<Tensor> inputs{Tensor(Type(f32, {40}))};
  const std::optional<double> grown = growth([&] { (void)executable.run(inputs); });
  if (!grown) {
    MESSAGE("skipped: what the process grows by is not to be had");
    return;
  }
  REQUIRE(executable.peak_bytes() > std::size_t{900'000});
  CHECK(*grown < 1.05 * static_cast<double>(executable.peak_bytes()));
  CHECK(*grown > 0.95 * static_cast<double>(executable.peak_bytes()));
}

TEST_CASE("[memory] the process grows by the predicted bytes when oneDNN multiplies") {
  std::mt19937_64 random(10);
  for (const std::int64_t batch : {1024, 256}) {
    const Graph graph = layers(batch, 1024);
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-1, 1}, random));
    CpuOptions first{.threads = 1}, second{.threads = 1};
    first.cached_bytes = second.cached_bytes - 1;  // memory of its own
    // Code that oneDNN generates, and memory that a thread keeps for matmuls.
    (void)CpuExecutor(first).compile(graph).run(inputs);
    const Executable executable = CpuExecutor(second).compile(graph);
    const std::optional<double> grown = growth([&] { (void)executable.run(inputs); });
    if (!grown) {
      MESSAGE("skipped: what the process grows by is not to be had");
      return;
    }
    CAPTURE(batch);
    CHECK(*grown < 1.05 * static_cast<double>(executable.peak_bytes()));
    CHECK(*grown > 0.95 * static_cast<double>(executable.peak_bytes()));
  }
}

#endif
