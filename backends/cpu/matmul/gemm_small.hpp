// gemm_small.hpp - small GEMMs, single or batched, by columns of tiles. The choice of tiles is made once for
// all members. A small transposed B, which fits in the first-level cache with the other operands, is packed
// on the stack. The tiles are those of larger GEMMs, so the bits are the same. Part of gemm_kernels.hpp,
// which explains TIDU_GEMM_ISA.
#pragma once

#include "cpu/cpu_target.hpp"
#include "cpu/matmul/gemm_tiles.hpp"
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
    const bool is_apart =
        Order == AOrder::rows && lda * static_cast<Index>(sizeof(T)) % (CpuTarget::page / 2) == 0;
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

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
