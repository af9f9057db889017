// one_pass.cpp - the pass with glibc's vector functions, and the list of passes.
#include "one_pass.hpp"

#if defined(__x86_64__) && defined(__GLIBC__)
#include <immintrin.h>

namespace {

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

// Vectors of g++ and clang++ have operators.
#define TIDU_ONE_PASS(NAME, TARGET, VECTOR, WIDTH, LOAD, STORE, SET, SQRT, FUNCTION)              \
  __attribute__((target(TARGET))) float NAME(const float* x, float* gradient, std::int64_t count, \
                                             bool derivative) {                                   \
    const VECTOR one = SET(1.0F), half = SET(0.5F);                                               \
    VECTOR sum = SET(0.0F);                                                                       \
    for (std::int64_t i = 0; i < count; i += (WIDTH)) {                                           \
      const VECTOR v = LOAD(x + i), c = v * v, s = FUNCTION##sinf(v), e = FUNCTION##expf(-c);     \
      const VECTOR t = FUNCTION##tanhf(s * v + e), r = SQRT(c + one);                             \
      sum += t * r;                                                                               \
      if (!derivative) continue;                                                                  \
      const VECTOR u = r * (one - t * t), p = t * (half / r) - u * e;                             \
      STORE(gradient + i, u * s + u * v * FUNCTION##cosf(v) + p * (v + v));                       \
    }                                                                                             \
    float lanes[WIDTH], all = 0;                                                                  \
    STORE(lanes, sum);                                                                            \
    for (const float lane : lanes) all += lane;                                                   \
    return all;                                                                                   \
  }
TIDU_ONE_PASS(one_pass_mvec_avx2, "avx2,fma", __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps,
              _mm256_sqrt_ps, _ZGVdN8v_)
TIDU_ONE_PASS(one_pass_mvec_avx512, "avx512f,avx512dq", __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps,
              _mm512_set1_ps, _mm512_sqrt_ps, _ZGVeN16v_)

}  // namespace

namespace bench {
std::vector<OnePass> one_passes() {
  std::vector<OnePass> found;
  const auto add = [&found](OnePass own, OnePass of_glibc) {
    if (own != nullptr) found.push_back(own);
    found.push_back(of_glibc);
  };
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0)
    add(one_pass_avx512(), one_pass_mvec_avx512);
  else if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
    add(one_pass_avx2(), one_pass_mvec_avx2);
  return found;
}
}  // namespace bench

#else
namespace bench {
std::vector<OnePass> one_passes() { return {}; }
}  // namespace bench
#endif
