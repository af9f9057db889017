// vector_x86_circular.hpp - x86::CircularEmitter: inline code for sin and cos. For one x, both share all but
// the last few instructions, and derivatives need both.
//
// The argument and the scratch registers are given; the argument is left unchanged. Code for arguments that
// are far from 0 is kept apart until late_code, which the user calls once, after the end of the code.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "cpu/fusion/vector_x86_exponential.hpp"

namespace tidu::cpu_detail {

/// Range reduction for lanes that are NaN or beyond circular_bounds: computes r with |r| <= pi / 4, and the
/// last two bits of n, such that |x| = r + n pi / 2. Other lanes are left unchanged.
template <class T, class Bits, int lanes>
void reduce_far(const T* x, T* r, Bits* n) noexcept;

/// The |x| from which on reduce_far is needed, in f32 and f64.
inline constexpr double circular_bounds[] = {0x1p15, 0x1p20};

namespace x86 {

class CircularEmitter {
 public:
  explicit CircularEmitter(Assembler& assembler) : x_(assembler) {}

  /// The argument x, the results p and q, and scratch.
  struct Registers {
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
  void emit(const Registers& c, bool sine, bool cosine) {
    reduce(c);
    sine&& cosine ? both(c) : one(c, sine);
  }

  /// The code for arguments beyond circular_bounds, after all other code.
  void late_code() {
    for (Far& far : far_) {
      x_.L(far.begin);
      reduce_far_code(far.c);
      x_.jmp(far.end, x_.T_NEAR);
    }
    far_.clear();
  }

 private:
  struct Far {
    Registers c;
    Label begin, end;
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

  const double* sines() const { return x_.is_f64() ? sine_f64 : sine_f32; }
  const double* cosines() const { return x_.is_f64() ? cosine_f64 : cosine_f32; }
  std::size_t terms() const { return x_.is_f64() ? std::size(sine_f64) : std::size(sine_f32); }

  // |x| = r + n pi / 2; rounder() is still added to n. p and q are scratch.
  void reduce(const Registers& c) {
    Far& far = far_.emplace_back(Far{c, {}, {}});
    x_.vand(c.r, c.x, x_.constant(x_.magnitude_bits()));
    const Source bound = x_.number(circular_bounds[x_.is_f64() ? 1 : 0]);
    if (x_.is_512()) {
      x_.vcmp(k1, c.r, bound, not_less_equal);
      x_.kortestw(k1, k1);
    } else {
      x_.vcmp(c.p, c.r, bound, not_less_equal);
      x_.vptest(c.p, c.p);
    }
    x_.jnz(far.begin, x_.T_NEAR);
    reduce_near(c);
    x_.L(far.end);
  }
  void reduce_near(const Registers& c) {
    x_.vmovups(c.n, x_.number(0x1.45f306dc9c883p-1));
    x_.vmovups(c.q, x_.number(rounder(x_)));
    x_.vfmadd213(c.n, c.r, c.q);
    x_.vsub(c.p, c.n, c.q);
    for (const double part : x_.is_f64() ? half_pi_f64 : half_pi_f32)
      x_.vfnmadd231(c.r, c.p, x_.number(part));
  }

