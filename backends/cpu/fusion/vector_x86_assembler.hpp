// vector_x86_assembler.hpp - x86::Assembler: the buffer of generated x86-64 code, its constants, its stack
// frame, and the vector registers of one width (AVX2 or AVX-512).
//
// Emitters and generators hold an Assembler and call its instructions; nothing derives from it. An
// instruction that has a variant for each size of elements is called without the suffix: vadd is vaddps or
// vaddpd, vpadd is vpaddd or vpaddq. Constants follow the code, each once. The code is position-independent.
#pragma once

#include <xbyak/xbyak.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cpu/fusion/vector_ir.hpp"

namespace tidu::cpu_detail::x86 {

using namespace Xbyak::util;  // the registers' names
using Xbyak::Address, Xbyak::Label, Xbyak::Operand, Xbyak::Reg64, Xbyak::Xmm, Xbyak::Ymm, Xbyak::Zmm;

/// Scratch for one instruction; it holds no value. Legacy encodings can address it.
inline constexpr int spare_register = 15;

/// An operand that is in a register or in memory.
class Source {
 public:
  explicit Source(const Ymm& held) : held_(held) {}
  explicit Source(const Address& at) : at_(at) {}
  // NOLINTNEXTLINE(google-explicit-constructor): it is an operand
  operator const Operand&() const { return at_ ? static_cast<const Operand&>(*at_) : held_; }

 private:
  Ymm held_;
  std::optional<Address> at_;
};

class Assembler : public Xbyak::CodeGenerator {
 public:
  Assembler(DType dtype, bool is_512)
      : Xbyak::CodeGenerator(4096, Xbyak::AutoGrow), is_512_(is_512), is_f64_(dtype == f64) {}

  bool is_512() const { return is_512_; }
  bool is_f64() const { return is_f64_; }
  DType dtype() const { return is_f64_ ? f64 : f32; }
  int element_bytes() const { return is_f64_ ? 8 : 4; }
  int vector_bytes() const { return is_512_ ? 64 : 32; }
  int lanes() const { return vector_bytes() / element_bytes(); }
  int num_registers() const { return is_512_ ? 32 : 16; }

  // Registers, whose types in Xbyak differ in name only.
  /// Values use the first half of each register while this is set.
  void set_halved(bool is_halved) { is_halved_ = is_halved; }
  bool is_halved() const { return is_halved_; }
  /// The first register of the present bank: see Note [Pairs] in vector_x86.cpp.
  void set_bank(int first) { bank_ = first; }
  int bank() const { return bank_; }
  /// The register with this number, of all.
  Ymm register_of(int number) const {
    return is_512_ && !is_halved_ ? static_cast<Ymm>(Zmm(number)) : Ymm(number);
  }
  /// Register i of the bank, and the number of such a register.
  Ymm vector(int i) const { return register_of(i + bank_); }
  int number_of(const Ymm& register_of_bank) const { return register_of_bank.getIdx() - bank_; }
  Ymm spare() const { return vector(spare_register); }
  Xmm narrow_spare() const { return Xmm(spare().getIdx()); }

