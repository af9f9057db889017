// Small products, one or many of a batch, whose B fits the first-level cache beside all else: what they have
// in common is found once, and a transposed B is packed on the stack. A part of gemm_kernels.hpp, which tells
// what TIDU_GEMM_ISA is. The tiles are those of larger products, so the bits are the same.
#pragma once

#include "cpu/products/gemm_tiles.hpp"
#include "cpu/products/gemm_turned.hpp"
#include "cpu/products/gemm_vectors.hpp"

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

  /// `near`: see near_rows.
  ColumnOfTiles(Index m, Index left, Index lda_of, Index ldc_of, Index near)
      : width(left), lda(lda_of), ldc(ldc_of) {
    constexpr int kStep = Complex ? 2 : 1;
    // Rows that are a page or half of one apart are in the same sets of the cache, of 8 lines or so.
    const bool is_apart = Order == AOrder::rows && lda * static_cast<Index>(sizeof(T)) % 2048 == 0;
    const Index count = ceil_div(m, (width.kind >= narrow && !is_apart ? kNarrowRows : near) / kStep);
    const Index rows = m / count, step = Order == AOrder::rows ? lda : kStep;
    higher_count = m % count;
    lower_count = count - higher_count;
    lower_steps = {rows * step, 0, rows * ldc};
    higher_steps = {(rows + 1) * step, 0, (rows + 1) * ldc};
    lower = find_tiles<T, Complex, Order>(width.kind, rows);
    higher = higher_count > 0 ? find_tiles<T, Complex, Order>(width.kind, rows + 1) : lower;
  }

  bool is_one() const { return lower_count == 1 && higher_count == 0; }

  TIDU_GEMM_INLINE void run(Index k, const T* a, const T* b, Index ldb, T* c, Adding adding) const {
    if (higher_count > 0) {
      higher(higher_count, higher_steps, k, a, lda, b, ldb, c, ldc, width.last_lanes, adding);
      a += higher_count * higher_steps.a;
      c += higher_count * higher_steps.c;
    }
    lower(lower_count, lower_steps, k, a, lda, b, ldb, c, ldc, width.last_lanes, adding);
  }
};

/// By a transposed B of n rows: tiles that turn it make the first rows of C, and others from what those have
/// put to a panel the rest.
template <class T, AOrder Order>
class TurningProduct {
  static constexpr Index kLanesOf = kLanes<T>, kWidth = kTileVectors * kLanesOf;

 public:
  TurningProduct(Index m, Index n, Index lda, Index ldb, Index ldc)
      : n_(n), lda_(lda), ldb_(ldb), ldc_(ldc), rows_(static_cast<int>(least(n, kLanesOf)), ldb) {
    const bool is_apart = Order == AOrder::rows && lda * static_cast<Index>(sizeof(T)) % 2048 == 0;
    const Index most = is_apart ? kNearRows : kNarrowRows;
    first_ = m <= most ? m : (m - 1) % kNearRows + most - kNearRows + 1;
    rest_ = m - first_;
    tiles_ = find_turning_tiles<T, Order>(first_);
  }

  bool is_one() const { return rest_ == 0 && n_ <= kLanesOf; }

  /// Of products of one tile each.
  TIDU_GEMM_INLINE void run_each(Index count, const TileSteps& steps, Index k, const T* a, const T* b, T* c,
                                 Adding adding) const {
    tiles_(count, steps, k, a, lda_, b, rows_, nullptr, c, ldc_, adding);
  }

  /// `panel`: room for k rows of kTileVectors vectors.
  void run(Index k, const T* a, const T* b, T* panel, T* c, Adding adding) const {
    if (rest_ == 0) return turn(n_, k, a, b, nullptr, c, adding);
    const T* const rest_of_a = a + first_ * (Order == AOrder::rows ? lda_ : 1);
    T* const rest_of_c = c + first_ * ldc_;
    const auto columns = [&](Index begin, Index end, const ColumnOfTiles<T, false, Order>& rest) {
      for (Index j = begin; j < end; j += kWidth) {
        turn(least(kWidth, n_ - j), k, a, b + j * ldb_, panel, c + j, adding);
        rest.run(k, rest_of_a, panel, kWidth, rest_of_c + j, adding);
      }
    };
    const Index whole_width = n_ / kWidth * kWidth, near = near_rows<T, false>(first_ + rest_, n_, k, ldc_);
    if (whole_width > 0) columns(0, whole_width, {rest_, kWidth, lda_, ldc_, near});
    if (whole_width < n_) columns(whole_width, n_, {rest_, n_ - whole_width, lda_, ldc_, near});
  }

 private:
  void turn(Index n, Index k, const T* a, const T* b, T* panel, T* c, Adding adding) const {
    const Index count = n / kLanesOf, rest = n % kLanesOf, whole_width = n - rest;
    if (count > 0)
      tiles_(count, {0, kLanesOf * ldb_, kLanesOf}, k, a, lda_, b, rows_, panel, c, ldc_, adding);
    if (rest > 0)
      tiles_(1, {}, k, a, lda_, b + whole_width * ldb_, TurnedRows<T>(static_cast<int>(rest), ldb_),
             panel == nullptr ? panel : panel + whole_width, c + whole_width, ldc_, adding);
  }

  Index n_, lda_, ldb_, ldc_, first_, rest_;
  TurnedRows<T> rows_;
  TurningFunction<T> tiles_;
};

/// C (m rows, `width` scalars) = or += A B, or A B + 0.0, over k terms, for all members.
template <class T, bool Complex, AOrder Order>
void multiply_members(const Members<T>& members, bool trans_b, Index m, Index width, Index k, T* c, Index ldc,
                      Index stride_c, Adding adding) {
  constexpr Index kWidth = kTileVectors * kLanes<T>, kScalars = Complex ? 2 : 1;
  constexpr int kBytes = static_cast<int>(sizeof(T)) * static_cast<int>(kScalars);
  alignas(kVectorBytes) T panel[kSmallPanel * kWidth];
  const T* a = members.a.at;
  const T* b = members.b.at;
  if constexpr (kTurns<T, Complex>) {
    if (trans_b && gains_by_turning<T>(m, width, k, Order == AOrder::rows ? members.a.ld : 0, members.b.ld)) {
      const TurningProduct<T, Order> product(m, width, members.a.ld, members.b.ld, ldc);
      if (product.is_one())
        return product.run_each(members.count, {members.a.stride, members.b.stride, stride_c}, k, a, b, c,
                                adding);
      for (Index q = 0; q < members.count; ++q) {
        product.run(k, a, b, panel, c, adding);
        a += members.a.stride;
        b += members.b.stride;
        c += stride_c;
      }
      return;
    }
  }
  const Index last = (width - 1) / kWidth * kWidth;  // where the last tile begins
  const Index near = near_rows<T, Complex>(m, width, k, ldc);
  const ColumnOfTiles<T, Complex, Order> tiles_of(m, kWidth, members.a.ld, ldc, near),
      last_tiles(m, width - last, members.a.ld, ldc, near);
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
                       trans_b ? kWidth : members.b.ld, c, ldc, last_tiles.width.last_lanes, adding);
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
      (j < last ? tiles_of : last_tiles).run(k, a, from, b_stride, c + j, adding);
    }
    a += members.a.stride;
    b += members.b.stride;
    c += stride_c;
  }
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
