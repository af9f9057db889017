// vector_x86_arithmetic.hpp - x86::ArithmeticEmitter: code for one vector instruction on given registers.
//
// The operands are registers with elements or masks, and so is the result, which is another register than
// each operand. A mask has all bits of a lane set or clear. The code may write the spare register and k1, and
// no other. The emitter has no state.
#pragma once

#include "cpu/fusion/vector_x86_assembler.hpp"

namespace tidu::cpu_detail::x86 {

class ArithmeticEmitter {
 public:
  explicit ArithmeticEmitter(Assembler& assembler) : x_(assembler) {}

  /// Is it add, sub, mul or div, whose second operand may be in memory?
  static bool is_basic(VectorOp op) { return op >= VectorOp::add && op <= VectorOp::div; }
  void basic(VectorOp op, const Ymm& r, const Ymm& a, const Operand& b) {
    switch (op) {
      case VectorOp::add: return x_.vadd(r, a, b);
      case VectorOp::sub: return x_.vsub(r, a, b);
      case VectorOp::mul: return x_.vmul(r, a, b);
      default: return x_.vdiv(r, a, b);
    }
  }

  /// Does it use a scratch register?
  bool uses_scratch(VectorOp op) const { return is_without_nan(op) && !x_.is_512(); }
  /// r = op(a, b, c); operands that the instruction lacks are ignored, and so is `scratch` if it is not used.
  void emit(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b, const Ymm& c, const Ymm& scratch) {
    if (is_basic(op)) return basic(op, r, a, b);
    if (is_integer(op)) return integer(op, r, a, b);
    if (is_without_nan(op)) return without_nan(op, r, a, b, scratch);
    switch (op) {
      case VectorOp::max:
      case VectorOp::min: return extremum(op, r, a, b);
      case VectorOp::neg: return x_.vxor(r, a, x_.constant(x_.sign_bit()));
      case VectorOp::abs: return x_.vand(r, a, x_.constant(x_.magnitude_bits()));
      case VectorOp::sqrt: return x_.vsqrt(r, a);
      case VectorOp::floor: return rounded(r, a, 9);
      case VectorOp::ceil: return rounded(r, a, 10);
      case VectorOp::round: return rounded(r, a, 8);
      case VectorOp::equal: return compare(r, a, b, 0x00);
      case VectorOp::not_equal: return compare(r, a, b, 0x04);
      case VectorOp::less: return compare(r, a, b, 0x11);
      case VectorOp::less_equal: return compare(r, a, b, 0x12);
      case VectorOp::bits_and:
      case VectorOp::mask_and: return x_.vand(r, a, b);
      case VectorOp::bits_or:
      case VectorOp::mask_or: return x_.vor(r, a, b);
      case VectorOp::bits_xor:
      case VectorOp::mask_xor: return x_.vxor(r, a, b);
      case VectorOp::mask_not:
        if (x_.is_512()) return x_.vpternlogd(r, a, a, 0x55);
        x_.vpcmpeqd(r, r, r);
        return x_.vpxor(r, r, a);
      default:  // the selections
        if (!x_.is_512()) return x_.vblendvps(r, b, c, a);
        x_.vmovdqa64(r, a);
        return x_.vpternlogd(r, c, b, 0xca);
    }
  }
  /// The instruction returns the second operand if either is NaN, so the first operand is restored if it is
  /// NaN.
  void extremum(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    constexpr std::uint8_t unordered = 3;
    x_.is_512() ? x_.vcmp(k1, a, a, unordered) : x_.vcmp(x_.spare(), a, a, unordered);
    op == VectorOp::max ? x_.vmax(r, a, b) : x_.vmin(r, a, b);
    x_.is_512() ? x_.vmova(r | k1, a) : x_.vblendvps(r, r, a, x_.spare());
  }

  /// From elements 0 and 1 to masks.
  void to_mask(const Ymm& x) {
    x_.vxor(x_.spare(), x_.spare(), x_.spare());
    x_.vpsub(x, x_.spare(), x);
  }
  /// From masks to bytes 1 and 0, in the spare register.
  Xmm to_bytes(const Ymm& x) {
    const Xmm bytes = x_.narrow_spare();
    if (x_.is_512()) {
      x_.is_f64() ? x_.vpmovqb(bytes, x) : x_.vpmovdb(bytes, x);
    } else {
      x_.vextracti128(bytes, Ymm(x.getIdx()), 1);
      if (x_.is_f64()) {  // two lanes of 64 bits each: the low halves of all four
        x_.vshufps(bytes, Xmm(x.getIdx()), bytes, 0x88);
        x_.vpackssdw(bytes, bytes, bytes);
      } else {
        x_.vpackssdw(bytes, Xmm(x.getIdx()), bytes);
      }
      x_.vpacksswb(bytes, bytes, bytes);
    }
    x_.vpabsb(bytes, bytes);
    return bytes;
  }
  /// Stores a vector's bytes as to_bytes has made them.
  void store_bytes(const Address& to, const Xmm& bytes) {
    switch (x_.lanes()) {
      case 16: return x_.vmovdqu8(to, bytes);
      case 8: return x_.vmovq(to, bytes);
      default: return x_.vmovd(to, bytes);
    }
  }
  /// One byte, 0 or 1, as a mask of all lanes. Writes eax.
  void broadcast_mask(const Ymm& to, const Address& from) {
    x_.movzx(eax, from);
    x_.vmovd(x_.narrow_spare(), eax);
    x_.vpbroadcast(to, x_.narrow_spare());
    to_mask(to);
  }