  // Constants.
  std::uint64_t number_bits(double value) const {
    return is_f64_ ? std::bit_cast<std::uint64_t>(value)
                   : std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
  std::uint64_t sign_bit() const { return std::uint64_t{1} << to_sign(0); }
  std::uint64_t magnitude_bits() const { return is_f64_ ? ~sign_bit() : ~sign_bit() & 0xffffffffU; }
  std::uint8_t mantissa_bits() const { return is_f64_ ? 52 : 23; }
  /// The distance from bit `bit` of an element to its sign.
  std::uint8_t to_sign(int bit) const { return static_cast<std::uint8_t>(8 * element_bytes() - 1 - bit); }
  /// The constant with these bits in every lane.
  Source constant(std::uint64_t bits) {
    if (const std::optional<Ymm> held = holding(bits)) return Source(*held);
    ++constant_uses_[bits];
    return Source(in_turn(bits, bits));
  }
  Source number(double value) { return constant(number_bits(value)); }
  /// Two constants that alternate: `even` in lanes 0, 2, ..., `odd` in lanes 1, 3, ...
  Address in_turn(std::uint64_t even, std::uint64_t odd) { return ptr[rip + labels_[{even, odd}]]; }
  /// Loads a constant into a register, counted from the first one of the first bank, that holds it from then
  /// on.
  void hold(std::uint64_t bits, int number) {
    vmovups(register_of(number), constant(bits));
    held_[bits] = number;
  }
  void release_constants() { held_.clear(); }
  /// The register that holds the constant, if any: see Note [Held constants] in vector_x86_sections.hpp.
  std::optional<Ymm> holding(std::uint64_t bits) const {
    const auto it = held_.find(bits);
    if (it == held_.end()) return std::nullopt;
    return register_of(it->second);
  }
  /// The number of uses of each constant in memory since the last call, by bits.
  std::map<std::uint64_t, int> take_constant_uses() { return std::exchange(constant_uses_, {}); }

  /// Lane 0 of x.
  void store_element(const Address& to, const Ymm& x) { vmovs(to, Xmm(x.getIdx())); }
  /// Calls a function; writes rax.
  void call_function(const void* function) {
    mov(rax, reinterpret_cast<std::uintptr_t>(function));
    call(rax);
  }

  // The function.
  /// Begins the function: saves these registers, rbp among them, and reserves the stack frame, whose size is
  /// known only at the end.
  void open_frame(std::initializer_list<Reg64> saved) {
    saved_ = saved;
    for (const Reg64& r : saved_) push(r);
    mov(rbp, rsp);
    sub(rsp, 0x7fffffff);
    frame_at_ = getSize() - 4;
    and_(rsp, static_cast<std::uint32_t>(-64));
  }
  /// Returns from the function.
  void close_frame() {
    vzeroupper();
    mov(rsp, rbp);
    for (auto r = saved_.rbegin(); r != saved_.rend(); ++r) pop(*r);
    ret();
  }
  Address slot(int i) const { return ptr[rsp + static_cast<std::size_t>(i * vector_bytes())]; }
  /// The code, with a frame of `num_slots` vectors and 64 bytes.
  std::span<const std::uint8_t> finished(int num_slots) {
    for (auto& [bits, label] : labels_) {
      align(64);
      L(label);
      for (int i = 0; i < lanes(); ++i) {
        const std::uint64_t lane = i % 2 == 0 ? bits.first : bits.second;
        is_f64_ ? dq(lane) : dd(static_cast<std::uint32_t>(lane));
      }
    }
    ready(Xbyak::CodeGenerator::PROTECT_RW);
    const auto frame = static_cast<std::uint32_t>(num_slots * vector_bytes() + 64);
    std::memcpy(const_cast<std::uint8_t*>(getCode()) + frame_at_, &frame, sizeof frame);
    return {getCode(), getSize()};
  }

  // Instructions for either size of elements, and bitwise ones for either width of vectors.
  // clang-format off
#define TIDU_EITHER(CONDITION, NAME, YES, NO) \
  template <class... Operands> void NAME(const Operands&... operands) { \
    (CONDITION) ? YES(operands...) : NO(operands...); \
  }
#define TIDU_FLOATING(NAME) TIDU_EITHER(is_f64_, NAME, NAME##pd, NAME##ps)
#define TIDU_SCALAR(NAME) TIDU_EITHER(is_f64_, NAME, NAME##d, NAME##s)
#define TIDU_INTEGER(NAME) TIDU_EITHER(is_f64_, NAME, NAME##q, NAME##d)
#define TIDU_BITS(NAME, OF_BITS) TIDU_EITHER(is_512_, NAME, OF_BITS##d, OF_BITS)
  TIDU_FLOATING(vadd); TIDU_FLOATING(vsub); TIDU_FLOATING(vmul); TIDU_FLOATING(vdiv); TIDU_FLOATING(vsqrt);
  TIDU_FLOATING(vmax); TIDU_FLOATING(vmin); TIDU_FLOATING(vfmadd213); TIDU_FLOATING(vfnmadd231);
  TIDU_FLOATING(vround); TIDU_FLOATING(vrndscale); TIDU_FLOATING(vscalef); TIDU_FLOATING(vfixupimm);
  TIDU_FLOATING(vcmp); TIDU_FLOATING(vblendm); TIDU_FLOATING(vblendv); TIDU_FLOATING(vpermil);
  TIDU_FLOATING(vmova); TIDU_FLOATING(vmovu); TIDU_FLOATING(vmaskmov);
  TIDU_SCALAR(vbroadcasts); TIDU_SCALAR(vadds); TIDU_SCALAR(vmovs);
  TIDU_INTEGER(vpadd); TIDU_INTEGER(vpsub); TIDU_INTEGER(vpsll); TIDU_INTEGER(vpcmpeq); TIDU_INTEGER(vpcmpgt);
  TIDU_INTEGER(vptestm); TIDU_INTEGER(vpmovm2); TIDU_INTEGER(vpmovzxb); TIDU_INTEGER(vpbroadcast);
  TIDU_BITS(vand, vpand); TIDU_BITS(vor, vpor); TIDU_BITS(vxor, vpxor);
#undef TIDU_BITS
#undef TIDU_INTEGER
#undef TIDU_SCALAR
#undef TIDU_FLOATING
#undef TIDU_EITHER
  // clang-format on

 private:
  const bool is_512_, is_f64_;
  bool is_halved_ = false;
  int bank_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Label> labels_;  // of constants, even and odd lanes
  std::map<std::uint64_t, int> constant_uses_, held_;                // by bits
  std::vector<Reg64> saved_;                                         // see open_frame
  std::size_t frame_at_ = 0;
};

}  // namespace tidu::cpu_detail::x86