  // t = z; p = s(z); q = c(z).
  void both(const Registers& c) {
    x_.vmul(c.t, c.r, c.r);
    x_.vmovups(c.p, x_.number(sines()[0]));
    x_.vmovups(c.q, x_.number(cosines()[0]));
    for (std::size_t k = 1; k < terms(); ++k) {
      x_.vfmadd213(c.p, c.t, x_.number(sines()[k]));
      x_.vfmadd213(c.q, c.t, x_.number(cosines()[k]));
    }
    x_.vmul(x_.spare(), c.r, c.t);
    x_.vfmadd213(c.p, x_.spare(), c.r);  // sin r
    x_.vmovups(c.r, x_.number(-0.5));
    x_.vfmadd213(c.r, c.t, x_.number(1));
    x_.vmul(c.t, c.t, c.t);
    x_.vfmadd213(c.q, c.t, c.r);  // cos r
    test_odd(c);
    blend(c.t, c.p, c.q);
    blend(c.q, c.q, c.p);
    x_.vmovaps(c.p, c.t);
    apply_sign(c, c.p, true);
    apply_sign(c, c.q, false);
  }
  // Each lane selects the coefficients of s or c: by n even or odd for a sine, and by odd or even for a
  // cosine.
  void one(const Registers& c, bool sine) {
    x_.vmul(c.t, c.r, c.r);
    const double* const even = sine ? sines() : cosines();
    const double* const odd = sine ? cosines() : sines();
    if (x_.is_f64()) x_.vpaddq(x_.spare(), c.n, c.n);  // the bit that selects
    const auto coefficient = [&](const Ymm& to, std::size_t k) {
      x_.vmovups(to, x_.in_turn(x_.number_bits(even[k]), x_.number_bits(odd[k])));
      x_.vpermil(to, to, x_.is_f64() ? x_.spare() : c.n);
    };
    coefficient(c.p, 0);
    for (std::size_t k = 1; k < terms(); ++k) {
      coefficient(c.q, k);
      x_.vfmadd213(c.p, c.t, c.q);
    }
    x_.vmovups(c.q, x_.number(-0.5));
    x_.vfmadd213(c.q, c.t, x_.number(1));
    test_odd(c);
    const auto select = [&](const Ymm& to, const Ymm& of_cosine) {
      blend(to, sine ? c.r : of_cosine, sine ? of_cosine : c.r);
    };
    select(c.q, c.q);
    select(c.r, c.t);
    x_.vmul(c.r, c.r, c.t);
    x_.vfmadd213(c.p, c.r, c.q);
    apply_sign(c, c.p, sine);
  }
  // Sets k1, or the spare register, where n is odd.
  void test_odd(const Registers& c) {
    x_.is_512() ? x_.vptestm(k1, c.n, x_.constant(1)) : x_.vpsll(x_.spare(), c.n, x_.to_sign(0));
  }
  void blend(const Ymm& to, const Ymm& even, const Ymm& odd) {
    x_.is_512() ? x_.vblendm(to | k1, even, odd) : x_.vblendv(to, even, odd, x_.spare());
  }
  // The sign of a sine is that of x and the second bit of n, and the sign of a cosine that of n + 1.
  // Overwrites r.
  void apply_sign(const Registers& c, const Ymm& result, bool sine) {
    if (sine) {
      x_.vpsll(c.r, c.n, x_.to_sign(1));
      x_.vxor(c.r, c.r, c.x);
    } else {
      x_.vpadd(c.r, c.n, x_.constant(1));
      x_.vpsll(c.r, c.r, x_.to_sign(1));
    }
    constexpr std::uint8_t exclusive_or_of_both = 0x78;  // a ^ (b & c)
    if (x_.is_512()) return x_.vpternlogd(result, c.r, x_.constant(x_.sign_bit()), exclusive_or_of_both);
    x_.vpand(c.r, c.r, x_.constant(x_.sign_bit()));
    x_.vpxor(result, result, c.r);
  }

  // Rarely executed: saves every register that a call may write, including those of r and n, which are its
  // arguments.
  void reduce_far_code(const Registers& c) {
    reduce_near(c);
    const std::initializer_list<Reg64> general = {rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11};
    const int vectors = x_.num_registers(), masks = x_.is_512() ? 8 : 0;
    const auto general_at = static_cast<std::size_t>(vectors * x_.vector_bytes());
    const std::size_t masks_at = general_at + 8 * general.size();
    const auto frame_bytes = static_cast<std::uint32_t>((masks_at + 8 * 7 + 63) / 64 * 64);
    const auto at = [](std::size_t offset) { return ptr[rsp + offset]; };
    const auto mask_at = [&](int k) { return at(masks_at + 8 * static_cast<std::size_t>(k - 1)); };
    x_.sub(rsp, frame_bytes);
    for (int i = 0; i < vectors; ++i) x_.vmovups(x_.slot(i), x_.vector(i));
    for (std::size_t i = 0; i < general.size(); ++i) x_.mov(at(general_at + 8 * i), general.begin()[i]);
    for (int k = 1; k < masks; ++k) x_.kmovq(mask_at(k), Xbyak::Opmask(k));
    x_.lea(rdi, x_.slot(c.x.getIdx()));
    x_.lea(rsi, x_.slot(c.r.getIdx()));
    x_.lea(rdx, x_.slot(c.n.getIdx()));
    x_.mov(rax, reinterpret_cast<std::uintptr_t>(far_function()));
    x_.vzeroupper();
    x_.call(rax);
    for (int k = 1; k < masks; ++k) x_.kmovq(Xbyak::Opmask(k), mask_at(k));
    for (std::size_t i = 0; i < general.size(); ++i) x_.mov(general.begin()[i], at(general_at + 8 * i));
    for (int i = 0; i < vectors; ++i) x_.vmovups(x_.vector(i), x_.slot(i));
    x_.add(rsp, frame_bytes);
  }
  const void* far_function() const {
    const auto of = [](auto* function) { return reinterpret_cast<const void*>(function); };
    if (x_.is_f64())
      return x_.is_512() ? of(&reduce_far<double, std::uint64_t, 8>)
                         : of(&reduce_far<double, std::uint64_t, 4>);
    return x_.is_512() ? of(&reduce_far<float, std::uint32_t, 16>) : of(&reduce_far<float, std::uint32_t, 8>);
  }

  Assembler& x_;
  std::vector<Far> far_;  // their code is still to be emitted
};

}  // namespace x86
}  // namespace tidu::cpu_detail
