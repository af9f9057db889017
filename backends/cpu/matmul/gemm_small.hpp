// gemm_small.hpp - small GEMMs, single or batched, by columns of tiles. The choice of tiles is made once for
// all members. A small transposed B, which fits in the first-level cache with the other operands, is packed
// on the stack. The tiles are those of larger GEMMs, so the bits are the same. Part of gemm_kernels.hpp,
// which explains TIDU_GEMM_ISA.
#pragma once

#include "cpu/matmul/gemm_tiles.hpp"
#include "cpu/matmul/gemm_transposed.hpp"
#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// Maximum number of rows of C, and of rows of B in panels as wide as a tile.
inline constexpr Index kSmallRows = 64, kSmallPanel = 64;

/// A column of tiles of one width: first `higher_count` tiles with one more row, and then `lower_count`
/// tiles.
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
    // Rows whose distance is a multiple of half a page fall into the same cache sets, of 8 lines or so.
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

/// GEMM with a transposed B of n rows. Zen 4 transposes in parallel with multiplications: there each tile
/// transposes B, and all tiles have nearly the same height. On other CPUs, or if the rows of A are multiples
/// of half a page apart, such tiles compute only the first rows of C and store the transposed B in a panel;
/// ordinary tiles compute the other rows from the panel.
template <class T, AOrder Order>
class TransposingMatmul {
  static constexpr Index kLanesOf = kLanes<T>, kWidth = kTileVectors * kLanesOf;

 public:
  TransposingMatmul(Index m, Index n, Index lda, Index ldb, Index ldc)
      : n_(n),
        lda_(lda),
        ldb_(ldb),
        ldc_(ldc),
        across_{0, kLanesOf * ldb, kLanesOf},
        rows_(static_cast<int>(least(n, kLanesOf)), ldb),
        last_rows_(static_cast<int>((n - 1) % kLanesOf + 1), ldb) {
    const bool is_apart = Order == AOrder::rows && lda * static_cast<Index>(sizeof(T)) % 2048 == 0;
    const Index most = is_apart ? kNearRows : kNarrowRows;
    if (m > most && !is_apart && computes_in_halves()) {
      const Index count = ceil_div(m, most);
      first_ = m / count;
      higher_ = m % count;
      lower_ = count - higher_;
    } else if (m > most) {
      first_ = (m - 1) % kNearRows + most - kNearRows + 1;
      rest_ = m - first_;
    } else {
      first_ = m;
    }
    tiles_ = find_transposing_tiles<T, Order>(first_);
    if (higher_ > 0) higher_tiles_ = find_transposing_tiles<T, Order>(first_ + 1);
  }

  bool is_one() const { return !needs_panel() && lower_ + higher_ == 1 && n_ <= kLanesOf; }
  /// Does run() need a panel? It has as many rows of kTileVectors vectors as there are terms.
  bool needs_panel() const { return rest_ > 0; }

  /// Computes several members of one tile each.
  TIDU_GEMM_INLINE void run_each(Index count, const TileSteps& steps, Index k, const T* a, const T* b, T* c,
                                 Adding adding) const {
    tiles_(count, steps, 1, k, a, lda_, b, rows_, nullptr, c, ldc_, adding);
  }

  void run(Index k, const T* a, const T* b, T* panel, T* c, Adding adding) const {
    if (needs_panel()) return run_by_panel(k, a, b, panel, c, adding);
    if (higher_ > 0) {
      const Index rows = higher_ * (first_ + 1);
      transpose(higher_tiles_, higher_, n_, k, a, b, nullptr, c, adding);
      a += rows * (Order == AOrder::rows ? lda_ : 1);
      c += rows * ldc_;
    }
    transpose(tiles_, lower_, n_, k, a, b, nullptr, c, adding);
  }

 private:
  void run_by_panel(Index k, const T* a, const T* b, T* panel, T* c, Adding adding) const {
    const T* const rest_of_a = a + first_ * (Order == AOrder::rows ? lda_ : 1);
    T* const rest_of_c = c + first_ * ldc_;
    const auto columns = [&](Index begin, Index end, const ColumnOfTiles<T, false, Order>& rest) {
      for (Index j = begin; j < end; j += kWidth) {
        transpose(tiles_, 1, least(kWidth, n_ - j), k, a, b + j * ldb_, panel, c + j, adding);
        rest.run(k, rest_of_a, panel, kWidth, rest_of_c + j, adding);
      }
    };
    const Index whole_width = n_ / kWidth * kWidth, near = near_rows<T, false>(first_ + rest_, n_, k, ldc_);
    if (whole_width > 0) columns(0, whole_width, {rest_, kWidth, lda_, ldc_, near});
    if (whole_width < n_) columns(whole_width, n_, {rest_, n_ - whole_width, lda_, ldc_, near});
  }
  // Computes `blocks` tiles below one another, for n columns; the last columns may be a part of a vector.
  void transpose(TransposingFunction<T> tiles, Index blocks, Index n, Index k, const T* a, const T* b,
                 T* panel, T* c, Adding adding) const {
    const Index count = n / kLanesOf, whole_width = count * kLanesOf;
    if (count > 0) tiles(count, across_, blocks, k, a, lda_, b, rows_, panel, c, ldc_, adding);
    if (whole_width < n)
      tiles(1, across_, blocks, k, a, lda_, b + whole_width * ldb_, last_rows_,
            panel == nullptr ? panel : panel + whole_width, c + whole_width, ldc_, adding);
  }

