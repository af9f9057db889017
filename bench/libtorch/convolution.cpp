// convolution.cpp - the rows of ../convolution.cpp by libtorch: forward, and forward with both gradients.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/GradMode.h>

#include <string>

namespace {

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
         std::to_string(threads) + "/libtorch";
}

void run(benchmark::State& state, const Layer& l, bool gradient, int threads, bool channels_last) {
  at::set_num_threads(threads);
  const c10::AutoGradMode no_recording(false);
  const auto format = channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const at::Tensor x = at::randn({l.batch, l.in, l.size, l.size}).contiguous(format);
  const at::Tensor w = at::randn({l.out, l.in, l.kernel, l.kernel}).contiguous(format);
  const at::IntArrayRef none;
  const std::int64_t stride[] = {l.stride, l.stride}, pad[] = {l.pad, l.pad}, one[] = {1, 1}, zero[] = {0, 0};
  const at::Tensor ct = at::randn_like(at::convolution(x, w, {}, stride, pad, one, false, zero, 1));
  for (auto _ : state) {
    at::Tensor y = at::convolution(x, w, {}, stride, pad, one, false, zero, 1);
    benchmark::DoNotOptimize(y);
    if (!gradient) continue;
    auto [dx, dw, db] = at::convolution_backward(ct, x, w, at::OptionalIntArrayRef(none), stride, pad, one,
                                                 false, zero, 1, {true, true, false});
    benchmark::DoNotOptimize(dx);
    benchmark::DoNotOptimize(dw);
  }
}

const bool registered = [] {
  for (const int threads : {1, 2}) {
    for (const Layer& l : layers) {
      for (const bool gradient : {false, true}) {
        for (const bool last : {false, true}) {
          benchmark::RegisterBenchmark(
              (name_of(l, gradient ? "gradient" : "forward", threads) + (last ? "_channels_last" : ""))
                  .c_str(),
              [=](benchmark::State& state) { run(state, l, gradient, threads, last); })
              ->Unit(benchmark::kMicrosecond)
              ->UseRealTime()
              ->MinTime(0.2);
        }
      }
    }
  }
  return true;
}();

}  // namespace
