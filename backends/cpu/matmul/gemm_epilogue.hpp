// gemm_epilogue.hpp - the GEMM epilogue x + c AB, applied to tiles in registers. Part of gemm_kernels.hpp,
// which explains TIDU_GEMM_ISA.
#pragma once

#include "cpu/matmul/gemm.hpp"
#include "cpu/matmul/gemm_tiles.hpp"
#include "cpu/matmul/gemm_vectors.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

/// See GemmFunctions::update. B is read in place, and so is A if it is transposed. Computes one row of tiles
/// after another.
template <class T, AOrder Order>
void update_rows(const GemmCall& call, Index begin, Index end, const void* a, const void* b,
                 const GemmUpdate& how, void* c) {
  static_assert(kBlockTerms<false> >= kMostUpdateTerms);
  constexpr Index kWidth = kTileVectors * kLanes<T>;
  const T* const from_b = static_cast<const T*>(b);
  const Index count = call.n / kWidth, whole_width = count * kWidth;
  const Index b_stride = call.packed_b ? kWidth : call.ldb,
              panel_b = call.packed_b ? call.k * kWidth : kWidth;
  const bool packs_a = Order == AOrder::columns && is_crowded_here<T>(call.k, call.lda);
  alignas(kVectorBytes)
      T scratch_a[Order == AOrder::columns && kPacksCrowded ? kNearRows * kMostUpdateTerms : 1];
  for (Index i = begin; i < end; i += kNearRows) {
    const Index rows = least(kNearRows, end - i);
    const T* from_a = static_cast<const T*>(a) + i * (Order == AOrder::rows ? call.lda : 1);
    Index a_stride = call.lda;
    if (packs_a) {
      for (Index p = 0; p < call.k; ++p) copy<T>(from_a + p * call.lda, scratch_a + p * rows, rows);
      from_a = scratch_a;
      a_stride = rows;
    }
    T* const to = static_cast<T*>(c) + i * call.ldc;
    TileUpdate<T> update{static_cast<const T*>(how.x) + i * call.ldc, *static_cast<const T*>(how.scale),
                         how.subtract, how.past_caches,
                         how.matmul != nullptr ? static_cast<T*>(how.matmul) + i * call.ldc : nullptr};
    if (count > 0)
      find_update_tiles<T, Order>(whole, rows)(count, {0, panel_b, kWidth}, call.k, from_a, a_stride, from_b,
                                               b_stride, to, call.ldc, kLanes<T>, update);
    if (whole_width == call.n) continue;
    const WidthOfTiles<T> last(call.n - whole_width);
    update.x += whole_width;
    if (update.matmul != nullptr) update.matmul += whole_width;
    find_update_tiles<T, Order>(last.kind, rows)(1, {}, call.k, from_a, a_stride, from_b + count * panel_b,
                                                 b_stride, to + whole_width, call.ldc, last.last_lanes,
                                                 update);
  }
}

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
