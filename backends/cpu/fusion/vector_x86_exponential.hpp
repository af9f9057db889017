// vector_x86_exponential.hpp - x86::ExponentialEmitter: inline code for exp and tanh, which needs no spills,
// in contrast to a call.
//
// The argument and the scratch registers are given; the argument is left unchanged. Code for rare arguments
// is kept apart until late_code, which the user calls once, after the end of the code.
#pragma once

#include <initializer_list>
#include <vector>

#include "cpu/fusion/vector_x86_assembler.hpp"

namespace tidu::cpu_detail::x86 {

// Comparisons that are true of a NaN.
inline constexpr std::uint8_t not_less = 0x15, not_less_equal = 0x16;

/// A number leaves its nearest integer in the low bits when this is added to it.
inline double rounder(const Assembler& assembler) { return assembler.is_f64() ? 0x1.8p52 : 0x1.8p23; }

class ExponentialEmitter {
 public:
  explicit ExponentialEmitter(Assembler& assembler) : x_(assembler) {}

  // p = e^x; r and n are scratch. e^x = 2^n e^r, n = round(x / log 2), |r| <= log(2) / 2. e^r is a polynomial
  // of degree 11 (f32: 6), which begins as Taylor's series; the other coefficients have least maximum
  // relative error (Remez 1934). The error is within 1 ulp. Beyond the bounds the result is set to infinity
  // or 0 without a multiplication: a product that is rounded to 0 or to a subnormal number takes some
  // processors a hundred cycles, and such arguments are frequent.
  void exp(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    if (x_.is_512()) {
      at_most(r, x);
      exp_parts(r, r, n, p);
      x_.vsub(n, n, rounder());
      x_.vcmp(k1, x, least(), not_less);
      return x_.vscalef(p | k1 | T_z, p, n);
    }
    Outside& outside = outside_.emplace_back(Outside{x, r, n, p, {}, {}});
    const Source bound = x_.number(x_.is_f64() ? 708 : 87);
    x_.vpand(r, x, x_.constant(x_.magnitude_bits()));
    x_.vcmp(r, r, bound, not_less_equal);
    x_.vptest(r, r);
    x_.jnz(outside.begin, x_.T_NEAR);
    exp_parts(x, r, n, p);
    x_.vpsll(n, n, x_.mantissa_bits());
    x_.vpadd(p, p, n);
    x_.L(outside.end);
  }

  // In f32: tanh x = 2 h / (1 + h^2), h = tanh(x / 2) = t p(t^2) / q(t^2), with a single quotient; errors of
  // h count little where tanh is near 1. The error is within 3.5 ulp, tested for all x. t = 1.75 x, since
  // rounding counts most at the beginning of a power of two, and tanh is then at the end of the one below. p
  // and q were fitted to |x| <= 9.1 by least squares, with weights that were adapted until the maximum error
  // was least. From 9.02 on the result is 1. Signs of zeros are kept, and a NaN passes the bounds, since the
  // instruction returns the second operand if one is NaN. The result is in n; the other registers are
  // scratch.
  void tanh_f32(const Ymm& x, const Ymm& t, const Ymm& u, const Ymm& p, const Ymm& q, const Ymm& n) {
    x_.vmovups(t, x_.number(-9.02));
    x_.vmovups(u, x_.number(9.02));
    x_.vmaxps(t, t, x);
    x_.vminps(t, u, t);
    x_.vmulps(t, t, x_.number(1.75));
    x_.vmulps(u, t, t);
    polynomial(q, u, {0x1.412c02p-23, 0x1.d7fc06p-12, 0x1.08ba1ep-3, 3.5});
    polynomial(p, u, {0x1.987c02p-17, 0x1.3e88e8p-7});
    x_.vmulps(n, t, u);
    x_.vfmadd213ps(n, p, t);  // t p
    x_.vmulps(u, n, n);
    x_.vaddps(n, n, n);
    x_.vmulps(n, n, q);
    x_.vfmadd213ps(q, q, u);
    x_.vdivps(n, n, q);
  }

  // In f64: tanh |x| = m / (m + 2), m = e^2|x| - 1 = 2^n (e^r - 1) + (2^n - 1), with n and r as for e^x, so
  // that nothing cancels; then the sign of x. The error is within 3 ulp. e^r - 1 = r + r^2 s(r), where s has
  // degree 9 and coefficients that make the maximum relative error of e^r - 1 least. From 19.1 on the result
  // is 1. A NaN passes the bound. The result is in p; the other registers are scratch.
  void tanh_f64(const Ymm& x, const Ymm& t, const Ymm& r, const Ymm& n, const Ymm& p) {
    x_.vand(r, x, x_.constant(x_.magnitude_bits()));
    x_.vmovups(t, x_.number(19.1));
    x_.vminpd(t, t, r);
    x_.vaddpd(t, t, t);
    reduce(t, r, n, p);
    polynomial(p, r,
               {0x1.ae6bcf0d58d40p-26, 0x1.28a1df719dc83p-22, 0x1.71de87f0079bap-19, 0x1.a019a76fdf2b7p-16,
                0x1.a01a01751dd52p-13, 0x1.6c16c17edb707p-10, 0x1.1111111118f95p-7, 0x1.55555555522b9p-5,
                0x1.5555555555539p-3, 0x1.0000000000005p-1});
    x_.vmulpd(p, p, r);
    x_.vfmadd213pd(p, r, r);
    power_of_two(n);
    x_.vsubpd(t, n, x_.number(1));
    x_.vfmadd213pd(p, n, t);
    x_.vaddpd(t, p, x_.number(2));
    x_.vdivpd(p, p, t);
    x_.vand(t, x, x_.constant(x_.sign_bit()));
    x_.vor(p, p, t);
  }

