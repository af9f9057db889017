// vector_x86_functions.hpp - FunctionAssembler: inline code for functions such as exp and tanh, which needs
// no spills, in contrast to a call.
#pragma once

#include <bit>
#include <vector>

#include "cpu/groups/vector_x86_whole.hpp"

namespace tidu::cpu_detail {

class FunctionAssembler : protected WholeAssembler {
 protected:
  using WholeAssembler::WholeAssembler;
  ~FunctionAssembler() override = default;

  static constexpr std::uint8_t not_less = 0x15, not_less_equal = 0x16;  // true of a NaN

  std::uint64_t number_bits(double value) const {
    return is_f64_ ? std::bit_cast<std::uint64_t>(value)
                   : std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
  Constant number(double value) { return constant(number_bits(value)); }
  std::uint64_t sign_bit() const { return is_f64_ ? std::uint64_t{1} << 63U : std::uint64_t{1} << 31U; }
  std::uint64_t magnitude_bits() const { return is_f64_ ? ~sign_bit() : ~sign_bit() & 0xffffffffU; }
  // Adding it to a number leaves that number as an integer in the low bits.
  double rounder() const { return is_f64_ ? 0x1.8p52 : 0x1.8p23; }
  void both_bits(const Ymm& r, const Ymm& a, const Xbyak::Operand& b) {
    is_512_ ? vpandd(r, a, b) : vpand(r, a, b);
  }

  // The product or quotient, or a if a is 0. `is_zero` is a register for this instruction alone, which
  // AVX-512 does not use.
  void without_nan(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b, const Ymm& is_zero) {
    if (op == VectorOp::multiply_no_nan) {
      is_f64_ ? vmulpd(r, a, b) : vmulps(r, a, b);
    } else {
      is_f64_ ? vdivpd(r, a, b) : vdivps(r, a, b);
    }
    if (is_512_) {  // a table of eight kinds of number; the third, zeros, selects a
      is_f64_ ? vfixupimmpd(r, a, constant(0x100), 0) : vfixupimmps(r, a, constant(0x100), 0);
      return;
    }
    vpxor(is_zero, is_zero, is_zero);
    is_f64_ ? vcmppd(is_zero, a, is_zero, 0) : vcmpps(is_zero, a, is_zero, 0);
    vblendvps(r, r, a, is_zero);
  }
  // p = e^x; r and n are registers for this function alone. e^x = 2^n e^r, n = round(x / log 2), |r| <=
  // log(2) / 2. e^r is a polynomial of degree 11 (f32: 6), which begins as Taylor's series; the other
  // coefficients have least maximum relative error (Remez 1934). The error is within 1 ulp. Beyond the bounds
  // the result is set to infinity or 0 without a multiplication: a product that is rounded to 0 or to a
  // subnormal number takes some processors a hundred cycles, and such arguments are frequent.
  void exponential(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    if (is_512_) {
      at_most(r, x);
      exponential_parts(r, r, n, p);
      is_f64_ ? vsubpd(n, n, number(rounder())) : vsubps(n, n, number(rounder()));
      is_f64_ ? vcmppd(k1, x, least(), not_less) : vcmpps(k1, x, least(), not_less);
      is_f64_ ? vscalefpd(p | k1 | T_z, p, n) : vscalefps(p | k1 | T_z, p, n);
      return;
    }
    Late& late = late_.emplace_back(Late{x.getIdx(), r.getIdx(), n.getIdx(), p.getIdx(), {}, {}});
    const Constant bound = number(is_f64_ ? 708 : 87);
    vpand(r, x, constant(magnitude_bits()));
    is_f64_ ? vcmppd(r, r, bound, not_less_equal) : vcmpps(r, r, bound, not_less_equal);
    vptest(r, r);
    jnz(late.begin, T_NEAR);
    exponential_parts(x, r, n, p);
    if (is_f64_) {
      vpsllq(n, n, 52);
      vpaddq(p, p, n);
    } else {
      vpslld(n, n, 23);
      vpaddd(p, p, n);
    }
    L(late.end);
  }

  // In f32: tanh x = 2 h / (1 + h^2), h = tanh(x / 2) = t p(t^2) / q(t^2), with a single quotient; errors of
  // h count little where tanh is near 1. The error is within 3.5 ulp, tested for all x. t = 1.75 x, since
  // rounding counts most at the beginning of a power of two, and tanh is then at the end of the one below. p
  // and q were fitted to |x| <= 9.1 by least squares, with weights that were adapted until the maximum error
  // was least. From 9.02 on the result is 1. Signs of zeros are kept, and a NaN passes the bounds, since the
  // instruction returns the second operand if one is NaN. The result is in n; all registers except x are for
  // this function alone.
  void tanh_f32(const Ymm& x, const Ymm& t, const Ymm& u, const Ymm& p, const Ymm& q, const Ymm& n) {
    vmovups(t, number(-9.02));
    vmovups(u, number(9.02));
    vmaxps(t, t, x);
    vminps(t, u, t);
    vmulps(t, t, number(1.75));
    vmulps(u, t, t);
    vmovups(q, number(0x1.412c02p-23));
    vfmadd213ps(q, u, number(0x1.d7fc06p-12));
    vfmadd213ps(q, u, number(0x1.08ba1ep-3));
    vfmadd213ps(q, u, number(3.5));
    vmovups(p, number(0x1.987c02p-17));
    vfmadd213ps(p, u, number(0x1.3e88e8p-7));
    vmulps(n, t, u);
    vfmadd213ps(n, p, t);  // t p
    vmulps(u, n, n);
    vaddps(n, n, n);
    vmulps(n, n, q);
    vfmadd213ps(q, q, u);
    vdivps(n, n, q);
  }

  // In f64: tanh |x| = m / (m + 2), m = e^2|x| - 1 = 2^n (e^r - 1) + (2^n - 1), with n and r as for e^x, so
  // that nothing cancels; then the sign of x. The error is within 3 ulp. e^r - 1 = r + r^2 s(r), where s has
  // degree 9 and coefficients that make the maximum relative error of e^r - 1 least. From 19.1 on the result
  // is 1. A NaN passes the bound. The result is in p; all registers except x are for this function alone.
  void tanh_f64(const Ymm& x, const Ymm& t, const Ymm& r, const Ymm& n, const Ymm& p) {
    constexpr double series[] = {0x1.ae6bcf0d58d40p-26, 0x1.28a1df719dc83p-22, 0x1.71de87f0079bap-19,
                                 0x1.a019a76fdf2b7p-16, 0x1.a01a01751dd52p-13, 0x1.6c16c17edb707p-10,
                                 0x1.1111111118f95p-7,  0x1.55555555522b9p-5,  0x1.5555555555539p-3,
                                 0x1.0000000000005p-1};
    both_bits(r, x, constant(~sign_bit()));
    vmovups(t, number(19.1));
    vminpd(t, t, r);
    vaddpd(t, t, t);
    reduced(t, r, n, p);
    vmovups(p, number(series[0]));
    for (std::size_t k = 1; k < std::size(series); ++k) vfmadd213pd(p, r, number(series[k]));
    vmulpd(p, p, r);
    vfmadd213pd(p, r, r);
    power_of_two(n);
    vsubpd(t, n, number(1));
    vfmadd213pd(p, n, t);
    vaddpd(t, p, number(2));
    vdivpd(p, p, t);
    both_bits(t, x, constant(sign_bit()));
    is_512_ ? vpord(p, p, t) : vpor(p, p, t);
  }

  // Out-of-line code for the preceding code; call it after that has ended.
  void late_code() {
    for (Late& late : late_) {
      L(late.begin);
      outside(vector(late.x), vector(late.r), vector(late.n), vector(late.p));
      jmp(late.end, T_NEAR);
    }
    late_.clear();
  }

 private:
  struct Late {
    int x, r, n, p;
    Xbyak::Label begin, end;
  };
  // min(x, the largest argument with a finite result); a NaN passes, since the instruction returns the second
  // operand if one is NaN.
  void at_most(const Ymm& r, const Ymm& x) {
    vmovups(r, number(is_f64_ ? 710 : 89));
    is_f64_ ? vminpd(r, r, x) : vminps(r, r, x);
  }
  // Half of the smallest number is e to a little more than this.
  Constant least() { return number(is_f64_ ? -745.2 : -104); }
  // Sets r and n, to which rounder() is still added; p is scratch.
  void reduced(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    // log 2 in two parts; the first has so few bits that its product with n is exact.
    constexpr double log2_f64[] = {0x1.62e42feep-1, 0x1.a39ef35793c76p-33};
    constexpr double log2_f32[] = {0x1.63p-1, -0x1.bd0106p-13};
    const double* const log2 = is_f64_ ? log2_f64 : log2_f32;
    vmovups(n, number(1.4426950408889634));
    is_f64_ ? vfmadd213pd(n, x, number(rounder())) : vfmadd213ps(n, x, number(rounder()));
    is_f64_ ? vsubpd(p, n, number(rounder())) : vsubps(p, n, number(rounder()));
    if (r.getIdx() != x.getIdx()) vmovaps(r, x);
    is_f64_ ? vfnmadd231pd(r, p, number(log2[0])) : vfnmadd231ps(r, p, number(log2[0]));
    is_f64_ ? vfnmadd231pd(r, p, number(log2[1])) : vfnmadd231ps(r, p, number(log2[1]));
  }
  // p = e^r, and n, to which rounder() is still added.
  void exponential_parts(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    constexpr double series_f64[] = {0x1.8abb6a437bc09p-26,
                                     0x1.28976ed46e26ap-22,
                                     0x1.71f4b27a48471p-19,
                                     0x1.a019b39416172p-16,
                                     0x1.a019f7c4f701bp-13,
                                     0x1.6c16c17a01583p-10,
                                     0x1.11111112d2f45p-7,
                                     0x1.5555555553b06p-5,
                                     0x1.5555555554eb3p-3,
                                     0.5,
                                     1,
                                     1};
    constexpr double series_f32[] = {0x1.6fee8cp-10, 0x1.125792p-7, 0x1.5553p-5, 0x1.555466p-3, 0.5, 1, 1};
    const double* const series = is_f64_ ? series_f64 : series_f32;
    const std::size_t terms = is_f64_ ? std::size(series_f64) : std::size(series_f32);
    reduced(x, r, n, p);
    vmovups(p, number(series[0]));
    for (std::size_t k = 1; k < terms; ++k)
      is_f64_ ? vfmadd213pd(p, r, number(series[k])) : vfmadd213ps(p, r, number(series[k]));
  }
  // For elements beyond the bounds, or so near them that 2^n is not a normal number: multiplies by the powers
  // of the two halves of n. An element beyond the lower bound is set to 0 by a mask. Other elements get the
  // same bits.
  void outside(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    at_most(r, x);
    vmovups(n, least());
    is_f64_ ? vmaxpd(r, n, r) : vmaxps(r, n, r);
    exponential_parts(r, r, n, p);
    if (!is_f64_) vpsubd(n, n, number(rounder()));
    vpsrad(r, n, 1);
    vpsubd(n, n, r);
    power_of_two(r);
    power_of_two(n);
    is_f64_ ? vmulpd(p, p, r) : vmulps(p, p, r);
    is_f64_ ? vcmppd(r, x, least(), not_less) : vcmpps(r, x, least(), not_less);
    vpand(n, n, r);
    is_f64_ ? vmulpd(p, p, n) : vmulps(p, p, n);
  }
  // 2 to the power of the integers in the low bits.
  void power_of_two(const Ymm& n) {
    if (is_f64_) {
      vpsllq(n, n, 52);
      vpaddq(n, n, number(1));
    } else {
      vpslld(n, n, 23);
      vpaddd(n, n, number(1));
    }
  }

  std::vector<Late> late_;
};

}  // namespace tidu::cpu_detail
