// vector_x86.cpp - code for element-wise vector programs on x86-64: one loop over all elements.
//
// Note [Pairs]: a function is a chain of instructions each of which waits for the last, and a processor looks
// some hundred of them ahead, which is little more than one vector's. Therefore, with the 32 registers of
// AVX-512, the loop computes two vectors, step by step in turn, each in a bank of 16 registers. A single last
// vector runs through a loop of its own. If values of two vectors do not fit, there is that loop alone.
#include "cpu/fusion/vector_ir.hpp"

#if defined(TIDU_WITH_LANES)
#include <algorithm>
#include <cmath>

#include "cpu/fusion/vector_x86.hpp"

namespace tidu::cpu_detail {
namespace {

using namespace x86;

class ElementsGenerator : private MemoryEmitter {
 public:
  ElementsGenerator(const VectorProgram& code, bool is_512, bool pairs)
      : code_(code),
        calls_(calls_out(code.steps)),
        pairs_(pairs && is_512 && gains_from_pairs(code) && !calls_),
        x_(code.dtype, is_512) {
    if (pairs_) registers_.set_limit(bank_size);
  }
  Sections& sections() { return sections_; }

  std::span<const std::uint8_t> write() {
    // Pointers that stay in registers: more of them where no call takes them.
    pointers_.push_back(r15);
    if (!calls_) pointers_.insert(pointers_.end(), {r8, r9, r10, r11, rdx, rcx, rsi, rdi});
    prologue();
    const auto lanes = static_cast<std::uint32_t>(x_.lanes());
    sections_.begin(calls_ ? 0 : many_vectors, pairs_ ? 2 : 1);
    Label loop, end;
    if (pairs_) {
      Label pair;
      is_pair_left(lanes);
      x_.jg(loop, x_.T_NEAR);
      x_.L(pair);
      pair_of_vectors();
      x_.add(r14, 2 * lanes);
      is_pair_left(lanes);
      x_.jle(pair, x_.T_NEAR);
      x_.cmp(r14, r13);
      x_.jge(end, x_.T_NEAR);
    }
    x_.L(loop);
    emitter_.emit_all(code_.steps);
    x_.add(r14, lanes);
    x_.cmp(r14, r13);
    x_.jl(loop, x_.T_NEAR);
    x_.L(end);
    sections_.end();
    x_.close_frame();
    emitter_.late_code();
    return x_.finished(registers_.num_slots());
  }

  /// Would vectors gain from one another?
  static bool gains_from_pairs(const VectorProgram& code) {
    return std::any_of(code.steps.begin(), code.steps.end(),
                       [](const VectorInst& step) { return step.op == VectorOp::call; });
  }
  /// Did two vectors not fit?
  bool is_too_large() const { return pairs_ && registers_.num_slots() > 0; }

 private:
  static constexpr std::int64_t many_vectors = 16;

  // Compares rax with r13: it is not greater where two vectors are left.
  void is_pair_left(std::uint32_t lanes) {
    x_.lea(rax, ptr[r14 + 2 * lanes]);
    x_.cmp(rax, r13);
  }
  void pair_of_vectors() {
    emitter_.begin(code_.steps);
    RegisterAllocator::Assignment other = registers_.assignment();
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      for (const int bank : {0, bank_size}) {
        x_.set_bank(bank);
        emitter_.emit(i);
        registers_.swap(other);
      }
    }
    x_.set_bank(0);
  }

  void prologue() {
    x_.open_frame({rbx, rbp, r12, r13, r14, r15});
    x_.mov(rbx, rdi);
    x_.mov(r12, rsi);
    x_.mov(r13, rdx);
    x_.xor_(r14, r14);
    for (std::size_t i = 0; i < pointers_.size(); ++i) {
      if (i < code_.num_operands) {
        x_.mov(pointers_[i], ptr[rbx + 8 * i]);
      } else if (i - code_.num_operands < code_.num_results) {
        x_.mov(pointers_[i], ptr[r12 + 8 * (i - code_.num_operands)]);
      }
    }
  }

