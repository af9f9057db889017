// gemm_calls.hpp - calls of matmuls and elements for them.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cpu/matmul/gemm.hpp"

namespace tidu::test {

using cpu_detail::GemmCall;
using cpu_detail::GemmType;

template <class T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr GemmType value = GemmType::f32;
};
template <>
struct TypeOf<double> {
  static constexpr GemmType value = GemmType::f64;
};
template <>
struct TypeOf<std::complex<float>> {
  static constexpr GemmType value = GemmType::c64;
};
template <>
struct TypeOf<std::complex<double>> {
  static constexpr GemmType value = GemmType::c128;
};
template <>
struct TypeOf<std::int32_t> {
  static constexpr GemmType value = GemmType::i32;
};
template <>
struct TypeOf<std::int64_t> {
  static constexpr GemmType value = GemmType::i64;
};

/// Small integers, whose sums are exact in every type.
template <class T>
T random_element(std::mt19937& random) {
  std::uniform_int_distribution<int> digit(-9, 9);
  if constexpr (requires { typename T::value_type; }) {
    const auto re = static_cast<typename T::value_type>(digit(random));
    return T(re, static_cast<typename T::value_type>(digit(random)));
  } else {
    return static_cast<T>(digit(random));
  }
}

template <class T>
std::vector<T> random_elements(std::int64_t count, std::mt19937& random) {
  std::vector<T> v(static_cast<std::size_t>(count));
  for (T& x : v) x = random_element<T>(random);
  return v;
}

/// A call on rows without gaps, or with `gap` elements after each.
inline GemmCall make_call(GemmType type, bool trans_a, bool trans_b, std::int64_t m, std::int64_t n,
                          std::int64_t k, std::int64_t gap = 0) {
  GemmCall g;
  g.type = type;
  g.trans_a = trans_a;
  g.trans_b = trans_b;
  g.m = m;
  g.n = n;
  g.k = k;
  g.lda = (trans_a ? m : k) + gap;
  g.ldb = (trans_b ? k : n) + gap;
  g.ldc = n + gap;
  g.stride_a = (trans_a ? k : m) * g.lda;
  g.stride_b = (trans_b ? n : k) * g.ldb;
  g.stride_c = m * g.ldc;
  return g;
}

/// Is the last multiplication and addition of a sum one operation here? Then a sum that begins with 0.0, of
/// negative terms that round to zero, is -0.0. Compilers that do not optimise keep the two operations apart.
inline bool fuses_multiply_add() {
  GemmCall g;
  g.type = GemmType::f64;
  g.m = g.n = g.k = 16;
  g.lda = g.ldb = g.ldc = 16;
  const std::vector<double> a(256, 1e-300), b(256, -1e-300);
  std::vector<double> c(256);
  cpu_detail::gemm(g, a.data(), b.data(), c.data(), 1);
  return std::signbit(c[0]);
}

}  // namespace tidu::test
