// gemm_kernels.hpp - GEMM for one instruction set. gemm_functions.hpp includes it in gemm_avx512.cpp,
// gemm_avx2.cpp and gemm_baseline.cpp, which are compiled with different flags and a namespace TIDU_GEMM_ISA
// of their own. Invariant: no code here, and no template of another library (not even std::min), is
// instantiated in two of these files. The linker therefore cannot choose code for a newer CPU where an older
// one must run.
//
// Method: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). Tiles of C are
// held in registers. B is packed into panels as wide as a tile, which stay in the second-level cache. The
// rows of A for a row of tiles stay in the first-level cache. Vectors lie along the rows of C, so elements of
// A are broadcast. A may be copied. Its transpose is packed only where C^T is computed
// (multiply_transposed). Operands that fit in the second-level cache
// anyway are read in place.
//
// A complex GEMM computes two real rows for each complex row of A: P = re(A) B and Q = im(A) B on interleaved
// B. They are joined as P + i Q when a tile is stored. No multiplication is wasted: a complex product takes
// four real ones.
#pragma once

#include "cpu/matmul/gemm.hpp"
#include "cpu/matmul/gemm_epilogue.hpp"
#include "cpu/matmul/gemm_inner.hpp"
#include "cpu/matmul/gemm_methods.hpp"
#include "cpu/matmul/gemm_pack.hpp"
#include "cpu/matmul/gemm_small.hpp"
#include "cpu/matmul/gemm_tiles.hpp"
#include "cpu/matmul/gemm_vectors.hpp"
#include "cpu/matmul/gemm_zeros.hpp"

namespace tidu::cpu_detail {
/// At least `bytes` bytes that belong to the calling thread, aligned to 64 and valid until its next call
/// (gemm.cpp).
void* gemm_workspace(std::int64_t bytes);
}  // namespace tidu::cpu_detail

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

// ---- whole GEMMs

template <class T, bool Complex>
struct Matmul : Methods<T, Complex> {
  using Base = Methods<T, Complex>;
  using Base::adding_of, Base::extents_of, Base::gains_from_transposed_c, Base::goes_by_inner_products,
      Base::goes_by_panels, Base::goes_by_tiles, Base::is_small, Base::may_have_zeros, Base::packing;
  using Base::kBlockWidth, Base::kPadding, Base::kRows, Base::kScalars, Base::kTerms, Base::kWidth,
      Base::kWideVectors;
  using typename Base::Cut, typename Base::Ends, typename Base::Panels;
  using Packing = PanelsOfB<T, Complex>;

  /// Sets the elements after the row ends to zero.
  static void clear(Index m, Index width, T* c, Index ldc, const Ends& ends) {
    const Panels panels(m, kTileRows, ends);
    for (Index i = 0, panel = 0; i < m; i += panels.rows(panel), ++panel) {
      const Index end = ends.of(i, panels.rows(panel), width);
      for (Index r = i; end < width && r < i + panels.rows(panel); ++r)
        __builtin_memset(c + r * ldc + end, 0, static_cast<std::size_t>(width - end) * sizeof(T));
    }
  }

  static Finite<T> finite_matrix(bool trans, Index m, Index k, const T* a, Index lda) {
    return {trans ? k : m, (trans ? m : k) * kScalars, a, lda};
  }

  /// Computes a row of tiles, `width` scalars wide. Panels of B are `panel_b` apart.
  template <AOrder Order>
  static TIDU_GEMM_INLINE void row_of_tiles(int rows, Index width, Index k, const T* a, Index a_stride,
                                            const T* b, Index b_stride, Index panel_b, T* c, Index ldc,
                                            Adding adding) {
    const Index count = width / kWidth, rest = width % kWidth;
    if (count > 0)
      find_tiles<T, Complex, Order>(whole, rows)(count, {0, panel_b, kWidth}, k, a, a_stride, b, b_stride, c,
                                                 ldc, kLanes<T>, adding);
    if (rest > 0) {
      const WidthOfTiles<T> last(rest);
      find_tiles<T, Complex, Order>(last.kind, rows)(1, {}, k, a, a_stride, b + count * panel_b, b_stride,
                                                     c + count * kWidth, ldc, last.last_lanes, adding);
    }
  }

