// gemm_ready.hpp - prepared GEMMs, for one plan and many runs: see GemmReady. The choice of tiles, which
// depends on the sizes alone, is made once. For a short GEMM it takes so long that the multiplications of the
// preceding GEMM end before the next ones are issued. Part of gemm_functions.hpp, which explains
// TIDU_GEMM_ISA.
#pragma once

#include "cpu/matmul/gemm_methods.hpp"
#include "cpu/matmul/gemm_small.hpp"

namespace tidu::cpu_detail::TIDU_GEMM_ISA {

template <class T, bool Complex>
class ReadyMatmul : private Methods<T, Complex> {
  using Base = Methods<T, Complex>;

 public:
  /// See GemmFunctions::make_ready. The tiles are those of Matmul::run.
  static GemmReadyRun make(const GemmCall& call, GemmReady& to) {
    if (!Base::goes_by_tiles(call) || call.k <= 0) return nullptr;
    return call.trans_a ? make<AOrder::columns>(call, to) : make<AOrder::rows>(call, to);
  }

 private:
  template <AOrder Order>
  static GemmReadyRun make(const GemmCall& call, GemmReady& to) {
    const Extents of = Base::extents_of(call);
    const bool small = Base::is_small(of.m, of.width, of.k) && (of.m > 1 || of.count > 1);
    if (!small && (of.count != 1 || of.m == 1 || of.k > Base::kTerms)) return nullptr;
    if (!call.trans_b) {
      const bool in_place = !Base::packing(call.trans_a, false, of.m, of.width, of.k, of.lda, of.ldb).b &&
                            !Base::may_have_zeros(of.m, of.width, of.k) &&
                            typename Base::Cut(Order, of.m, of.width, of.k, of.ldb, of.ldc, {}).by_columns;
      return small || in_place ? keep(StraightMatmul<T, Complex, Order, false>(of), to) : nullptr;
    }
    if constexpr (kTransposes<T, Complex>) {
      if (Base::template transposes<Order>(of)) {
        const TransposedMatmul<T, Order> matmul(of);
        const bool by_panels =
            Base::goes_by_panels(of.m, of.k) &&
            !Base::gains_from_transposed_c(call.trans_a, of.m, call.n, of.k, of.lda, of.ldb, of.adding);
        return small || (by_panels && !matmul.needs_panel()) ? keep(matmul, to) : nullptr;
      }
    }
    return small ? keep(StraightMatmul<T, Complex, Order, true>(of), to) : nullptr;
  }

  template <class Ready>
  static GemmReadyRun keep(const Ready& matmul, GemmReady& to) {
    static_assert(__is_trivially_copyable(Ready) && sizeof matmul <= sizeof to.bytes &&
                  alignof(Ready) <= alignof(GemmReady));
    __builtin_memcpy(to.bytes, &matmul, sizeof matmul);
    return [](const GemmReady& ready, const void* a, const void* b, void* c) {
      reinterpret_cast<const Ready*>(ready.bytes)
          ->run(static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c));
    };
  }
};

}  // namespace tidu::cpu_detail::TIDU_GEMM_ISA
