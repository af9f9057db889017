// vector_x86.cpp - code for element-wise lanes on x86-64: one loop over all elements.
//
// Note [Pairs]: a function is a chain of instructions each of which waits for the last, and a processor looks
// some hundred of them ahead, which is little more than one vector's. So where there are registers for it,
// 32 of AVX-512, the loop computes two vectors, step by step in turn, each in a bank of 16 registers. A
// vector that has no other runs through a loop of its own. If values of two vectors do not fit, there is that
// alone.
#include "cpu/groups/vector_ir.hpp"

#if defined(TIDU_WITH_LANES)
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "cpu/groups/vector_x86.hpp"

namespace tidu::cpu_detail {
namespace {

class ElementsGenerator : private VectorAssembler {
 public:
  ElementsGenerator(const VectorProgram& code, bool is_512, bool pairs)
      : VectorAssembler(code.dtype, is_512),
        code_(code),
        pairs_(pairs && is_512 && gains_from_pairs(code) && !calls_out(code.steps)) {
    if (pairs_) limit_ = bank_size;
  }
  using VectorAssembler::hold_by;
  using VectorAssembler::take_sections;

  std::span<const std::uint8_t> write() {
    begin(code_.steps);
    // Pointers that stay in registers: more of them where no call takes them.
    pointers_.push_back(r15);
    if (!calls_out(code_.steps)) pointers_.insert(pointers_.end(), {r8, r9, r10, r11, rdx, rcx, rsi, rdi});
    prologue();
    const auto lanes = static_cast<std::uint32_t>(vector_ / element_);
    begin_section(calls_out(code_.steps) ? 0 : many_vectors, pairs_ ? 2 : 1);
    Xbyak::Label loop, end;
    if (pairs_) {
      Xbyak::Label pair;
      is_pair_left(lanes);
      jg(loop, T_NEAR);
      L(pair);
      pair_of_vectors();
      add(r14, 2 * lanes);
      is_pair_left(lanes);
      jle(pair, T_NEAR);
      cmp(r14, r13);
      jge(end, T_NEAR);
      begin(code_.steps);
    }
    L(loop);
    for (std::size_t i = 0; i < code_.steps.size(); ++i) step(i);
    add(r14, lanes);
    cmp(r14, r13);
    jl(loop, T_NEAR);
    L(end);
    end_section();
    epilogue();
    return finished();
  }

  /// Would vectors gain from one another?
  static bool gains_from_pairs(const VectorProgram& code) {
    return std::any_of(code.steps.begin(), code.steps.end(),
                       [](const VectorInst& step) { return step.op == VectorOp::call; });
  }
  /// Did two vectors not fit?
  bool is_too_large() const { return pairs_ && num_slots_ > 0; }

 private:
  static constexpr std::int64_t many_vectors = 16;

  // Compares rax with r13: it is not greater where two vectors are left.
  void is_pair_left(std::uint32_t lanes) {
    lea(rax, ptr[r14 + 2 * lanes]);
    cmp(rax, r13);
  }
  void pair_of_vectors() {
    std::vector<Value> values = values_;
    std::array<int, 32> owner = owner_;
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      for (bank_ = 0; bank_ <= bank_size; bank_ += bank_size) {
        step(i);
        std::swap(values, values_);
        std::swap(owner, owner_);
      }
    }
    bank_ = 0;
  }
  // Elements between this bank's vector and the first.
  std::size_t ahead() const { return bank_ == 0 ? 0 : static_cast<std::size_t>(vector_ / element_); }