 private:
  static bool is_without_nan(VectorOp op) {
    return op == VectorOp::multiply_no_nan || op == VectorOp::divide_no_nan;
  }
  static bool is_integer(VectorOp op) {
    return (op >= VectorOp::integer_add && op <= VectorOp::integer_min) || op == VectorOp::to_floating ||
           op == VectorOp::to_integer || op == VectorOp::integer_equal || op == VectorOp::integer_less;
  }
  // Sets the lanes whose bits are set in k1.
  void spread(const Ymm& r) { x_.vpmovm2(r, k1); }
  void compare(const Ymm& r, const Ymm& a, const Ymm& b, std::uint8_t how) {
    if (!x_.is_512()) return x_.vcmp(r, a, b, how);
    x_.vcmp(k1, a, b, how);
    spread(r);
  }
  void rounded(const Ymm& r, const Ymm& a, std::uint8_t how) {
    x_.is_512() ? x_.vrndscale(r, a, how) : x_.vround(r, a, how);
  }
  // The product or quotient, or a if a is 0.
  void without_nan(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b, const Ymm& is_zero) {
    constexpr std::uint8_t equal = 0, no_flags = 0;
    op == VectorOp::multiply_no_nan ? x_.vmul(r, a, b) : x_.vdiv(r, a, b);
    // A table of eight kinds of number; the third, zeros, selects a.
    if (x_.is_512()) return x_.vfixupimm(r, a, x_.constant(0x100), no_flags);
    x_.vpxor(is_zero, is_zero, is_zero);
    x_.vcmp(is_zero, a, is_zero, equal);
    x_.vblendvps(r, r, a, is_zero);
  }

  void integer(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    switch (op) {
      case VectorOp::integer_add: return x_.vpadd(r, a, b);
      case VectorOp::integer_sub: return x_.vpsub(r, a, b);
      case VectorOp::integer_mul: return x_.is_f64() ? multiply_wide(r, a, b) : x_.vpmulld(r, a, b);
      case VectorOp::integer_max:
      case VectorOp::integer_min: return integer_extremum(op, r, a, b);
      case VectorOp::integer_equal:
        if (!x_.is_512()) return x_.vpcmpeq(r, a, b);
        x_.vpcmpeq(k1, a, b);
        return spread(r);
      case VectorOp::integer_less:
        if (!x_.is_512()) return x_.vpcmpgt(r, b, a);
        x_.vpcmpgt(k1, b, a);
        return spread(r);
      case VectorOp::to_integer: return x_.vcvttps2dq(r, a);
      default: return x_.is_f64() ? wide_to_floating(r, a) : x_.vcvtdq2ps(r, a);
    }
  }
  // The low half of the product, by halves of 32 bits; the product of the high halves overflows.
  void multiply_wide(const Ymm& r, const Ymm& a, const Ymm& b) {
    if (x_.is_512()) return x_.vpmullq(r, a, b);
    const Ymm t = x_.spare();
    x_.vpsrlq(t, a, 32);
    x_.vpmuludq(t, t, b);
    x_.vpsrlq(r, b, 32);
    x_.vpmuludq(r, r, a);
    x_.vpaddq(t, t, r);
    x_.vpsllq(t, t, 32);
    x_.vpmuludq(r, a, b);
    x_.vpaddq(r, r, t);
  }
  void integer_extremum(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    const bool largest = op == VectorOp::integer_max;
    if (!x_.is_f64()) return largest ? x_.vpmaxsd(r, a, b) : x_.vpminsd(r, a, b);
    if (x_.is_512()) return largest ? x_.vpmaxsq(r, a, b) : x_.vpminsq(r, a, b);
    x_.vpcmpgtq(x_.spare(), a, b);
    x_.vblendvpd(r, largest ? b : a, largest ? a : b, x_.spare());
  }
  // The upper 16 bits become the mantissa of 3 * 2^67 plus them, and the lower 48 that of 2^52 plus them. The
  // biases are subtracted exactly; only the final sum is rounded.
  void wide_to_floating(const Ymm& r, const Ymm& a) {
    if (x_.is_512()) return x_.vcvtqq2pd(r, a);
    const Ymm t = x_.spare();
    x_.vpsrad(r, a, 16);
    x_.vpxor(t, t, t);
    x_.vpblendw(r, r, t, 0x33);
    x_.vpaddq(r, r, x_.constant(0x4438000000000000));  // 3 * 2^67
    x_.vsubpd(r, r, x_.constant(0x4438001000000000));  // 3 * 2^67 + 2^52
    x_.vmovups(t, x_.constant(0x4330000000000000));    // 2^52
    x_.vpblendw(t, a, t, 0x88);
    x_.vaddpd(r, r, t);
  }

  Assembler& x_;
};

}  // namespace tidu::cpu_detail::x86
