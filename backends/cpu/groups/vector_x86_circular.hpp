// vector_x86_circular.hpp - CircularAssembler: inline code for sin and cos. For one x, both share all but the
// last few instructions, and derivatives need both.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "cpu/groups/vector_x86_functions.hpp"

namespace tidu::cpu_detail {

/// Range reduction for lanes that are NaN or beyond circular_bounds: computes r with |r| <= pi / 4, and the
/// last two bits of n, such that |x| = r + n pi / 2. Other lanes are left unchanged.
template <class T, class Bits, int lanes>
void reduce_far(const T* x, T* r, Bits* n) noexcept;

/// The |x| from which on reduce_far is needed, in f32 and f64.
inline constexpr double circular_bounds[] = {0x1p15, 0x1p20};

class CircularAssembler : protected FunctionAssembler {
 protected:
  using FunctionAssembler::FunctionAssembler;
  ~CircularAssembler() override = default;

  /// Registers for this function alone, except x.
  struct Circular {
    Ymm x, r, n, p, q, t;
  };

  // Computes sin x or cos x in p, or both: sin x in p and cos x in q. |x| = r + n pi / 2 with n = round(|x| 2
  // / pi), where r is computed with pi / 2 in three parts (Cody and Waite 1980); the first product is exact.
  // With z = r^2
  //   sin r = r + r z s(z),  cos r = 1 - z / 2 + z^2 c(z),
  // where s and c have degree 2 (f64: 5) and coefficients of least maximum relative error (Remez 1934). n
  // decides which of the two applies, and its sign. The error is within 1.6 ulp (f32: tested for all x), and
  // within 2 ulp with reduce_far. The sign of x is restored last, since the sine of -0 is -0. The operations,
  // and thus the bits, do not depend on the surrounding code.
  void circular(const Circular& c, bool sine, bool cosine) {
    reduce(c);
    if (sine && cosine) return both(c);
    one(c, sine);
  }

  void late_code() {
    for (Far& far : far_) {
      L(far.begin);
      far_code(far.c);
      jmp(far.end, T_NEAR);
    }
    far_.clear();
    FunctionAssembler::late_code();
  }

 private:
  struct Far {
    Circular c;
    Xbyak::Label begin, end;
  };
  static constexpr double sine_f32[] = {-0x1.98fd4ap-13, 0x1.11066ap-7, -0x1.555544p-3};
  static constexpr double cosine_f32[] = {0x1.99ab10p-16, -0x1.6c0b52p-10, 0x1.555548p-5};
  static constexpr double sine_f64[] = {0x1.5d6ad58d60cf0p-33, -0x1.ae5ddc2e6d3c5p-26,
                                        0x1.71de34c85039fp-19, -0x1.a01a019b48bd8p-13,
                                        0x1.111111110f242p-7,  -0x1.5555555555545p-3};
  static constexpr double cosine_f64[] = {-0x1.8f7b7aafe6a06p-37, 0x1.1ee98885304c0p-29,
                                          -0x1.27e4f776c0200p-22, 0x1.a01a019be495bp-16,
                                          -0x1.6c16c16c14939p-10, 0x1.5555555555548p-5};
  static constexpr double half_pi_f32[] = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};
  static constexpr double half_pi_f64[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                           -0x1.f1976b7ed8fbcp-110};

  const double* sines() const { return is_f64_ ? sine_f64 : sine_f32; }
  const double* cosines() const { return is_f64_ ? cosine_f64 : cosine_f32; }
  std::size_t terms() const { return is_f64_ ? std::size(sine_f64) : std::size(sine_f32); }

  void multiply(const Ymm& r, const Ymm& a, const Ymm& b) { is_f64_ ? vmulpd(r, a, b) : vmulps(r, a, b); }
  // r = r a + b.
  void multiply_add(const Ymm& r, const Ymm& a, const Xbyak::Operand& b) {
    is_f64_ ? vfmadd213pd(r, a, b) : vfmadd213ps(r, a, b);
  }

