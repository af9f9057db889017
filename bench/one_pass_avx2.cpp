// one_pass_avx2.cpp - the pass for AVX2.
#include "one_pass.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#include "one_pass_functions.hpp"

namespace {

struct Avx2 {
  using Vector = __m256;
  static constexpr std::int64_t width = 8;
  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Vector v) { _mm256_storeu_ps(to, v); }
  static Vector set(float v) { return _mm256_set1_ps(v); }
  static Vector sqrt(Vector v) { return _mm256_sqrt_ps(v); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  static Vector fnma(Vector a, Vector b, Vector c) { return _mm256_fnmadd_ps(a, b, c); }
  static Vector below(Vector v, float bound) { return _mm256_min_ps(set(bound), v); }
  static Vector above(Vector v, float bound) { return _mm256_max_ps(set(bound), v); }
  static Vector magnitude(Vector v) {
    return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX)));
  }
  // p 2^n for the whole number in the low bits of n; 0 where x is below -87, which makes subnormal numbers.
  static Vector scaled(Vector p, Vector n, Vector, Vector x) {
    const __m256i power = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
    const Vector product = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power));
    return _mm256_and_ps(product, _mm256_cmp_ps(x, set(-87), _CMP_NLT_US));
  }
  // The sine of x, which is s or c as the bits of n say, and the cosine.
  static Vector transposed(Vector x, Vector n, Vector s, Vector c, Vector& cosine) {
    const __m256i bits = _mm256_castps_si256(n);
    const Vector odd = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 31)), sign = set(-0.0F);
    const auto with_sign = [&](Vector v, Vector of) { return _mm256_xor_ps(v, _mm256_and_ps(of, sign)); };
    const Vector of_sine = _mm256_xor_ps(_mm256_castsi256_ps(_mm256_slli_epi32(bits, 30)), x);
    const __m256i next = _mm256_add_epi32(bits, _mm256_set1_epi32(1));
    cosine = with_sign(_mm256_blendv_ps(c, s, odd), _mm256_castsi256_ps(_mm256_slli_epi32(next, 30)));
    return with_sign(_mm256_blendv_ps(s, c, odd), of_sine);
  }
};

}  // namespace

bench::OnePass bench::one_pass_avx2() { return pass<Avx2>; }

#else
bench::OnePass bench::one_pass_avx2() { return nullptr; }
#endif
