// gemm_inner.hpp - GEMM with few rows and a transposed B, as inner products along contiguous rows. Part of
// gemm_kernels.hpp, which explains TIDU_GEMM_ISA.
#pragma once

#include <type_traits>
#include <utility>

#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

template <class T>
TIDU_GEMM_INLINE T total(Vector<T> v) {
  T part[kLanes<T>];
  store<T>(part, v);
  for (int width = kLanes<T> / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] += part[i + width];
  }
  return part[0];
}

/// Number of vectors of terms whose sum is added to the total at once. The rounding error of long inner
/// products stays that of short ones.
inline constexpr Index kVectorsTogether = 64;

/// c[j] = sum over p of a[p] b[j, p] for j < J, with k scalars in a row.
template <class T, bool Complex, int J>
void inner_products(Index k, const T* a, const T* b, Index b_stride, T* c, Adding adding) {
  Vector<T> sum[J][2];
#pragma GCC unroll 8
  for (int j = 0; j < J; ++j) sum[j][0] = sum[j][1] = Vector<T>{};
  using Lanes = std::make_integer_sequence<int, kLanes<T>>;
  const auto multiply = [&](Vector<T> av, int j, Vector<T> bv) __attribute__((always_inline)) {
    if constexpr (Complex) {  // a b* in the pairs of the first sum, its imaginary part in the second
      sum[j][0] = av * bv + sum[j][0];
      sum[j][1] = av * swap_pairs<T>(bv, Lanes{}) + sum[j][1];
    } else {
      sum[j][0] = av * bv + sum[j][0];
    }
  };
  Index p = 0;
  const auto multiply_until = [&](Index end) __attribute__((always_inline)) {
    for (; p + kLanes<T> <= end; p += kLanes<T>) {
      const Vector<T> av = load<T>(a + p);
#pragma GCC unroll 8
      for (int j = 0; j < J; ++j) multiply(av, j, load<T>(b + j * b_stride + p));
    }
  };
  constexpr Index kTogether = kVectorsTogether * kLanes<T>;
  if (k > kTogether) [[unlikely]] {
    constexpr int kSums = Complex ? 2 : 1;
    Vector<T> whole[J][kSums];
    for (int j = 0; j < J; ++j) {
      for (int i = 0; i < kSums; ++i) whole[j][i] = Vector<T>{};
    }
    while (p + kTogether <= k) {
      multiply_until(p + kTogether);
#pragma GCC unroll 8
      for (int j = 0; j < J; ++j) {
        for (int i = 0; i < kSums; ++i) {
          whole[j][i] = whole[j][i] + sum[j][i];
          sum[j][i] = Vector<T>{};
        }
      }
    }
    multiply_until(k);
    for (int j = 0; j < J; ++j) {
      for (int i = 0; i < kSums; ++i) sum[j][i] = whole[j][i] + sum[j][i];
    }
  } else {
    multiply_until(k);
  }
  if (p < k) {
    const int rest = static_cast<int>(k - p);
    const Vector<T> av = load_first<T>(a + p, rest);
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) multiply(av, j, load_first<T>(b + j * b_stride + p, rest));
  }
#pragma GCC unroll 8
  for (int j = 0; j < J; ++j) {
    if constexpr (Complex) {
      const T re = T(0) - total<T>(sum[j][0] * alternating_signs<T>(Lanes{})), im = total<T>(sum[j][1]);
      c[2 * j] = added(adding, c + 2 * j, re);
      c[2 * j + 1] = added(adding, c + 2 * j + 1, im);
    } else {
      const T value = total<T>(sum[j][0]);
      c[j] = added(adding, c + j, value);
    }
  }
}

/// Maximum number of terms for which a loop over scalars beats vectors, whose lanes must be summed at the
/// end: for one inner product per batch member, and for several that share a row of A.
inline constexpr Index kFewTerms = 32;
template <class T>
inline constexpr Index kFewTermsOfMany = sizeof(T) == 8 ? 7 : 16;

/// Computes `count` inner products of real vectors with k terms, each in the order of the terms. Several run
/// at the same time, so that additions need not wait for one another. A, B and C of the next inner product
/// are `a_step`, `b_step` and `c_step` scalars further.
template <class T>
void few_terms(Index count, Index k, const T* a, Index a_step, const T* b, Index b_step, T* c, Index c_step,
               Adding adding) {
  constexpr Index kTogether = 8;
  const auto multiply = [&](auto width) __attribute__((always_inline)) {
    constexpr Index kWidth = decltype(width)::value;
    T sum[kWidth] = {};
    for (Index p = 0; p < k; ++p) {
      for (Index j = 0; j < kWidth; ++j) sum[j] = a[j * a_step + p] * b[j * b_step + p] + sum[j];
    }
    for (Index j = 0; j < kWidth; ++j) c[j * c_step] = added(adding, c + j * c_step, sum[j]);
    a += kWidth * a_step;
    b += kWidth * b_step;
    c += kWidth * c_step;
    count -= kWidth;
  };
  while (count >= kTogether) multiply(std::integral_constant<Index, kTogether>{});
  if (count >= kTogether / 2) multiply(std::integral_constant<Index, kTogether / 2>{});
  while (count > 0) multiply(std::integral_constant<Index, 1>{});
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
