// Small products, one or many of a batch, whose B fits the first-level cache beside all else: what they have
// in common is found once, and a transposed B is packed on the stack. Included by gemm_kernels.hpp alone,
// which says what TIDU_GEMM_ISA is. The tiles are those of larger products, so the bits are the same.
#pragma once

#include "cpu/gemm_tiles.hpp"
#include "cpu/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// Rows of C, and rows of B in panels of a tile's width, at most.
inline constexpr Index kSmallRows = 64, kSmallPanel = 64;

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
  WidthOfTiles<T> width;
  Index lda, ldc, lower_count, higher_count;
  TileSteps lower_steps, higher_steps;
  TileFunction<T> lower, higher;

  ColumnOfTiles(Index m, Index left, Index lda_of, Index ldc_of) : width(left), lda(lda_of), ldc(ldc_of) {
    constexpr int kStep = Complex ? 2 : 1;
    // Rows that are a page or half of one apart are in the same sets of the cache, of 8 lines or so.
    const bool is_apart = Order == AOrder::rows && lda * static_cast<Index>(sizeof(T)) % 2048 == 0;
    const Index count = ceil_div(m, (width.kind >= narrow && !is_apart ? kNarrowRows : kNearRows) / kStep);
    const Index rows = m / count, step = Order == AOrder::rows ? lda : kStep;
    higher_count = m % count;
    lower_count = count - higher_count;
    lower_steps = {rows * step, 0, rows * ldc};
    higher_steps = {(rows + 1) * step, 0, (rows + 1) * ldc};
    lower = find_tiles<T, Complex, Order>(width.kind, rows);
    higher = higher_count > 0 ? find_tiles<T, Complex, Order>(width.kind, rows + 1) : lower;
  }

  bool is_one() const { return lower_count == 1 && higher_count == 0; }

  TIDU_GEMM_INLINE void run(Index k, const T* a, const T* b, Index ldb, T* c, bool accumulate) const {
    if (higher_count > 0) {
      higher(higher_count, higher_steps, k, a, lda, b, ldb, c, ldc, width.last_lanes, accumulate);
      a += higher_count * higher_steps.a;
      c += higher_count * higher_steps.c;
    }
    lower(lower_count, lower_steps, k, a, lda, b, ldb, c, ldc, width.last_lanes, accumulate);
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
  const ColumnOfTiles<T, Complex, Order> tiles_of(m, kWidth, members.a.ld, ldc),
      last_tiles(m, width - last, members.a.ld, ldc);
  const T* a = members.a.at;
  const T* b = members.b.at;
  const auto pack = [&](const T* from, Index columns, T* to) {
    transpose_copy<kBytes>(columns, k, reinterpret_cast<const char*>(from),
                           members.b.ld * static_cast<Index>(sizeof(T)), reinterpret_cast<char*>(to),
                           kWidth * static_cast<Index>(sizeof(T)));
  };
  if (last == 0 && last_tiles.is_one()) {  // a tile a member, one after another
    const Index most = trans_b ? kSmallPanel / k : members.count;
    for (Index q = 0; q < members.count; q += most) {
      const Index count = least(most, members.count - q);
      for (Index i = 0; trans_b && i < count; ++i)
        pack(b + i * members.b.stride, width / kScalars, panel + i * k * kWidth);
      const TileSteps steps{members.a.stride, trans_b ? k * kWidth : members.b.stride, stride_c};
      last_tiles.lower(count, steps, k, a, last_tiles.lda, trans_b ? panel : b,
                       trans_b ? kWidth : members.b.ld, c, ldc, last_tiles.width.last_lanes, add);
      a += count * members.a.stride;
      b += count * members.b.stride;
      c += count * stride_c;
    }
    return;
  }
  for (Index q = 0; q < members.count; ++q) {
    for (Index j = 0; j < width; j += kWidth) {
      const T* from = b + j;
      Index b_stride = members.b.ld;
      if (trans_b) {
        T* const to = panel + j * k;
        pack(b + j / kScalars * members.b.ld, least(kWidth, width - j) / kScalars, to);
        from = to;
        b_stride = kWidth;
      }
      (j < last ? tiles_of : last_tiles).run(k, a, from, b_stride, c + j, add);
    }
    a += members.a.stride;
    b += members.b.stride;
    c += stride_c;
  }
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