  /// As row_of_tiles, but multiplies only the terms that are both in the panel and in `own`.
  template <AOrder Order>
  static TIDU_GEMM_INLINE void row_of_terms(const Terms& own, const TermsOfPanels& panels, int rows,
                                            Index width, const T* a, Index a_stride, const T* b,
                                            Index b_stride, Index panel_b, T* c, Index ldc, Adding adding) {
    const Index count = ceil_div(width, kWidth);
    for (Index i = 0, next = 0; i < count; i = next) {
      const Terms terms = panels.of(i, own);
      next = panels.next(i, count, own);
      row_of_tiles<Order>(rows, least(next * kWidth, width) - i * kWidth, terms.count(),
                          a + terms.begin * (Order == AOrder::rows ? kScalars : a_stride), a_stride,
                          b + i * panel_b + terms.begin * b_stride, b_stride, panel_b, c + i * kWidth, ldc,
                          adding);
    }
  }

  /// The terms of a row of tiles that are not all zeros in A. All terms if few would be left out, or if B is
  /// not finite.
  template <AOrder Order>
  static Terms terms_of(int rows, Index k, const T* a, Index lda, Finite<T>& b) {
    const Terms terms = Order == AOrder::rows ? find_terms_of_rows<T>(rows, k, kScalars, a, lda)
                                              : find_terms<T>(a, lda, rows * kScalars, k);
    return 4 * terms.count() <= 3 * k && b.get() ? terms : Terms{0, k};
  }

  /// C (m rows, `width` scalars) = A B, += A B, or = A B + 0.0, over k terms, with B in place.
  template <AOrder Order>
  static void multiply_in_place(Index m, Index width, Index k, const T* a, Index lda, const T* b, Index ldb,
                                T* c, Index ldc, Adding adding, const Ends& ends) {
    if (m == 1 && ends.at == nullptr) {  // only reading B matters, so its rows are read in wide pieces
      constexpr Index kWide = kWideVectors * kLanes<T>;
      const Index count = width / kWide;
      if (count > 0)
        tiles<T, Complex, Order, static_cast<int>(kScalars), kWideVectors, false>(
            count, {0, kWide, kWide}, k, a, lda, b, ldb, c, ldc, 0, adding);
      width -= count * kWide;
      if (width == 0) return;
      b += count * kWide;
      c += count * kWide;
    }
    const Cut cut(Order, m, width, k, ldb, ldc, ends);
    const Panels& panels = cut.panels;
    if (may_have_zeros(m, width, k))
      return multiply_in_terms<Order>(cut, m, width, k, a, lda, b, ldb, c, ldc, adding, ends);
    if (cut.by_columns)
      return StraightMatmul<T, Complex, Order, false>({m, width, k, lda, ldb, ldc, 1, 0, 0, 0, adding})
          .run(a, b, c);
    for (Index i = 0, panel = 0; i < m; i += panels.rows(panel), ++panel) {
      const int rows = panels.rows(panel);
      row_of_tiles<Order>(rows, ends.of(i, rows, width), k, a + i * (Order == AOrder::rows ? lda : kScalars),
                          lda, b, ldb, kWidth, c + i * ldc, ldc, adding);
    }
  }

  /// As multiply_in_place, without the terms that are all zeros.
  template <AOrder Order>
  static void multiply_in_terms(const Cut& cut, Index m, Index width, Index k, const T* a, Index lda,
                                const T* b, Index ldb, T* c, Index ldc, Adding adding, const Ends& ends) {
    Finite<T> finite_a = finite_matrix(Order == AOrder::columns, m, k, a, lda), finite_b(k, width, b, ldb);
    TermsOfPanels terms;
    terms.find(width, k, b, ldb, kWidth, finite_a);
    if (cut.by_columns) {
      for (Index j = 0; j < width; j += kWidth) {
        const Terms own = terms.of(j / kWidth, {0, k});
        ColumnOfTiles<T, Complex, Order>(m, width - j, lda, ldc, cut.near)
            .run(own.count(), a + own.begin * (Order == AOrder::rows ? kScalars : lda),
                 b + own.begin * ldb + j, ldb, c + j, adding);
      }
      return;
    }
    const bool looks_at_a = width >= 4 * kWidth;  // otherwise few multiplications could be saved
    const Panels& panels = cut.panels;
    for (Index i = 0, panel = 0; i < m; i += panels.rows(panel), ++panel) {
      const int rows = panels.rows(panel);
      const T* ai = a + i * (Order == AOrder::rows ? lda : kScalars);
      const Terms own = looks_at_a ? terms_of<Order>(rows, k, ai, lda, finite_b) : Terms{0, k};
      row_of_terms<Order>(own, terms, rows, ends.of(i, rows, width), ai, lda, b, ldb, kWidth, c + i * ldc,
                          ldc, adding);
    }
  }

