// vector_x86_whole.hpp - WholeAssembler: the base of the x86-64 assemblers: registers of each vector width,
// constants, and integer arithmetic, for which AVX2 lacks 64-bit instructions.
#pragma once

#include <xbyak/xbyak.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "cpu/groups/vector_ir.hpp"

namespace tidu::cpu_detail {

class WholeAssembler : protected Xbyak::CodeGenerator {
 protected:
  using Address = Xbyak::Address;
  using Xmm = Xbyak::Xmm;
  using Ymm = Xbyak::Ymm;
  using Zmm = Xbyak::Zmm;

  WholeAssembler(DType dtype, bool is_512)
      : Xbyak::CodeGenerator(4096, Xbyak::AutoGrow),
        is_512_(is_512),
        is_f64_(dtype == f64),
        element_(static_cast<int>(size_of(dtype))),
        vector_(is_512 ? 64 : 32) {}
  ~WholeAssembler() override = default;

  // A Zmm for vectors of 64 bytes, unless halves suffice; Xbyak's register types differ in name only.
  Ymm register_of(int number) const {
    return is_512_ && !is_halved_ ? static_cast<Ymm>(Zmm(number)) : Ymm(number);
  }
  // Counted from the first register of the bank.
  Ymm vector(int i) const { return register_of(i + bank_); }
  int number_of(const Ymm& register_of_bank) const { return register_of_bank.getIdx() - bank_; }
  // Scratch for one instruction; it holds no value. Legacy encodings can address it.
  static constexpr int spare_register = 15;
  Ymm spare() const { return vector(spare_register); }
  Xmm narrow_spare() const { return Xmm(spare().getIdx()); }

  // A constant in every lane: in the register that holds it, or in memory.
  class Constant {
   public:
    explicit Constant(const Ymm& held) : held_(held) {}
    explicit Constant(const Address& at) : at_(at) {}
    // NOLINTNEXTLINE(google-explicit-constructor): it is an operand
    operator const Xbyak::Operand&() const { return at_ ? static_cast<const Xbyak::Operand&>(*at_) : held_; }

   private:
    Ymm held_;
    std::optional<Address> at_;
  };
  Constant constant(std::uint64_t bits) {
    if (const std::optional<Ymm> held = holding(bits)) return Constant(*held);
    ++constant_uses_[bits];
    return Constant(in_turn(bits, bits));
  }
  // The register that holds the constant, if any: see Note [Held constants] in vector_x86_sections.hpp.
  std::optional<Ymm> holding(std::uint64_t bits) const {
    const auto it = held_constants_.find(bits);
    if (it == held_constants_.end()) return std::nullopt;
    return register_of(it->second);
  }
  // Alternates two constants: `even` in lanes 0, 2, ..., `odd` in lanes 1, 3, ...
  Address in_turn(std::uint64_t even, std::uint64_t odd) {
    const auto [it, fresh] = constant_labels_.try_emplace({even, odd});
    return ptr[rip + it->second];
  }
  void constants() {
    for (auto& [bits, label] : constant_labels_) {
      align(64);
      L(label);
      for (int i = 0; i < vector_ / element_; ++i) {
        const std::uint64_t lane = i % 2 == 0 ? bits.first : bits.second;
        if (is_f64_) {
          dq(lane);
        } else {
          dd(static_cast<std::uint32_t>(lane));
        }
      }
    }
  }

  static bool is_whole(VectorOp op) {
    return (op >= VectorOp::whole_add && op <= VectorOp::whole_min) || op == VectorOp::to_floating ||
           op == VectorOp::to_whole || op == VectorOp::whole_equal || op == VectorOp::whole_less;
  }
  // r is neither a nor b.
  void compute_whole(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    switch (op) {
      case VectorOp::whole_add: is_f64_ ? vpaddq(r, a, b) : vpaddd(r, a, b); break;
      case VectorOp::whole_sub: is_f64_ ? vpsubq(r, a, b) : vpsubd(r, a, b); break;
      case VectorOp::whole_mul: is_f64_ ? multiply_wide(r, a, b) : vpmulld(r, a, b); break;
      case VectorOp::whole_max:
      case VectorOp::whole_min: whole_extremum(op, r, a, b); break;
      case VectorOp::whole_equal:
        if (is_512_) {
          is_f64_ ? vpcmpeqq(k1, a, b) : vpcmpeqd(k1, a, b);
          spread(r);
        } else {
          is_f64_ ? vpcmpeqq(r, a, b) : vpcmpeqd(r, a, b);
        }
        break;
      case VectorOp::whole_less:
        if (is_512_) {
          is_f64_ ? vpcmpgtq(k1, b, a) : vpcmpgtd(k1, b, a);
          spread(r);
        } else {
          is_f64_ ? vpcmpgtq(r, b, a) : vpcmpgtd(r, b, a);
        }
        break;
      case VectorOp::to_whole: vcvttps2dq(r, a); break;
      default: is_f64_ ? wide_to_floating(r, a) : vcvtdq2ps(r, a); break;
    }
  }
  // Sets the lanes whose bits are set in k1.
  void spread(const Ymm& r) { is_f64_ ? vpmovm2q(r, k1) : vpmovm2d(r, k1); }

  const bool is_512_, is_f64_;
  const int element_, vector_;
  bool is_halved_ = false;                       // do values use only the first half of each register?
  int bank_ = 0;                                 // see Note [Pairs] in vector_x86.cpp
  std::map<std::uint64_t, int> constant_uses_;   // in memory, by bits
  std::map<std::uint64_t, int> held_constants_;  // registers, counted from the first one of the first bank

 private:
  // The low half of the product, by halves of 32 bits; the product of the high halves overflows.
  void multiply_wide(const Ymm& r, const Ymm& a, const Ymm& b) {
    if (is_512_) return vpmullq(r, a, b);
    vpsrlq(spare(), a, 32);
    vpmuludq(spare(), spare(), b);
    vpsrlq(r, b, 32);
    vpmuludq(r, r, a);
    vpaddq(spare(), spare(), r);
    vpsllq(spare(), spare(), 32);
    vpmuludq(r, a, b);
    vpaddq(r, r, spare());
  }
  void whole_extremum(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    const bool largest = op == VectorOp::whole_max;
    if (!is_f64_) return largest ? vpmaxsd(r, a, b) : vpminsd(r, a, b);
    if (is_512_) return largest ? vpmaxsq(r, a, b) : vpminsq(r, a, b);
    vpcmpgtq(spare(), a, b);
    if (largest) {
      vblendvpd(r, b, a, spare());
    } else {
      vblendvpd(r, a, b, spare());
    }
  }
  // The upper 16 bits become the mantissa of 3 * 2^67 plus them, and the lower 48 that of 2^52 plus them. The
  // biases are subtracted exactly; only the final sum is rounded.
  void wide_to_floating(const Ymm& r, const Ymm& a) {
    if (is_512_) return vcvtqq2pd(r, a);
    vpsrad(r, a, 16);
    vpxor(spare(), spare(), spare());
    vpblendw(r, r, spare(), 0x33);
    vpaddq(r, r, constant(0x4438000000000000));      // 3 * 2^67
    vsubpd(r, r, constant(0x4438001000000000));      // 3 * 2^67 + 2^52
    vmovups(spare(), constant(0x4330000000000000));  // 2^52
    vpblendw(spare(), a, spare(), 0x88);
    vaddpd(r, r, spare());
  }

  std::map<std::pair<std::uint64_t, std::uint64_t>, Xbyak::Label> constant_labels_;
};

}  // namespace tidu::cpu_detail