  void prologue() {
    for (const auto& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    open_frame();
    mov(rbx, rdi);
    mov(r12, rsi);
    mov(r13, rdx);
    xor_(r14, r14);
    for (std::size_t i = 0; i < pointers_.size(); ++i) {
      if (i < code_.num_operands) {
        mov(pointers_[i], ptr[rbx + 8 * i]);
      } else if (i - code_.num_operands < code_.num_results) {
        mov(pointers_[i], ptr[r12 + 8 * (i - code_.num_operands)]);
      }
    }
  }
  void epilogue() {
    vzeroupper();
    mov(rsp, rbp);
    for (const auto& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    ret();
  }

  // Where element i of an operand or result is; may write rax.
  Xbyak::Reg64 pointer(const Xbyak::Reg64& array, std::size_t i, std::size_t cached) {
    if (cached < pointers_.size()) return pointers_[cached];
    mov(rax, ptr[array + 8 * i]);
    return rax;
  }
  Xbyak::Reg64 operand_pointer(std::size_t i) { return pointer(rbx, i, i); }
  Xbyak::Reg64 result_pointer(std::size_t i) { return pointer(r12, i, code_.num_operands + i); }

  bool can_load_again(std::size_t id) const override {
    const VectorOp op = code_.steps[id].op;
    return op == VectorOp::immediate || op == VectorOp::splat ||
           ((op == VectorOp::load || op == VectorOp::load_mask || op == VectorOp::splat_mask) &&
            !values_[id].stored);
  }

  void load(std::size_t id, int reg) override {
    const VectorInst& step = code_.steps[id];
    const Ymm to = vector(reg);
    if (step.op == VectorOp::immediate) return vmovups(to, constant(step.bits));
    const Xbyak::Reg64 from = operand_pointer(step.index);
    switch (step.op) {
      case VectorOp::load:
        return vmovups(to, ptr[from + r14 * element_ + ahead() * static_cast<std::size_t>(element_)]);
      case VectorOp::splat: return is_f64_ ? vbroadcastsd(to, ptr[from]) : vbroadcastss(to, ptr[from]);
      case VectorOp::load_mask:
        if (is_f64_) {
          vpmovzxbq(to, ptr[from + r14 + ahead()]);
        } else {
          vpmovzxbd(to, ptr[from + r14 + ahead()]);
        }
        break;
      default:
        movzx(eax, byte[from]);
        vmovd(narrow_spare(), eax);
        if (is_f64_) {
          vpbroadcastq(to, narrow_spare());
        } else {
          vpbroadcastd(to, narrow_spare());
        }
        break;
    }
    to_mask(to);
  }
  void store(std::size_t id) override {
    const VectorInst& step = code_.steps[id];
    const Ymm x = in_register(step.a);
    const Xbyak::Reg64 to = result_pointer(step.index);
    if (step.op == VectorOp::store)
      return vmovups(ptr[to + r14 * element_ + ahead() * static_cast<std::size_t>(element_)], x);
    const Xmm bytes = to_bytes(x);
    switch (vector_ / element_) {
      case 16: return vmovdqu8(ptr[to + r14 + ahead()], bytes);
      case 8: return vmovq(ptr[to + r14 + ahead()], bytes);
      default: return vmovd(ptr[to + r14 + ahead()], bytes);
    }
  }

  const VectorProgram& code_;
  const bool pairs_;
  std::vector<Xbyak::Reg64> pointers_;
};

}  // namespace

// The smaller one of sine and cosine tells r without loss. Those functions of the C++ library know pi to as
// many digits as it takes.
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

std::shared_ptr<const void> executable_copy(std::span<const std::uint8_t> code) {
  void* const at = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  std::shared_ptr<const void> memory(at, [size = code.size()](void* p) { munmap(p, size); });
  std::memcpy(at, code.data(), code.size());
  return mprotect(at, code.size(), PROT_READ | PROT_EXEC) == 0 ? memory : nullptr;
}

std::shared_ptr<const VectorKernel> generate(const VectorProgram& code, VectorUnits units) {
  const bool is_512 = units == VectorUnits::avx512;
  try {
    std::shared_ptr<const void> memory;
    for (const bool pairs : {true, false}) {
      ElementsGenerator generator(code, is_512, pairs);
      const std::span<const std::uint8_t> written = generator.write();
      if (generator.is_too_large()) continue;
      memory = written_again(generator, written, ElementsGenerator(code, is_512, pairs));
      break;
    }
    if (memory == nullptr) return nullptr;
    const auto function = reinterpret_cast<VectorKernel::Function>(const_cast<void*>(memory.get()));
    return std::make_shared<const VectorKernel>(code, function, is_512 ? 64 : 32, std::move(memory));
  } catch (const Xbyak::Error&) {
    return nullptr;
  }
}

}  // namespace tidu::cpu_detail

#else

namespace tidu::cpu_detail {

std::shared_ptr<const VectorKernel> generate(const VectorProgram&, VectorUnits) { return nullptr; }

}  // namespace tidu::cpu_detail

#endif
