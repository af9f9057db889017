// one_pass_avx512.cpp - the pass for AVX-512.
#include "one_pass.hpp"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>

#include "one_pass_functions.hpp"

namespace {

struct Avx512 {
  using Vector = __m512;
  static constexpr std::int64_t width = 16;
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vector v) { _mm512_storeu_ps(to, v); }
  static Vector set(float v) { return _mm512_set1_ps(v); }
  static Vector sqrt(Vector v) { return _mm512_sqrt_ps(v); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  static Vector fnma(Vector a, Vector b, Vector c) { return _mm512_fnmadd_ps(a, b, c); }
  static Vector below(Vector v, float bound) { return _mm512_min_ps(set(bound), v); }
  static Vector above(Vector v, float bound) { return _mm512_max_ps(set(bound), v); }
  static Vector magnitude(Vector v) { return _mm512_abs_ps(v); }
  // p 2^whole, where x is not far below zero.
  static Vector scaled(Vector p, Vector, Vector whole, Vector x) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, set(-104), _CMP_NLT_US), p, whole);
  }
  // The sine of x, which is s or c as the bits of n say, and the cosine.
  static Vector transposed(Vector x, Vector n, Vector s, Vector c, Vector& cosine) {
    const __m512i bits = _mm512_castps_si512(n), one = _mm512_set1_epi32(1);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, one);
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const auto with_sign = [&](Vector v, __m512i of) {
      return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(v), of, sign, 0x78));
    };
    const __m512i of_sine = _mm512_xor_epi32(_mm512_slli_epi32(bits, 30), _mm512_castps_si512(x));
    cosine = with_sign(_mm512_mask_blend_ps(odd, c, s), _mm512_slli_epi32(_mm512_add_epi32(bits, one), 30));
    return with_sign(_mm512_mask_blend_ps(odd, s, c), of_sine);
  }
};

}  // namespace

bench::OnePass bench::one_pass_avx512() { return pass<Avx512>; }

#else
bench::OnePass bench::one_pass_avx512() { return nullptr; }
#endif