  // x| = r + n pi / 2; rounder() is still added to n. p and q are scratch.
  void reduce(const Circular& c) {
    Far& far = far_.emplace_back(Far{c, {}, {}});
    both_bits(c.r, c.x, constant(magnitude_bits()));
    const Constant bound = number(circular_bounds[is_f64_ ? 1 : 0]);
    if (is_512_) {
      is_f64_ ? vcmppd(k1, c.r, bound, not_less_equal) : vcmpps(k1, c.r, bound, not_less_equal);
      kortestw(k1, k1);
    } else {
      is_f64_ ? vcmppd(c.p, c.r, bound, not_less_equal) : vcmpps(c.p, c.r, bound, not_less_equal);
      vptest(c.p, c.p);
    }
    jnz(far.begin, T_NEAR);
    reduce_near(c);
    L(far.end);
  }
  void reduce_near(const Circular& c) {
    vmovups(c.n, number(0x1.45f306dc9c883p-1));
    vmovups(c.q, number(rounder()));
    multiply_add(c.n, c.r, c.q);
    is_f64_ ? vsubpd(c.p, c.n, c.q) : vsubps(c.p, c.n, c.q);
    for (const double part : is_f64_ ? half_pi_f64 : half_pi_f32)
      is_f64_ ? vfnmadd231pd(c.r, c.p, number(part)) : vfnmadd231ps(c.r, c.p, number(part));
  }

  // t = z; p = s(z); q = c(z).
  void both(const Circular& c) {
    multiply(c.t, c.r, c.r);
    vmovups(c.p, number(sines()[0]));
    vmovups(c.q, number(cosines()[0]));
    for (std::size_t k = 1; k < terms(); ++k) {
      multiply_add(c.p, c.t, number(sines()[k]));
      multiply_add(c.q, c.t, number(cosines()[k]));
    }
    multiply(spare(), c.r, c.t);
    multiply_add(c.p, spare(), c.r);  // sin r
    vmovups(c.r, number(-0.5));
    multiply_add(c.r, c.t, number(1));
    multiply(c.t, c.t, c.t);
    multiply_add(c.q, c.t, c.r);  // cos r
    is_odd(c);
    blend(c.t, c.p, c.q);
    blend(c.q, c.q, c.p);
    vmovaps(c.p, c.t);
    signs(c, c.p, true);
    signs(c, c.q, false);
  }
  // Each lane selects the coefficients of s or c: by n even or odd for a sine, and by odd or even for a
  // cosine.
  void one(const Circular& c, bool sine) {
    multiply(c.t, c.r, c.r);
    const double* const even = sine ? sines() : cosines();
    const double* const odd = sine ? cosines() : sines();
    if (is_f64_) vpaddq(spare(), c.n, c.n);  // the bit that selects
    const auto coefficient = [&](const Ymm& to, std::size_t k) {
      vmovups(to, in_turn(number_bits(even[k]), number_bits(odd[k])));
      is_f64_ ? vpermilpd(to, to, spare()) : vpermilps(to, to, c.n);
    };
    coefficient(c.p, 0);
    for (std::size_t k = 1; k < terms(); ++k) {
      coefficient(c.q, k);
      multiply_add(c.p, c.t, c.q);
    }
    vmovups(c.q, number(-0.5));
    multiply_add(c.q, c.t, number(1));
    is_odd(c);
    const auto chosen = [&](const Ymm& to, const Ymm& of_cosine) {
      blend(to, sine ? c.r : of_cosine, sine ? of_cosine : c.r);
    };
    chosen(c.q, c.q);
    chosen(c.r, c.t);
    multiply(c.r, c.r, c.t);
    multiply_add(c.p, c.r, c.q);
    signs(c, c.p, sine);
  }
  // Sets k1, or the spare register.
  void is_odd(const Circular& c) {
    if (is_512_) {
      is_f64_ ? vptestmq(k1, c.n, constant(1)) : vptestmd(k1, c.n, constant(1));
    } else {
      is_f64_ ? vpsllq(spare(), c.n, 63) : vpslld(spare(), c.n, 31);
    }
  }
  void blend(const Ymm& to, const Ymm& even, const Ymm& odd) {
    if (is_512_) {
      is_f64_ ? vblendmpd(to | k1, even, odd) : vblendmps(to | k1, even, odd);
    } else {
      is_f64_ ? vblendvpd(to, even, odd, spare()) : vblendvps(to, even, odd, spare());
    }
  }
  // The sign of a sine is that of x and the second bit of n, and the sign of a cosine that of n + 1.
  // Overwrites r.
  void signs(const Circular& c, const Ymm& result, bool sine) {
    if (sine) {
      is_f64_ ? vpsllq(c.r, c.n, 62) : vpslld(c.r, c.n, 30);
      is_512_ ? vpxord(c.r, c.r, c.x) : vpxor(c.r, c.r, c.x);
    } else {
      is_f64_ ? vpaddq(c.r, c.n, constant(1)) : vpaddd(c.r, c.n, constant(1));
      is_f64_ ? vpsllq(c.r, c.r, 62) : vpslld(c.r, c.r, 30);
    }
    constexpr std::uint8_t exclusive_or_of_both = 0x78;  // a ^ (b & c)
    if (is_512_) return vpternlogd(result, c.r, constant(sign_bit()), exclusive_or_of_both);
    vpand(c.r, c.r, constant(sign_bit()));
    vpxor(result, result, c.r);
  }