  Index n_, lda_, ldb_, ldc_, first_, rest_ = 0, lower_ = 1, higher_ = 0;
  TileSteps across_;
  TransposedRows<T> rows_, last_rows_;
  TransposingFunction<T> tiles_, higher_tiles_ = nullptr;
};

/// A GEMM, or a batch of members; distances of rows and members are in scalars, and so is the width of C.
struct Extents {
  Index m, width, k;
  Index lda, ldb, ldc;
  Index count, stride_a, stride_b, stride_c;
  Adding adding;
};

/// GEMM by columns of tiles whose heights differ by at most one row. A transposed B is packed on the stack,
/// so it must be small.
template <class T, bool Complex, AOrder Order, bool TransB>
class StraightMatmul {
  static constexpr Index kWidth = kTileVectors * kLanes<T>, kScalars = Complex ? 2 : 1;

 public:
  explicit StraightMatmul(const Extents& of)
      : StraightMatmul(of, near_rows<T, Complex>(of.m, of.width, of.k, of.ldc)) {}

  void run(const T* a, const T* b, T* c) const {
    alignas(kVectorBytes) T panel[TransB ? kSmallPanel * kWidth : 1];
    if (last_ == 0 && end_.is_one()) return run_each(a, b, panel, c);
    for (Index q = 0; q < of_.count; ++q, a += of_.stride_a, b += of_.stride_b, c += of_.stride_c) {
      for (Index j = 0; j < of_.width; j += kWidth) {
        if constexpr (TransB) {
          T* const to = panel + j * of_.k;
          pack(b + j / kScalars * of_.ldb, least(kWidth, of_.width - j) / kScalars, to);
          (j < last_ ? whole_ : end_).run(of_.k, a, to, kWidth, c + j, of_.adding);
        } else {
          (j < last_ ? whole_ : end_).run(of_.k, a, b + j, of_.ldb, c + j, of_.adding);
        }
      }
    }
  }

 private:
  StraightMatmul(const Extents& of, Index near)
      : of_(of),
        last_((of.width - 1) / kWidth * kWidth),
        whole_(of.m, kWidth, of.lda, of.ldc, near),
        end_(of.m, of.width - last_, of.lda, of.ldc, near),
        steps_{of.stride_a, TransB ? of.k * kWidth : of.stride_b, of.stride_c} {}

  // One tile for each member, one after another.
  void run_each(const T* a, const T* b, T* panel, T* c) const {
    const auto tiles = [&](Index count, const T* from, Index ldb) __attribute__((always_inline)) {
      end_.lower(count, steps_, of_.k, a, of_.lda, from, ldb, c, of_.ldc, end_.width.last_lanes, of_.adding);
    };
    if constexpr (!TransB) {
      tiles(of_.count, b, of_.ldb);
    } else {
      const Index most = kSmallPanel / of_.k;
      for (Index q = 0; q < of_.count; q += most) {
        const Index count = least(most, of_.count - q);
        for (Index i = 0; i < count; ++i)
          pack(b + i * of_.stride_b, of_.width / kScalars, panel + i * of_.k * kWidth);
        tiles(count, panel, kWidth);
        a += count * of_.stride_a;
        b += count * of_.stride_b;
        c += count * of_.stride_c;
      }
    }
  }
  void pack(const T* from, Index columns, T* to) const {
    constexpr int kBytes = static_cast<int>(sizeof(T)) * static_cast<int>(kScalars);
    transpose_copy<kBytes>(columns, of_.k, reinterpret_cast<const char*>(from),
                           of_.ldb * static_cast<Index>(sizeof(T)), reinterpret_cast<char*>(to),
                           kWidth * static_cast<Index>(sizeof(T)));
  }

  Extents of_;
  Index last_;  // first column of the last tile
  ColumnOfTiles<T, Complex, Order> whole_, end_;
  TileSteps steps_;  // between members
};

/// GEMM with a transposed B that tiles transpose. If it needs a panel, which is on the stack, it must be
/// small.
template <class T, AOrder Order>
class TransposedMatmul {
 public:
  explicit TransposedMatmul(const Extents& of)
      : of_(of),
        steps_{of.stride_a, of.stride_b, of.stride_c},
        matmul_(of.m, of.width, of.lda, of.ldb, of.ldc) {}

  bool needs_panel() const { return matmul_.needs_panel(); }

  void run(const T* a, const T* b, T* c) const {
    if (matmul_.is_one()) return matmul_.run_each(of_.count, steps_, of_.k, a, b, c, of_.adding);
    alignas(kVectorBytes) T panel[kSmallPanel * kTileVectors * kLanes<T>];
    for (Index q = 0; q < of_.count; ++q, a += of_.stride_a, b += of_.stride_b, c += of_.stride_c)
      matmul_.run(of_.k, a, b, panel, c, of_.adding);
  }

 private:
  Extents of_;
  TileSteps steps_;  // between members
  TransposingMatmul<T, Order> matmul_;
};

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
