// vector_x86_reduction.hpp - x86::ReductionEmitter: reductions of two vectors to one, and of a vector to one
// element.
//
// A reduction is a VectorOp, reduce_sum to column_min. The order of operations, and thus the bits, are those
// of reduce.hpp.
#pragma once

#include "cpu/fusion/vector_x86_arithmetic.hpp"

namespace tidu::cpu_detail::x86 {

// As in reductions.cpp: the elements of a short line's accumulators together, and of a long line's.
inline constexpr int few_lanes = 16, many_lanes = 64;

class ReductionEmitter {
 public:
  explicit ReductionEmitter(Assembler& assembler) : x_(assembler) {}

  /// The instruction that reduces two elements.
  static VectorOp instruction(VectorOp op) {
    if (op == VectorOp::reduce_sum || op == VectorOp::column_sum) return VectorOp::add;
    return op == VectorOp::reduce_max || op == VectorOp::column_max ? VectorOp::max : VectorOp::min;
  }
  static bool is_sum(VectorOp op) { return instruction(op) == VectorOp::add; }
  /// The identity: -0, or an infinity.
  Source identity(VectorOp op) {
    if (is_sum(op)) return x_.constant(x_.sign_bit());
    const std::uint64_t infinity = x_.is_f64() ? 0x7ff0000000000000U : 0x7f800000U;
    return x_.constant(instruction(op) == VectorOp::max ? infinity | x_.sign_bit() : infinity);
  }
  /// r = the reduction of a and b; r is neither of them, except of a sum.
  void reduce(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    is_sum(op) ? x_.vadd(r, a, b) : arithmetic_.extremum(instruction(op), r, a, b);
  }
  /// Reduces all lanes of a to one, in lane 0 of it; r and b are scratch. Whole vectors cost no more than
  /// their halves; further lanes are ignored. Only registers of 64 bytes may be beyond the first 16.
  void reduce_lanes(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    const Ymm a256(a.getIdx()), b256(b.getIdx());
    const Xmm a128(a.getIdx()), b128(b.getIdx());
    const auto reduce_half = [&] {
      reduce(op, r, a, b);
      x_.vmovaps(a, r);
    };
    if (x_.is_512()) {
      x_.vextractf64x4(b256, Zmm(a.getIdx()), 1);
      reduce_half();
    }
    a.isZMM() ? x_.vextractf32x4(b128, a256, 1) : x_.vextractf128(b128, a256, 1);
    reduce_half();
    if (!x_.is_f64()) {
      x_.vmovhlps(b128, a128, a128);
      reduce_half();
      x_.vmovshdup(b128, a128);
    } else {
      x_.vunpckhpd(b128, a128, a128);
    }
    reduce_half();
  }

 private:
  Assembler& x_;
  ArithmeticEmitter arithmetic_{x_};
};

}  // namespace tidu::cpu_detail::x86
