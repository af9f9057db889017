// gemm_pack.hpp - packing of B: panels as wide as a tile, one after another, each with its rows of B in
// order. Part of gemm_kernels.hpp, which explains TIDU_GEMM_ISA.
#pragma once

#include "cpu/matmul/gemm.hpp"
#include "cpu/matmul/gemm_methods.hpp"
#include "cpu/matmul/gemm_tiles.hpp"
#include "cpu/matmul/gemm_vectors.hpp"
#include "cpu/matmul/gemm_zeros.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

template <class T, bool Complex>
struct PanelsOfB {
  static constexpr Index kScalars = Methods<T, Complex>::kScalars, kWidth = Methods<T, Complex>::kWidth;

  /// Copies k terms of B, `width` scalars wide, into panels at `to`. A transposed B has columns x rows.
  static void pack_terms(const T* b, Index ldb, bool trans, Index k, Index width, T* to) {
    if (trans) {
      constexpr int kBytes = static_cast<int>(sizeof(T)) * static_cast<int>(kScalars);
      for (Index j = 0; j < width; j += kWidth) {
        transpose_copy<kBytes>(least(kWidth, width - j) / kScalars, k,
                               reinterpret_cast<const char*>(b + j / kScalars * ldb),
                               ldb * static_cast<Index>(sizeof(T)), reinterpret_cast<char*>(to + j * k),
                               kWidth * static_cast<Index>(sizeof(T)));
      }
      return;
    }
    for (Index p = 0; p < k; ++p) {
      Index j = 0;
      for (; j + kWidth <= width; j += kWidth) {
#pragma GCC unroll 8
        for (int v = 0; v < kTileVectors; ++v) {
          store<T>(to + j * k + p * kWidth + v * kLanes<T>, load<T>(b + p * ldb + j + v * kLanes<T>));
        }
      }
      if (j < width) copy<T>(b + p * ldb + j, to + j * k + p * kWidth, width - j);
    }
  }

  /// The terms of the panels, which are stored after a packed B.
  static const Terms* terms_of_packed(const GemmCall& call, const void* packed) {
    const Index panels = packed_panel_bytes(call.n * kScalars * static_cast<Index>(sizeof(T)), call.k);
    return reinterpret_cast<const Terms*>(static_cast<const char*>(packed) + panels);
  }

  /// Packs all of B into panels with all terms, followed by the nonzero terms of each panel.
  static void pack(const GemmCall& call, const void* b, void* to) {
    const Index width = call.n * kScalars;
    pack_terms(static_cast<const T*>(b), call.ldb * kScalars, call.trans_b, call.k, width,
               static_cast<T*>(to));
    find_terms_of_packed(width, call.k, static_cast<const T*>(to),
                         const_cast<Terms*>(terms_of_packed(call, to)));
  }
};

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