  // The pointer of operand or result i; may write rax.
  Reg64 pointer(const Reg64& array, std::size_t i, std::size_t cached) {
    if (cached < pointers_.size()) return pointers_[cached];
    x_.mov(rax, ptr[array + 8 * i]);
    return rax;
  }
  Reg64 operand_pointer(std::size_t i) { return pointer(rbx, i, i); }
  Reg64 result_pointer(std::size_t i) { return pointer(r12, i, code_.num_operands + i); }
  // Elements and masks of this bank's vector; the second bank's is the next one.
  std::size_t ahead() const { return x_.bank() == 0 ? 0 : static_cast<std::size_t>(x_.lanes()); }
  Address elements(const Reg64& from) const {
    return ptr[from + r14 * x_.element_bytes() + ahead() * static_cast<std::size_t>(x_.element_bytes())];
  }
  Address mask(const Reg64& from) const { return ptr[from + r14 + ahead()]; }

  bool is_late(VectorOp op) const override { return op == VectorOp::immediate || op == VectorOp::splat; }
  bool can_load_again(std::size_t id) const override {
    const VectorOp op = code_.steps[id].op;
    return is_late(op) ||
           ((op == VectorOp::load || op == VectorOp::load_mask || op == VectorOp::splat_mask) &&
            !registers_.is_stored(id));
  }
  void load(std::size_t id, const Ymm& to) override {
    const VectorInst& step = code_.steps[id];
    if (step.op == VectorOp::immediate) return x_.vmovups(to, x_.constant(step.bits));
    const Reg64 from = operand_pointer(step.index);
    switch (step.op) {
      case VectorOp::load: return x_.vmovups(to, elements(from));
      case VectorOp::splat: return x_.vbroadcasts(to, ptr[from]);
      case VectorOp::load_mask: x_.vpmovzxb(to, mask(from)); return arithmetic_.to_mask(to);
      default: return arithmetic_.broadcast_mask(to, byte[from]);
    }
  }
  void store(std::size_t id) override {
    const VectorInst& step = code_.steps[id];
    const Ymm x = registers_.in_register(step.a);
    const Reg64 to = result_pointer(step.index);
    if (step.op == VectorOp::store) return x_.vmovups(elements(to), x);
    arithmetic_.store_bytes(mask(to), arithmetic_.to_bytes(x));
  }

  const VectorProgram& code_;
  const bool calls_, pairs_;
  Assembler x_;
  RegisterAllocator registers_{x_, *this};
  Sections sections_{x_, registers_};
  InstructionEmitter emitter_{x_, registers_, *this};
  ArithmeticEmitter arithmetic_{x_};
  std::vector<Reg64> pointers_;
};

}  // namespace

// The smaller one of sine and cosine tells r without loss. Those functions of the C++ library know enough
// digits of pi.
template <class T, class Bits, int lanes>
void reduce_far(const T* x, T* r, Bits* n) noexcept {
  constexpr double bound = circular_bounds[sizeof(T) == sizeof(double) ? 1 : 0];
  for (int i = 0; i < lanes; ++i) {
    const double size = std::fabs(static_cast<double>(x[i]));
    if (size <= bound) continue;
    const double sine = std::sin(size), cosine = std::cos(size);
    double rest = 0;
    if (std::fabs(sine) <= std::fabs(cosine)) {
      n[i] = cosine > 0 ? 0 : 2;
      rest = cosine > 0 ? std::asin(sine) : -std::asin(sine);
    } else {
      n[i] = sine > 0 ? 1 : 3;
      rest = sine > 0 ? -std::asin(cosine) : std::asin(cosine);
    }
    r[i] = static_cast<T>(rest);
  }
}

int xbyak_version() { return Xbyak::VERSION; }

MachineCode assemble(const VectorProgram& code, VectorUnits units) {
  const bool is_512 = units == VectorUnits::avx512;
  try {
    for (const bool pairs : {true, false}) {
      ElementsGenerator generator(code, is_512, pairs);
      const std::span<const std::uint8_t> written = generator.write();
      if (generator.is_too_large()) continue;
      return {written_again(generator, written, ElementsGenerator(code, is_512, pairs))};
    }
  } catch (const Xbyak::Error&) {
  }
  return {};
}

}  // namespace tidu::cpu_detail

#endif
