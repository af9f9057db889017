// gemm_narrow.hpp - GEMM of many rows with a small square B of 2, 4 or 8 columns: one vector holds several
// rows of A or of C. Terms are added in the same order as in tiles, so the bits are the same. Part of
// gemm_kernels.hpp, which explains TIDU_GEMM_ISA.
#pragma once

#include <utility>

#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// Broadcasts element P of each row of N elements within that row.
template <class T, int N, int P, int... I>
TIDU_GEMM_INLINE Vector<T> repeat_in_rows(Vector<T> v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (I / N * N + P)...);
}

template <class T, int N, int... P>
TIDU_GEMM_INLINE Vector<T> rows_times(Vector<T> rows, const Vector<T>* b, std::integer_sequence<int, P...>) {
  using Lanes = std::make_integer_sequence<int, kLanes<T>>;
  Vector<T> sum{};
  ((sum = repeat_in_rows<T, N, P>(rows, Lanes{}) * b[P] + sum), ...);
  return sum;
}

/// C (m rows) = A B, += A B, or = A B + 0.0, with N columns and contiguous rows of A and C. Computes as many
/// rows as fill whole vectors, and returns their number.
template <class T, int N>
Index multiply_narrow(Index m, const T* a, const T* b, Index ldb, bool trans_b, T* c, Adding adding) {
  constexpr int kTogether = kLanes<T> / N;
  Vector<T> rows_of_b[N];
  for (int p = 0; p < N; ++p) {
    T row[kLanes<T>];
    for (int i = 0; i < kLanes<T>; ++i) row[i] = trans_b ? b[i % N * ldb + p] : b[p * ldb + i % N];
    rows_of_b[p] = load<T>(row);
  }
  // A sum that begins with 0.0 is -0.0 if a fused multiplication makes it so. clang 19 does not know that,
  // and omits the addition of a 0.0 that it knows.
  const volatile T unknown = 0;
  const T zero = unknown;
  Index i = 0;
  for (; i + kTogether <= m; i += kTogether) {
    Vector<T> sum = rows_times<T, N>(load<T>(a + i * N), rows_of_b, std::make_integer_sequence<int, N>{});
    if (adding == Adding::to_result) sum += load<T>(c + i * N);
    if (adding == Adding::to_zero) sum += zero;
    store<T>(c + i * N, sum);
  }
  return i;
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