  /// As multiply_in_place with B in panels. It computes one row of tiles after another: their rows of A stay
  /// in the first-level cache, and B comes from the second in order. Panels of B are `panel_b` apart. If the
  /// panels have all terms, `known` has the nonzero ones from term `first` on. If `scratch_a` is not null,
  /// the rows of A are copied there.
  template <AOrder Order>
  static void multiply_packed(Index m, Index width, Index first, Index k, const T* a, Index lda, const T* b,
                              Index panel_b, const Terms* known, T* c, Index ldc, Adding adding, T* scratch_a,
                              const Ends& ends, Finite<T>& finite_a) {
    const Panels panels(m, kTileRows, ends);
    TermsOfPanels terms;
    if (may_have_zeros(m, width, k)) {
      if (known != nullptr) {
        terms.take(ceil_div(width, kWidth), first, k, known, finite_a);
      } else {
        terms.find(width, k, b, kWidth, panel_b, finite_a);
      }
    }
    for (Index i = 0, panel = 0; i < m; i += panels.rows(panel), ++panel) {
      const int rows = panels.rows(panel);
      const Index end = ends.of(i, rows, width);
      if (end <= 0) continue;
      const T* ai = a + i * (Order == AOrder::rows ? lda : kScalars);
      Index a_stride = lda;
      if (scratch_a != nullptr) {
        if constexpr (Order == AOrder::rows) {
          a_stride = k * kScalars + kPadding;
          for (Index r = 0; r < rows; ++r) copy<T>(ai + r * lda, scratch_a + r * a_stride, k * kScalars);
        } else {
          a_stride = rows * kScalars;
          for (Index p = 0; p < k; ++p) copy<T>(ai + p * lda, scratch_a + p * a_stride, a_stride);
        }
        ai = scratch_a;
      }
      row_of_terms<Order>({0, k}, terms, rows, end, ai, a_stride, b, kWidth, panel_b, c + i * ldc, ldc,
                          adding);
    }
  }

  /// As multiply_packed for a transposed B, if A stays near: each panel is used as it is made, or right
  /// after, and the next one overwrites it.
  template <AOrder Order>
  static void multiply_by_panels(Index m, Index width, Index k, const T* a, Index lda, const T* b, Index ldb,
                                 T* c, Index ldc, Adding adding) {
    const Index scratch_bytes = least(k, kTerms) * kWidth * static_cast<Index>(sizeof(T));
    T* const scratch = static_cast<T*>(gemm_workspace(scratch_bytes));
    for (Index j = 0; j < width; j += kWidth) {
      const ColumnOfTiles<T, Complex, Order> column(m, width - j, lda, ldc,
                                                    near_rows<T, Complex>(m, width, k, ldc));
      for (Index p = 0; p < k; p += kTerms) {
        const Index terms = least(kTerms, k - p);
        Packing::pack_terms(b + j / kScalars * ldb + p * kScalars, ldb, true, terms, least(kWidth, width - j),
                            scratch);
        column.run(terms, a + p * (Order == AOrder::rows ? kScalars : lda), scratch, kWidth, c + j,
                   p > 0 ? Adding::to_result : adding);
      }
    }
  }

  /// For a transposed B: computes C^T = B A^T in parts, and transposes these.
  static void multiply_transposed(bool trans_a, Index m, Index n, Index k, const T* a, Index lda, const T* b,
                                  Index ldb, T* c, Index ldc) {
    constexpr Index kPart = 64;  // rows of C^T
    constexpr auto kSize = static_cast<Index>(sizeof(T));
    T* const part = static_cast<T*>(gemm_workspace((kPart + k) * kWidth * kSize));
    T* const panel = part + kPart * kWidth;
    for (Index i = 0; i < m; i += kWidth) {
      const Index w = least(kWidth, m - i);
      const T* from = a + i;
      if (!trans_a) Packing::pack_terms(a + i * lda, lda, true, k, w, panel);
      if (!trans_a) from = panel;
      for (Index j = 0; j < n; j += kPart) {
        const Index rows = least(kPart, n - j);
        ColumnOfTiles<T, Complex, AOrder::rows>(rows, w, ldb, kWidth,
                                                near_rows<T, Complex>(rows, w, k, kWidth))
            .run(k, b + j * ldb, from, trans_a ? lda : kWidth, part, Adding::nothing);
        transpose_copy<sizeof(T)>(rows, w, reinterpret_cast<const char*>(part), kWidth * kSize,
                                  reinterpret_cast<char*>(c + i * ldc + j), ldc * kSize);
      }
    }
  }