  // Rarely executed: saves every register that a call may write, including those of r and n, which are its
  // arguments.
  void far_code(const Circular& c) {
    reduce_near(c);
    const std::initializer_list<Xbyak::Reg64> general = {rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11};
    const int vectors = is_512_ ? 32 : 16;
    const auto place = [&](int i) { return ptr[rsp + static_cast<std::size_t>(i * vector_)]; };
    const auto general_at = static_cast<std::size_t>(vectors * vector_);
    const std::size_t masks_at = general_at + 8 * general.size();
    const auto room = static_cast<std::uint32_t>((masks_at + 8 * 7 + 63) / 64 * 64);
    sub(rsp, room);
    for (int i = 0; i < vectors; ++i) vmovups(place(i), vector(i));
    std::size_t at = general_at;
    for (const Xbyak::Reg64& r : general) mov(ptr[rsp + std::exchange(at, at + 8)], r);
    for (int k = 1; is_512_ && k < 8; ++k) kmovq(ptr[rsp + std::exchange(at, at + 8)], Xbyak::Opmask(k));
    const auto address = [&](const Xbyak::Reg64& to, const Ymm& of) { lea(to, place(of.getIdx())); };
    address(rdi, c.x);
    address(rsi, c.r);
    address(rdx, c.n);
    mov(rax, reinterpret_cast<std::uintptr_t>(far_function()));
    vzeroupper();
    call(rax);
    at = masks_at;
    for (int k = 1; is_512_ && k < 8; ++k) kmovq(Xbyak::Opmask(k), ptr[rsp + std::exchange(at, at + 8)]);
    at = general_at;
    for (const Xbyak::Reg64& r : general) mov(r, ptr[rsp + std::exchange(at, at + 8)]);
    for (int i = 0; i < vectors; ++i) vmovups(vector(i), place(i));
    add(rsp, room);
  }
  const void* far_function() const {
    const auto of = [](auto* function) { return reinterpret_cast<const void*>(function); };
    if (is_f64_)
      return is_512_ ? of(&reduce_far<double, std::uint64_t, 8>) : of(&reduce_far<double, std::uint64_t, 4>);
    return is_512_ ? of(&reduce_far<float, std::uint32_t, 16>) : of(&reduce_far<float, std::uint32_t, 8>);
  }

  std::vector<Far> far_;
};

}  // namespace tidu::cpu_detail
