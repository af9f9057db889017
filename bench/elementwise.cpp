// elementwise.cpp - the chain of ten operations c = x^2, y = tanh(sin(x) x + e^-c) sqrt(c + 1) and its sum
// over 1,048,576 elements in f32: elementwise10/objective and elementwise10/derivative (value and gradient),
// by tidu and, with /bound behind the name, as one pass written by hand with the same vector functions. The
// last number is that of threads; the bound has one.
#include <benchmark/benchmark.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <random>
#include <string>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace {

using namespace tidu;

constexpr std::int64_t count = std::int64_t{1} << 20;

std::vector<float> elements() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-3, 3);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

Graph chain() {
  GraphBuilder builder("elementwise10");
  const Value x = builder.input("x", Type(f32, {count}));
  const Value c = ops::square(x);
  const Value inner = ops::add(ops::mul(ops::sin(x), x), ops::exp(ops::neg(c)));
  const Value y = ops::mul(ops::tanh(inner), ops::sqrt(ops::add(c, ops::full_like(c, 1.0))));
  return builder.build({ops::reduce_sum(y, {0})});
}

void run(benchmark::State& state, bool derivative, int threads) {
  CpuOptions options;
  options.threads = threads;
  const Graph graph = derivative ? value_and_grad(chain()) : chain();
  const Executable executable = cpu().with_options(options).compile(graph);
  const std::vector<Tensor> inputs = {Tensor::from<float>({count}, elements())};
  for (auto _ : state) benchmark::DoNotOptimize(executable.run(inputs));
  state.counters["peak_bytes"] = static_cast<double>(executable.program().peak_bytes());
}

#if defined(__x86_64__) && defined(__GLIBC__)
extern "C" {
__attribute__((target("avx2"))) __m256 _ZGVdN8v_sinf(__m256);
__attribute__((target("avx2"))) __m256 _ZGVdN8v_cosf(__m256);
__attribute__((target("avx2"))) __m256 _ZGVdN8v_expf(__m256);
__attribute__((target("avx2"))) __m256 _ZGVdN8v_tanhf(__m256);
__attribute__((target("avx512f"))) __m512 _ZGVeN16v_sinf(__m512);
__attribute__((target("avx512f"))) __m512 _ZGVeN16v_cosf(__m512);
__attribute__((target("avx512f"))) __m512 _ZGVeN16v_expf(__m512);
__attribute__((target("avx512f"))) __m512 _ZGVeN16v_tanhf(__m512);
}

// One pass: the sum, and the gradient where it is asked for. Vectors of g++ and clang++ have operators.
#define TIDU_ONE_PASS(NAME, TARGET, VECTOR, WIDTH, LOAD, STORE, SET, SQRT, FUNCTION)             \
  __attribute__((target(TARGET))) float NAME(const float* x, float* gradient, bool derivative) { \
    const VECTOR one = SET(1.0F), half = SET(0.5F);                                              \
    VECTOR sum = SET(0.0F);                                                                      \
    for (std::int64_t i = 0; i < count; i += (WIDTH)) {                                          \
      const VECTOR v = LOAD(x + i), c = v * v, s = FUNCTION##sinf(v), e = FUNCTION##expf(-c);    \
      const VECTOR t = FUNCTION##tanhf(s * v + e), r = SQRT(c + one);                            \
      sum += t * r;                                                                              \
      if (!derivative) continue;                                                                 \
      const VECTOR u = r * (one - t * t), p = t * (half / r) - u * e;                            \
      STORE(gradient + i, u * s + u * v * FUNCTION##cosf(v) + p * (v + v));                      \
    }                                                                                            \
    float lanes[WIDTH], all = 0;                                                                 \
    STORE(lanes, sum);                                                                           \
    for (const float lane : lanes) all += lane;                                                  \
    return all;                                                                                  \
  }
TIDU_ONE_PASS(one_pass_avx2, "avx2,fma", __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps,
              _mm256_sqrt_ps, _ZGVdN8v_)
TIDU_ONE_PASS(one_pass_avx512, "avx512f,avx512dq", __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps,
              _mm512_set1_ps, _mm512_sqrt_ps, _ZGVeN16v_)

void bound(benchmark::State& state, bool derivative) {
  const std::vector<float> x = elements();
  std::vector<float> gradient(count);
  const bool wide = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(wide ? one_pass_avx512(x.data(), gradient.data(), derivative)
                                  : one_pass_avx2(x.data(), gradient.data(), derivative));
    benchmark::ClobberMemory();
  }
}
#define TIDU_HAS_BOUND
#endif

const bool registered = [] {
  for (const bool derivative : {false, true}) {
    const std::string name = std::string("elementwise10/") + (derivative ? "derivative" : "objective");
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark(
          (name + "/" + std::to_string(threads)).c_str(),
          [derivative, threads](benchmark::State& state) { run(state, derivative, threads); })
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    }
#ifdef TIDU_HAS_BOUND
    if (__builtin_cpu_supports("avx2") == 0) continue;
    benchmark::RegisterBenchmark((name + "/bound").c_str(),
                                 [derivative](benchmark::State& state) { bound(state, derivative); })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
#endif
  }
  return true;
}();

}  // namespace