  /// Computes one member of the batch. Leading dimensions are in scalars. The method depends on m0, the
  /// number of rows of the whole GEMM instead of the piece, so that pieces have the same bits as the whole.
  /// If `of_panels` is not null, b was packed, beginning with the first column of this piece, and `of_panels`
  /// are the terms of its panels.
  static void one(bool trans_a, bool trans_b, Index m, Index n, Index k, Index m0, const T* a, Index lda,
                  const T* b, Index ldb, T* c, Index ldc, Adding adding, Ends ends, const Terms* of_panels) {
    const Index width = n * kScalars;
    const bool packed = of_panels != nullptr;
    if (k == 0) {
      if (adding == Adding::to_result) return;
      for (Index i = 0; i < m; ++i)
        __builtin_memset(c + i * ldc, 0, static_cast<std::size_t>(width) * sizeof(T));
      return;
    }
    if (trans_b && !trans_a && m0 <= 2 && !packed) {
      for (Index i = 0; i < m; ++i) {
        const T* ai = a + i * lda;
        Index j = 0;
        for (; j + 4 <= n; j += 4) {
          inner_products<T, Complex, 4>(k * kScalars, ai, b + j * ldb, ldb, c + i * ldc + j * kScalars,
                                        adding);
        }
        for (; j < n; ++j)
          inner_products<T, Complex, 1>(k * kScalars, ai, b + j * ldb, ldb, c + i * ldc + j * kScalars,
                                        adding);
      }
      return;
    }
    if (ends.at != nullptr && adding != Adding::to_result) clear(m, width, c, ldc, ends);
    const auto [pack_the_a, pack_the_b] = packing(trans_a, trans_b || packed, m, width, k, lda, ldb);
    if (!pack_the_b) {
      for (Index p = 0; p < k; p += kTerms) {
        const Index terms = least(kTerms, k - p);
        if (trans_a) {
          multiply_in_place<AOrder::columns>(m, width, terms, a + p * lda, lda, b + p * ldb, ldb, c, ldc,
                                             p > 0 ? Adding::to_result : adding, ends);
        } else {
          multiply_in_place<AOrder::rows>(m, width, terms, a + p * kScalars, lda, b + p * ldb, ldb, c, ldc,
                                          p > 0 ? Adding::to_result : adding, ends);
        }
      }
      return;
    }
    const bool by_panels = trans_b && !packed && ends.at == nullptr && goes_by_panels(m, k);
    if (by_panels && gains_from_transposed_c(trans_a, m, n, k, adding))
      return multiply_transposed(trans_a, m, n, k, a, lda, b, ldb, c, ldc);
    if (by_panels)
      return trans_a ? multiply_by_panels<AOrder::columns>(m, width, k, a, lda, b, ldb, c, ldc, adding)
                     : multiply_by_panels<AOrder::rows>(m, width, k, a, lda, b, ldb, c, ldc, adding);
    const Index block_width = least(kBlockWidth, ceil_div(width, kWidth) * kWidth),
                max_terms = least(k, kTerms);
    const Index b_scalars = max_terms * block_width, a_scalars = kRows * (max_terms * kScalars + kPadding);
    T* scratch_b = static_cast<T*>(gemm_workspace((a_scalars + b_scalars) * static_cast<Index>(sizeof(T))));
    T* scratch_a = pack_the_a ? scratch_b + b_scalars : nullptr;
    Finite<T> finite_a = finite_matrix(trans_a, m, k, a, lda);
    for (Index j = 0; j < width; j += block_width) {
      const Index w = least(block_width, width - j);
      const Ends own = ends.from(j / kScalars);
      for (Index p = 0; p < k; p += kTerms) {
        const Index terms = least(kTerms, k - p);
        const Terms* known = packed ? of_panels + j / kWidth : nullptr;
        const T* panels = packed ? b + j * k + p * kWidth : scratch_b;
        const Index panel = (packed ? k : terms) * kWidth;
        if (!packed)
          Packing::pack_terms(trans_b ? b + j / kScalars * ldb + p * kScalars : b + p * ldb + j, ldb, trans_b,
                              terms, w, scratch_b);
        if (trans_a) {
          multiply_packed<AOrder::columns>(m, w, p, terms, a + p * lda, lda, panels, panel, known, c + j, ldc,
                                           p > 0 ? Adding::to_result : adding, scratch_a, own, finite_a);
        } else {
          multiply_packed<AOrder::rows>(m, w, p, terms, a + p * kScalars, lda, panels, panel, known, c + j,
                                        ldc, p > 0 ? Adding::to_result : adding, scratch_a, own, finite_a);
        }
      }
    }
  }

