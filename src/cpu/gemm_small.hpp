// Small products, one or many of a batch, whose B fits the first-level cache beside all else: what they have
// in common is found once, and a transposed B is packed on the stack. Included by gemm_kernels.hpp alone,
// which says what TIDU_GEMM_ISA is. The tiles are those of larger products, so the bits are the same.
#pragma once

#include "cpu/gemm_tiles.hpp"
#include "cpu/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// Rows of C, and rows of B in panels of a tile's width, at most.
inline constexpr Index kSmallRows = 64, kSmallPanel = 64;

/// Rows of a tile of one vector, for which there are registers: as many as a vector of f32 has lanes, and so
/// all of a square.
inline constexpr int kTallRows = 16;

/// Where the first member's matrix is, in scalars, as are the distances of rows and of members.
template <class T>
struct Matrices {
  const T* at;
  Index ld, stride;
};
template <class T>
struct Members {
  Index count;
  Matrices<T> a, b;
};

/// The tiles of one width, by rows: first those of `rows` + 1 rows, `more` of them, then those of `rows`.
template <class T, bool Complex, AOrder Order>
struct ColumnOfTiles {
  TileFunction<T> higher, lower;
  Index count, rows, more;
  int last_lanes;

  ColumnOfTiles(Index m, Index left) {
    constexpr int kRows = kTileRows / (Complex ? 2 : 1);
    constexpr Index kWidth = kTileVectors * kLanes<T>;
    const TileWidth kind = left >= kWidth ? whole : left > kWidth - kLanes<T> ? most : narrow;
    last_lanes = static_cast<int>(kind == most     ? left - (kWidth - kLanes<T>)
                                  : kind == narrow ? left
                                                   : kLanes<T>);
    if constexpr (!Complex && kTileRows < kTallRows && kVectorBytes == 64) {
      if (kind == narrow && m == kTallRows) {
        count = 1;
        rows = m;
        more = 0;
        higher = lower = tile<T, Complex, Order, kTallRows, 1, true>;
        return;
      }
    }
    count = ceil_div(m, kRows);
    rows = m / count;
    more = m % count;
    const auto find = [kind](Index of_rows) {
      return find_tile<T, Complex, Order>(kind, static_cast<int>(of_rows),
                                          std::make_integer_sequence<int, kRows>{});
    };
    lower = find(rows);
    higher = more > 0 ? find(rows + 1) : lower;
  }

  TIDU_GEMM_INLINE void run(Index k, const T* a, Index lda, const T* b, Index ldb, T* c, Index ldc,
                            bool accumulate) const {
    const Index step = Order == AOrder::rows ? lda : Complex ? 2 : 1;
    for (Index i = 0, at = 0; i < count; ++i) {
      (i < more ? higher : lower)(k, a + at * step, lda, b, ldb, c + at * ldc, ldc, last_lanes, accumulate);
      at += rows + (i < more ? 1 : 0);
    }
  }
};

/// C (m rows, `width` scalars) = or += A B over k terms, for all members.
template <class T, bool Complex, AOrder Order>
void multiply_members(const Members<T>& members, bool trans_b, Index m, Index width, Index k, T* c, Index ldc,
                      Index stride_c, bool add) {
  constexpr Index kWidth = kTileVectors * kLanes<T>, kScalars = Complex ? 2 : 1;
  constexpr int kBytes = static_cast<int>(sizeof(T)) * static_cast<int>(kScalars);
  alignas(kVectorBytes) T panel[kSmallPanel * kWidth];
  const Index last = (width - 1) / kWidth * kWidth;  // where the last tile begins
  const ColumnOfTiles<T, Complex, Order> tiles(m, kWidth), last_tiles(m, width - last);
  const T* a = members.a.at;
  const T* b = members.b.at;
  for (Index q = 0; q < members.count; ++q) {
    for (Index j = 0; j < width; j += kWidth) {
      const T* from = b + j;
      Index b_stride = members.b.ld;
      if (trans_b) {
        T* const to = panel + j * k;
        transpose_copy<kBytes>(least(kWidth, width - j) / kScalars, k,
                               reinterpret_cast<const char*>(b + j / kScalars * members.b.ld),
                               members.b.ld * static_cast<Index>(sizeof(T)), reinterpret_cast<char*>(to),
                               kWidth * static_cast<Index>(sizeof(T)));
        from = to;
        b_stride = kWidth;
      }
      (j < last ? tiles : last_tiles).run(k, a, members.a.ld, from, b_stride, c + j, ldc, add);
    }
    a += members.a.stride;
    b += members.b.stride;
    c += stride_c;
  }
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
