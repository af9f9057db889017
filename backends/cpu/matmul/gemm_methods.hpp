// gemm_methods.hpp - the methods of GEMM (in place, packed, by inner products), and the
// predicates on sizes that choose among them. Part of gemm_kernels.hpp, which explains TIDU_GEMM_ISA.
#pragma once

#include "cpu/matmul/gemm.hpp"
#include "cpu/matmul/gemm_small.hpp"
#include "cpu/matmul/gemm_tiles.hpp"
#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

template <class T, bool Complex>
struct Methods {
  static constexpr Index kScalars = Complex ? 2 : 1;
  static constexpr int kRows = kTileRows / static_cast<int>(kScalars);
  static constexpr Index kWidth = kTileVectors * kLanes<T>;
  static constexpr Index kTerms = kBlockTerms<Complex>;
  static constexpr Index kBlockWidth = kBlockWidthBytes / static_cast<Index>(sizeof(T));
  static constexpr int kWideVectors = Complex ? 4 : 8;
  static constexpr Index kPadding = 64 / static_cast<Index>(sizeof(T));

  /// The demanded part of each row of C: see GemmCall::row_ends.
  struct Ends {
    const std::int32_t* at = nullptr;  // null: all of each row
    Index period = 1, row = 0, column = 0;
    Ends from(Index j) const { return {at, period, row, column + j}; }
    /// The end for `rows` rows from row i on, in scalars: whole vectors, or all of the width.
    TIDU_GEMM_INLINE Index of(Index i, int rows, Index width) const {
      if (at == nullptr) return width;
      Index end = column;
      for (Index r = 0, index = (row + i) % period; r < rows; ++r) {
        end = at[index] > end ? at[index] : end;
        if (++index == period) index = 0;
      }
      return least(ceil_div((end - column) * kScalars, kLanes<T>) * kLanes<T>, width);
    }
  };

  /// The division of m rows into tiles of nearly the same height.
  struct Panels {
    Index count, min_rows, more;
    Panels(Index m, Index rows, const Ends& ends) : count(1), min_rows(m), more(0) {
      const Index most = ends.at == nullptr ? rows / kScalars : least(kRows, kRowsOfEnds / kScalars);
      if (m > most) {
        count = ceil_div(m, most);
        min_rows = m / count;
        more = m % count;
      }
    }
    int rows(Index panel) const { return static_cast<int>(min_rows + (panel < more ? 1 : 0)); }
  };

  /// The division of C if B is read in place: by columns of tiles, or by rows of tiles.
  struct Cut {
    Index near;
    Panels panels;
    bool by_columns;
    Cut(AOrder order, Index m, Index width, Index k, Index ldb, Index ldc, const Ends& ends)
        : near(near_rows<T, Complex>(m, width, k, ldc)),
          panels(m, is_low(order, m, k, ldb) ? near : kTileRows, ends),
          by_columns(ends.at == nullptr && ceil_div(width, kWidth) <= panels.count && is_near(m, k)) {}
    static bool is_near(Index m, Index k) {
      return static_cast<double>(m * k * kScalars) * sizeof(T) <= kNearest;
    }
    // A far B is read in place only for few rows (see one()), which a single pass over B serves.
    static bool is_low(AOrder order, Index m, Index k, Index ldb) {
      const bool b_is_near = static_cast<double>(k) * static_cast<double>(ldb) * sizeof(T) <= kNear;
      return b_is_near && (order == AOrder::rows || is_near(m, k));
    }
  };

  /// Is the GEMM large enough that looking for zeros costs nothing in comparison?
  static bool may_have_zeros(Index m, Index width, Index k) {
    constexpr Index kLeastRows = 32, kLeastTerms = 16;
    constexpr double kLeastWork = 1 << 19;
    return m >= kLeastRows && k >= kLeastTerms &&
           static_cast<double>(m) * static_cast<double>(width) * static_cast<double>(k) > kLeastWork;
  }

  /// The operands that are packed, except for a transposed B that is packed by columns.
  struct Packing {
    bool a, b;
  };
  static Packing packing(bool trans_a, bool packs_b, Index m, Index width, Index k, Index lda, Index ldb) {
    const auto is_far = [](Index rows, Index ld) {
      const double row_bytes = static_cast<double>(ld) * sizeof(T);
      return static_cast<double>(rows) * row_bytes > kNear || (row_bytes >= kPage && rows >= 32);
    };
    // A transposed far A is read once instead of once for each column of tiles, so B is packed with it. The
    // same holds for an A whose rows fall into few sets of the first-level cache.
    const bool pack_the_a =
        (is_far(trans_a ? k : m, lda) || (trans_a && is_crowded_here<T>(least(k, kTerms), lda))) &&
        width >= 3 * kWidth && m > kRows;
    const bool pack_the_b = packs_b || (is_far(k, ldb) && m > kRows) || (trans_a && pack_the_a) ||
                            (m >= kLeastCrowdedRows && is_crowded_here<T>(least(k, kTerms), ldb));
    return {pack_the_a, pack_the_b};
  }
  /// Is each panel of a transposed B used as soon as it is packed?
  static bool goes_by_panels(Index m, Index k) { return Cut::is_near(m, k) && m <= 64; }
  /// For a transposed B: is it cheaper to transpose A and C than B? Vectors then lie along columns of C
  /// instead of rows.
  static bool gains_from_transposed_c(bool trans_a, Index m, Index n, Index k, Adding adding) {
    if (Complex || adding != Adding::nothing || k > kTerms) return false;
    constexpr Index kToTranspose =
        4;  // elements that are transposed in the time of one vector multiplication
    const Index straight = m * ceil_div(n, kLanes<T>) * k + n * k / kToTranspose;
    const Index transposed = n * ceil_div(m, kLanes<T>) * k + ((trans_a ? 0 : m * k) + m * n) / kToTranspose;
    return transposed < straight;
  }

  static Adding adding_of(const GemmCall& call) {
    return call.add ? Adding::to_result : call.add_zero ? Adding::to_zero : Adding::nothing;
  }

  static bool is_small(Index m, Index width, Index k) {
    return m <= kSmallRows && k > 0 && ceil_div(width, kWidth) * k <= kSmallPanel;
  }

  static bool goes_by_inner_products(const GemmCall& call) {
    return call.trans_b && !call.trans_a && call.m <= 2;
  }
  /// Computed by tiles of whole rows, with a B that was not packed before?
  static bool goes_by_tiles(const GemmCall& call) {
    return !goes_by_inner_products(call) && call.row_ends == nullptr && !call.packed_b;
  }

  static Extents extents_of(const GemmCall& call) {
    return {call.m,
            call.n * kScalars,
            call.k,
            call.lda * kScalars,
            call.ldb * kScalars,
            call.ldc * kScalars,
            call.batch,
            call.stride_a * kScalars,
            call.stride_b * kScalars,
            call.stride_c * kScalars,
            adding_of(call)};
  }
};

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
