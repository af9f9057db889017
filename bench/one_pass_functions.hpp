// one_pass_functions.hpp - the pass, and its functions as backends/cpu/fusion/vector_x86_exponential.hpp and
// vector_x86_circular.hpp assemble them, for vectors V with the operations of one_pass_avx2.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace {

template <class V>
struct Functions {
  using Vector = typename V::Vector;

  template <std::size_t n>
  static Vector polynomial(Vector x, const float (&coefficients)[n]) {
    Vector p = V::set(coefficients[0]);
    for (std::size_t k = 1; k < n; ++k) p = V::fma(p, x, V::set(coefficients[k]));
    return p;
  }
  static constexpr float rounder = 0x1.8p23F;

  static Vector exp(Vector x) {
    constexpr float series[] = {0x1.6fee8cp-10F, 0x1.125792p-7F, 0x1.5553p-5F, 0x1.555466p-3F, 0.5F, 1, 1};
    const Vector bounded = V::below(x, 89);
    const Vector n = V::fma(bounded, V::set(1.4426950408889634F), V::set(rounder)),
                 whole = n - V::set(rounder);
    const Vector r = V::fnma(whole, V::set(-0x1.bd0106p-13F), V::fnma(whole, V::set(0x1.63p-1F), bounded));
    return V::scaled(polynomial(r, series), n, whole, x);
  }

  static Vector tanh(Vector x) {
    constexpr float over[] = {0x1.987c02p-17F, 0x1.3e88e8p-7F};
    constexpr float under[] = {0x1.412c02p-23F, 0x1.d7fc06p-12F, 0x1.08ba1ep-3F, 3.5F};
    const Vector t = V::below(V::above(x, -9.02F), 9.02F) * V::set(1.75F), u = t * t;
    const Vector q = polynomial(u, under), n = V::fma(t * u, polynomial(u, over), t);
    return (n + n) * q / V::fma(q, q, n * n);
  }

  static Vector sine_and_cosine(Vector x, Vector& cosine) {
    constexpr float sines[] = {-0x1.98fd4ap-13F, 0x1.11066ap-7F, -0x1.555544p-3F};
    constexpr float cosines[] = {0x1.99ab10p-16F, -0x1.6c0b52p-10F, 0x1.555548p-5F};
    Vector r = V::magnitude(x);
    const Vector n = V::fma(r, V::set(0x1.45f306dc9c883p-1F), V::set(rounder)), whole = n - V::set(rounder);
    for (const float part : {0x1.921fb6p+0F, -0x1.777a5cp-25F, -0x1.ee59dap-50F})
      r = V::fnma(whole, V::set(part), r);
    const Vector z = r * r;
    const Vector s = V::fma(polynomial(z, sines), r * z, r);
    const Vector c = V::fma(polynomial(z, cosines), z * z, V::fma(V::set(-0.5F), z, V::set(1)));
    return V::transposed(x, n, s, c, cosine);
  }
};

template <class V>
float pass(const float* x, float* gradient, std::int64_t count, bool derivative) {
  using Vector = typename V::Vector;
  using F = Functions<V>;
  const Vector one = V::set(1), half = V::set(0.5F);
  Vector sum = V::set(0);
  for (std::int64_t i = 0; i < count; i += V::width) {
    const Vector v = V::load(x + i), c = v * v, e = F::exp(-c), r = V::sqrt(c + one);
    Vector cosine;
    const Vector s = F::sine_and_cosine(v, cosine), t = F::tanh(V::fma(s, v, e));
    sum = V::fma(t, r, sum);
    if (!derivative) continue;
    const Vector u = r * V::fnma(t, t, one), p = t * (half / r) - u * e;
    V::store(gradient + i, V::fma(u, V::fma(v, cosine, s), p * (v + v)));
  }
  float lanes[V::width], all = 0;
  V::store(lanes, sum);
  for (const float lane : lanes) all += lane;
  return all;
}

}  // namespace