  /// The code for arguments of exp beyond the bounds, after all other code.
  void late_code() {
    for (Outside& outside : outside_) {
      x_.L(outside.begin);
      exp_outside(outside.x, outside.r, outside.n, outside.p);
      x_.jmp(outside.end, x_.T_NEAR);
    }
    outside_.clear();
  }

 private:
  struct Outside {
    Ymm x, r, n, p;
    Label begin, end;
  };
  Source rounder() { return x_.number(x86::rounder(x_)); }
  // r = the polynomial of x with these coefficients, of the highest power first.
  void polynomial(const Ymm& r, const Ymm& x, std::initializer_list<double> coefficients) {
    x_.vmovups(r, x_.number(*coefficients.begin()));
    for (const double* next = coefficients.begin() + 1; next != coefficients.end(); ++next)
      x_.vfmadd213(r, x, x_.number(*next));
  }
  // min(x, the largest argument with a finite result); a NaN passes, since the instruction returns the second
  // operand if one is NaN.
  void at_most(const Ymm& r, const Ymm& x) {
    x_.vmovups(r, x_.number(x_.is_f64() ? 710 : 89));
    x_.vmin(r, r, x);
  }
  // Half of the smallest number is e to a little more than this.
  Source least() { return x_.number(x_.is_f64() ? -745.2 : -104); }
  // Sets r and n, to which rounder() is still added; p is scratch.
  void reduce(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    // log 2 in two parts; the first has so few bits that its product with n is exact.
    constexpr double log2_f64[] = {0x1.62e42feep-1, 0x1.a39ef35793c76p-33};
    constexpr double log2_f32[] = {0x1.63p-1, -0x1.bd0106p-13};
    x_.vmovups(n, x_.number(1.4426950408889634));
    x_.vfmadd213(n, x, rounder());
    x_.vsub(p, n, rounder());
    if (r.getIdx() != x.getIdx()) x_.vmovaps(r, x);
    for (const double part : x_.is_f64() ? log2_f64 : log2_f32) x_.vfnmadd231(r, p, x_.number(part));
  }
  // p = e^r, and n, to which rounder() is still added.
  void exp_parts(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    reduce(x, r, n, p);
    if (x_.is_f64()) {
      polynomial(p, r,
                 {0x1.8abb6a437bc09p-26, 0x1.28976ed46e26ap-22, 0x1.71f4b27a48471p-19, 0x1.a019b39416172p-16,
                  0x1.a019f7c4f701bp-13, 0x1.6c16c17a01583p-10, 0x1.11111112d2f45p-7, 0x1.5555555553b06p-5,
                  0x1.5555555554eb3p-3, 0.5, 1, 1});
    } else {
      polynomial(p, r, {0x1.6fee8cp-10, 0x1.125792p-7, 0x1.5553p-5, 0x1.555466p-3, 0.5, 1, 1});
    }
  }
  // For elements beyond the bounds, or so near them that 2^n is not a normal number: multiplies by the powers
  // of the two halves of n. An element beyond the lower bound is set to 0 by a mask. Other elements get the
  // same bits.
  void exp_outside(const Ymm& x, const Ymm& r, const Ymm& n, const Ymm& p) {
    at_most(r, x);
    x_.vmovups(n, least());
    x_.vmax(r, n, r);
    exp_parts(r, r, n, p);
    if (!x_.is_f64()) x_.vpsubd(n, n, rounder());
    x_.vpsrad(r, n, 1);
    x_.vpsubd(n, n, r);
    power_of_two(r);
    power_of_two(n);
    x_.vmul(p, p, r);
    x_.vcmp(r, x, least(), not_less);
    x_.vpand(n, n, r);
    x_.vmul(p, p, n);
  }
  // 2 to the power of the integers in the low bits.
  void power_of_two(const Ymm& n) {
    x_.vpsll(n, n, x_.mantissa_bits());
    x_.vpadd(n, n, x_.number(1));
  }

  Assembler& x_;
  std::vector<Outside> outside_;  // their code is still to be emitted
};

}  // namespace tidu::cpu_detail::x86
