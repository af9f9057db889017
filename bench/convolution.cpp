// convolution.cpp - convolutions in f32, forward and with both gradients:
// convolution/<shape>/<part>/<threads>. A shape is batch x features x size, kernel x features out; the part
// is `forward` or `gradient` (value and both cotangents). The first two are the layers of a small net on 28 x
// 28 images, the others common layers of larger ones. bench/libtorch has the same rows. Times are of one
// call, in microseconds.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/convolution.hpp"

namespace {

using namespace tidu;

struct Layer {
  std::int64_t batch, in, size, kernel, out, pad, stride;
};
constexpr Layer layers[] = {{64, 1, 28, 5, 16, 0, 1},
                            {64, 16, 12, 5, 32, 0, 1},
                            {8, 64, 56, 3, 64, 1, 1},
                            {8, 64, 56, 3, 128, 1, 2},
                            {8, 256, 14, 1, 256, 0, 1}};

std::string name_of(const Layer& l, const char* what, int threads) {
  const auto text = [](std::int64_t n) { return std::to_string(n); };
  return "convolution/" + text(l.batch) + "x" + text(l.in) + "x" + text(l.size) + "," + text(l.kernel) + "x" +
         text(l.out) + (l.stride > 1 ? ",stride" + text(l.stride) : "") + "/" + what + "/" +
         std::to_string(threads);
}

void run(benchmark::State& state, const Layer& l, bool gradient, int threads) {
  GraphBuilder builder("layer");
  const Value x = builder.input("x", Type(f32, {l.batch, l.in, l.size, l.size}));
  const Value w = builder.input("w", Type(f32, {l.out, l.in, l.kernel, l.kernel}));
  const Value y = ops::conv_general_dilated(
      x, w, {.window_strides = {l.stride, l.stride}, .padding = {{l.pad, l.pad}, {l.pad, l.pad}}});
  const Graph forward = builder.build({y});
  const Graph graph = gradient ? vjp(forward) : forward;
  CpuOptions options;
  options.threads = threads;
  const Executable executable = cpu().with_options(options).compile(graph);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    std::vector<float> elements(static_cast<std::size_t>(graph.type(id).size()));
    for (float& element : elements) element = normal(random);
    inputs.push_back(Tensor::from<float>(graph.type(id).shape(), elements));
  }
  for (auto _ : state) benchmark::DoNotOptimize(executable.run(inputs));
}

const bool registered = [] {
  for (const int threads : {1, 2}) {
    for (const Layer& l : layers) {
      for (const bool gradient : {false, true}) {
        benchmark::RegisterBenchmark(
            name_of(l, gradient ? "gradient" : "forward", threads).c_str(),
            [l, gradient, threads](benchmark::State& state) { run(state, l, gradient, threads); })
            ->Unit(benchmark::kMicrosecond)
            ->UseRealTime()
            ->MinTime(0.2);
      }
    }
  }
  return true;
}();

}  // namespace
