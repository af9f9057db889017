// Tiles of C that are held in registers. Included by gemm_kernels.hpp and gemm_small.hpp, of which the first
// says what TIDU_GEMM_ISA is.
#pragma once

#include <cstdint>
#include <utility>

#include "cpu/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// How a tile finds A. `rows`: real row r at a + r * stride, the sum along it contiguous (a row-major A).
/// `columns`: row r at a + r, the next term of the sum `stride` further (a transposed A). Complex rows come
/// as pairs of real ones.
enum class AOrder : std::uint8_t { rows, columns };

template <class T>
using TileFunction = void (*)(Index k, const T* a, Index a_stride, const T* b, Index b_stride, T* c,
                              Index ldc, int last_lanes, bool accumulate);

/// One tile of C, R real rows by V vectors, of which the last holds `last_lanes` lanes if Partial: C = A B,
/// or C += A B.
template <class T, bool Complex, AOrder Order, int R, int V, bool Partial>
void tile(Index k, const T* a, Index a_stride, const T* b, Index b_stride, T* c, Index ldc, int last_lanes,
          bool accumulate) {
  constexpr int kGroup = Complex ? 6 : 3;  // rows addressed from one pointer: at 0, 1 and 2 strides
  constexpr int kPointers = (R + kGroup - 1) / kGroup;
  Vector<T> sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = Vector<T>{};
  }
  constexpr int kStep = Complex ? 2 : 1;
#pragma GCC unroll 16
  for (int r = 0; r < R; r += kStep) {  // C comes while the sums are made
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) __builtin_prefetch(c + (r / kStep) * ldc + v * kLanes<T>, 1);
  }
  const T* pointer[kPointers];
  if constexpr (Order == AOrder::rows) {
#pragma GCC unroll 8
    for (int g = 0; g < kPointers; ++g) pointer[g] = a + 3 * g * a_stride;
  }
  for (Index p = 0; p < k; ++p) {
    Vector<T> bv[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      bv[v] =
          Partial && v == V - 1 ? load_first<T>(b + v * kLanes<T>, last_lanes) : load<T>(b + v * kLanes<T>);
    }
    b += b_stride;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      T factor;
      if constexpr (Order == AOrder::columns) {
        factor = a[r];
      } else if constexpr (Complex) {
        factor = pointer[r / kGroup][(r % kGroup) / 2 * a_stride + r % 2];
      } else {
        factor = pointer[r / kGroup][(r % kGroup) * a_stride];
      }
      const Vector<T> av = factor - Vector<T>{};
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = av * bv[v] + sum[r][v];
    }
    if constexpr (Order == AOrder::columns) {
      a += a_stride;
    } else {
#pragma GCC unroll 8
      for (int g = 0; g < kPointers; ++g) pointer[g] += Complex ? 2 : 1;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r += kStep) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Vector<T> value = sum[r][v];
      if constexpr (Complex) value += times_i<T>(sum[r + 1][v]);
      T* to = c + (r / kStep) * ldc + v * kLanes<T>;
      if (Partial && v == V - 1) {
        if (accumulate) value += load_first<T>(to, last_lanes);
        store_first<T>(to, value, last_lanes);
      } else {
        if (accumulate) value += load<T>(to);
        store<T>(to, value);
      }
    }
  }
}

/// The tiles by what is left of the width of C: whole, more than one vector, up to one vector; and by rows of
/// C.
enum TileWidth : std::uint8_t { whole, most, narrow };

template <class T, bool Complex, AOrder Order, int... I>
constexpr TileFunction<T> find_tile(int width, int rows, std::integer_sequence<int, I...>) {
  constexpr int kStep = Complex ? 2 : 1;
  constexpr TileFunction<T> table[3][sizeof...(I)] = {
      {tile<T, Complex, Order, (I + 1) * kStep, kTileVectors, false>...},
      {tile<T, Complex, Order, (I + 1) * kStep, kTileVectors, true>...},
      {tile<T, Complex, Order, (I + 1) * kStep, 1, true>...}};
  return table[width][rows - 1];
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