  template <AOrder Order>
  static void multiply_members(const Extents& of, bool trans_b, const T* a, const T* b, T* c) {
    if (!trans_b) return StraightMatmul<T, Complex, Order, false>(of).run(a, b, c);
    StraightMatmul<T, Complex, Order, true>(of).run(a, b, c);
  }

  static void run(const GemmCall& call, const GemmRange& range, const void* a, const void* b, void* c) {
    const Index m = range.row_end - range.row_begin, n = range.column_end - range.column_begin;
    const Index lda = call.lda * kScalars, ldb = call.ldb * kScalars, ldc = call.ldc * kScalars;
    const T* a0 =
        static_cast<const T*>(a) + (call.trans_a ? range.row_begin * kScalars : range.row_begin * lda);
    const T* b0 = static_cast<const T*>(b) + (call.packed_b  ? range.column_begin * kScalars * call.k
                                              : call.trans_b ? range.column_begin * ldb
                                                             : range.column_begin * kScalars);
    T* c0 = static_cast<T*>(c) + range.row_begin * ldc + range.column_begin * kScalars;
    if (is_small(m, n * kScalars, call.k) && (m > 1 || call.batch > 1) && goes_by_tiles(call)) {
      const Index first = range.batch_begin * kScalars;
      Extents of = extents_of(call);
      of.m = m;
      of.width = n * kScalars;
      of.count = range.batch_end - range.batch_begin;
      a0 += first * call.stride_a;
      b0 += first * call.stride_b;
      c0 += first * call.stride_c;
      return call.trans_a ? multiply_members<AOrder::columns>(of, call.trans_b, a0, b0, c0)
                          : multiply_members<AOrder::rows>(of, call.trans_b, a0, b0, c0);
    }
    const Index few = call.m == 1 && call.n == 1 ? kFewTerms : kFewTermsOfMany<T>;
    if (!Complex && goes_by_inner_products(call) && !call.packed_b && call.k > 0 && call.k <= few) {
      const Index q0 = range.batch_begin, count = range.batch_end - q0;
      a0 += q0 * call.stride_a;
      b0 += q0 * call.stride_b;
      c0 += q0 * call.stride_c;
      if (call.m == 1 && call.n == 1)
        return few_terms(count, call.k, a0, call.stride_a, b0, call.stride_b, c0, call.stride_c,
                         adding_of(call));
      for (Index q = 0; q < count; ++q) {
        for (Index i = 0; i < m; ++i)
          few_terms(n, call.k, a0 + q * call.stride_a + i * lda, 0, b0 + q * call.stride_b, ldb,
                    c0 + q * call.stride_c + i * ldc, 1, adding_of(call));
      }
      return;
    }
    const Terms* const of_panels =
        call.packed_b ? Packing::terms_of_packed(call, b) + range.column_begin * kScalars / kWidth : nullptr;
    for (Index q = range.batch_begin; q < range.batch_end; ++q) {
      one(call.trans_a, call.trans_b, m, n, call.k, call.m, a0 + q * call.stride_a * kScalars, lda,
          b0 + q * call.stride_b * kScalars, ldb, c0 + q * call.stride_c * kScalars, ldc, adding_of(call),
          Ends{call.row_ends, call.row_period, q * call.m + range.row_begin, range.column_begin}, of_panels);
    }
  }
};

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
