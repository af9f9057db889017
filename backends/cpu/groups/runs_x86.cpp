// runs_x86.cpp - code for runs on x86-64: every step for all vectors of an array, one vector beside the
// other, so that each need not wait for the other. Registers: rbx pointers.
//
// What a vector does not fill is loaded and stored under a mask.
#include "cpu/groups/runs.hpp"

#if defined(TIDU_WITH_LANES)

#include "cpu/groups/reduce.hpp"
#include "cpu/groups/vector_x86.hpp"

namespace tidu::cpu_detail {
namespace {

class RunGenerator : private VectorAssembler {
 public:
  RunGenerator(const RunCode& code, bool is_512)
      : VectorAssembler(code.lanes.dtype, is_512),
        code_(code),
        elements_(static_cast<int>(code.elements)),
        lanes_(vector_ / element_),
        vectors_((elements_ + lanes_ - 1) / lanes_) {}

  std::span<const std::uint8_t> write() {
    lay_out();
    begin(list_);
    num_slots_ = vectors_;  // what folds read
    push(rbx);
    push(rbp);
    open_frame();
    mov(rbx, rdi);
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const VectorInst& step = list_[i];
      if (is_of_one(step)) {
        call_of_one(i, step);
      } else {
        this->step(i);
      }
      if (step.op != VectorOp::call || !(is_of_one(step) || calls_out(step))) continue;
      held_ = no_index;
      has_tail_ = false;
    }
    vzeroupper();
    mov(rsp, rbp);
    pop(rbp);
    pop(rbx);
    ret();
    tail_mask();
    return finished();
  }

 private:
  // The steps for each vector; of values that are the same in every lane one for all.
  void lay_out() {
    const std::vector<VectorInst>& steps = code_.lanes.steps;
    const auto vectors = static_cast<std::size_t>(vectors_);
    std::vector<std::uint16_t> at(steps.size() * vectors);  // by value and vector
    std::vector<bool> same(steps.size());
    const auto put = [this](VectorInst step, std::size_t vector) {
      list_.push_back(step);
      vector_of_.push_back(static_cast<int>(vector));
      return static_cast<std::uint16_t>(list_.size() - 1);
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto of_vector = [&](std::size_t vector) {
        VectorInst step = steps[i];
        for (std::uint16_t* x : {&step.a, &step.b, &step.c}) {
          if (*x != no_register) *x = at[*x * vectors + vector];
        }
        return step;
      };
      const VectorInst& step = steps[i];
      if (is_fold(step.op)) {
        for (std::uint32_t v = 0; v < vectors; ++v)
          put({.op = VectorOp::keep,
               .a = of_vector(v).a,
               .index = v,
               .bits = static_cast<std::uint64_t>(step.op)},
              v);
        same[i] = true;
      } else if (num_operands(step.op) == 0) {
        same[i] = step.op != VectorOp::load && step.op != VectorOp::load_mask;
      } else if (step.op >= VectorOp::store) {
        same[i] = step.op == VectorOp::store_row || step.bits != 0;
      } else {
        same[i] = true;
        for (const std::uint16_t x : {step.a, step.b, step.c})
          same[i] = same[i] && (x == no_register || same[x]);
      }
      std::uint16_t last = 0;
      for (std::size_t v = 0; v < vectors; ++v) {
        if (v == 0 || !same[i]) last = put(of_vector(v), v);
        at[i * vectors + v] = last;
      }
    }
  }
  static bool is_fold(VectorOp op) { return op >= VectorOp::fold_sum && op <= VectorOp::fold_min; }
  static bool is_of_one(const VectorInst& step) { return step.op == VectorOp::call && step.bits != 0; }

  void call_of_one(std::size_t i, const VectorInst& step) {
    if (values_[i].uses.empty()) return used(step);
    pinned_ = 0;
    before_call(i, step);
    vzeroupper();
    mov(rax, reinterpret_cast<std::uintptr_t>(
                 scalar_address_of(static_cast<VectorFunction>(step.index), is_f64_)));
    call(rax);
    broadcast(vector(0), Xmm(0));
    put(i, 0);
  }

  int left() const { return elements_ % lanes_; }
  bool is_masked(std::size_t id) const { return left() != 0 && vector_of_[id] == vectors_ - 1; }
  // Is a smaller register what is left?
  bool is_exact() const { return left() * element_ == 16 || left() * element_ == 32; }
  Xmm exact(const Ymm& x) const { return left() * element_ == 32 ? Ymm(x.getIdx()) : Xmm(x.getIdx()); }
  // The mask of what is left, in k2 or in the spare register.
  void set_tail() {
    if (is_512_) {
      if (has_tail_) return;
      mov(ecx, (1U << static_cast<unsigned>(left())) - 1);
      kmovd(k2, ecx);
      has_tail_ = true;
    } else {
      uses_tail_ = true;
      vmovups(spare(), ptr[rip + tail_mask_]);
    }
  }
  void tail_mask() {
    if (!uses_tail_) return;
    align(64);
    L(tail_mask_);
    for (int i = 0; i < lanes_; ++i) {
      for (int k = 0; k < element_ / 4; ++k) dd(i < left() ? 0xffffffffU : 0U);
    }
  }

  // In rax, which nothing else writes but calls and masks of one element.
  Xbyak::Reg64 pointer(std::uint32_t index) {
    if (held_ != index) mov(rax, ptr[rbx + 8 * static_cast<std::size_t>(index)]);
    held_ = index;
    return rax;
  }
  Address elements_at(std::size_t id) {
    return ptr[pointer((*steps_)[id].index) + static_cast<std::size_t>(vector_of_[id] * vector_)];
  }
  Address bytes_at(std::size_t id, int lane = 0) {
    return ptr[pointer((*steps_)[id].index) + static_cast<std::size_t>(vector_of_[id] * lanes_ + lane)];
  }
  void broadcast(const Ymm& to, const Xbyak::Operand& from) {
    is_f64_ ? vbroadcastsd(to, from) : vbroadcastss(to, from);
  }

  // Memory is as it was for as long as an operation is to come that reads it. What a broadcast repeats is in
  // use for longer: single elements are loaded once, where they are read first.
  bool can_load_again(std::size_t id) const override {
    const VectorOp op = (*steps_)[id].op;
    return op == VectorOp::load || op == VectorOp::load_mask || op == VectorOp::immediate;
  }
  bool is_late(VectorOp op) const override { return op == VectorOp::immediate; }

  void load(std::size_t id, int reg) override {
    const VectorInst& step = (*steps_)[id];
    const Ymm to = vector(reg);
    switch (step.op) {
      case VectorOp::immediate: return vmovups(to, constant(step.bits));
      case VectorOp::splat: return broadcast(to, ptr[pointer(step.index)]);
      case VectorOp::load: return load_elements(to, id);
      case VectorOp::load_mask: load_bytes(to, id); break;
      default:
        movzx(eax, byte[pointer(step.index)]);
        held_ = no_index;
        vmovd(Xmm(spare_register), eax);
        is_f64_ ? vpbroadcastq(to, Xmm(spare_register)) : vpbroadcastd(to, Xmm(spare_register));
        break;
    }
    to_mask(to);
  }
  void load_elements(const Ymm& to, std::size_t id) {
    const Address from = elements_at(id);
    if (!is_masked(id)) return vmovups(to, from);
    if (is_exact()) return vmovups(exact(to), from);  // zeros the rest
    set_tail();
    if (is_512_) return is_f64_ ? vmovupd(to | k2 | T_z, from) : vmovups(to | k2 | T_z, from);
    is_f64_ ? vmaskmovpd(to, spare(), from) : vmaskmovps(to, spare(), from);
  }
  void load_bytes(const Ymm& to, std::size_t id) {
    const Xmm bytes(spare_register);
    if (is_masked(id)) {
      is_512_ ? vpxord(bytes, bytes, bytes) : vpxor(bytes, bytes, bytes);
      for (int i = 0; i < left(); ++i) vpinsrb(bytes, bytes, bytes_at(id, i), static_cast<std::uint8_t>(i));
      is_f64_ ? vpmovzxbq(to, bytes) : vpmovzxbd(to, bytes);
    } else {
      is_f64_ ? vpmovzxbq(to, bytes_at(id)) : vpmovzxbd(to, bytes_at(id));
    }
  }

  void store(std::size_t id) override {
    const VectorInst& step = (*steps_)[id];
    const Ymm x = in_register(step.a);
    switch (step.op) {
      case VectorOp::store: return store_elements(id, x);
      case VectorOp::store_row: return store_element(ptr[pointer(step.index)], x);
      case VectorOp::store_mask: return store_bytes(id, to_bytes(x), step.bits != 0 ? 1 : lanes_);
      case VectorOp::keep: return keep(id, x);
      default: return fold(id);
    }
  }
  void store_element(const Address& to, const Ymm& x) {
    is_f64_ ? vmovsd(to, Xmm(x.getIdx())) : vmovss(to, Xmm(x.getIdx()));
  }
  void store_elements(std::size_t id, const Ymm& x) {
    const Address to = elements_at(id);
    if (!is_masked(id)) return vmovups(to, x);
    if (is_exact()) return vmovups(to, exact(x));
    set_tail();
    if (is_512_) return is_f64_ ? vmovupd(to | k2, x) : vmovups(to | k2, x);
    is_f64_ ? vmaskmovpd(to, spare(), x) : vmaskmovps(to, spare(), x);
  }
  void store_bytes(std::size_t id, const Xmm& bytes, int count) {
    if (count == 1) return vpextrb(bytes_at(id), bytes, 0);
    if (is_masked(id)) {
      for (int i = 0; i < left(); ++i) vpextrb(bytes_at(id, i), bytes, static_cast<std::uint8_t>(i));
      return;
    }
    switch (lanes_) {
      case 16: return vmovdqu8(bytes_at(id), bytes);
      case 8: return vmovq(bytes_at(id), bytes);
      default: return vmovd(bytes_at(id), bytes);
    }
  }

  static VectorOp with(VectorOp fold) {
    return fold == VectorOp::fold_sum   ? VectorOp::add
           : fold == VectorOp::fold_max ? VectorOp::max
                                        : VectorOp::min;
  }
  // r = a with b; r is neither.
  void folded(VectorOp fold, const Ymm& r, const Ymm& a, const Ymm& b) {
    if (fold == VectorOp::fold_sum) {
      is_f64_ ? vaddpd(r, a, b) : vaddps(r, a, b);
    } else {
      extremum(with(fold), r, a, b);
    }
  }
  // -0, and infinities, change nothing.
  std::uint64_t identity(VectorOp fold) const {
    if (fold == VectorOp::fold_sum) return sign_bit();
    const std::uint64_t infinity = is_f64_ ? 0x7ff0000000000000U : 0x7f800000U;
    return fold == VectorOp::fold_max ? infinity | sign_bit() : infinity;
  }
  // A vector of what is folded, to its slot; what it does not fill are elements that change nothing.
  void keep(std::size_t id, const Ymm& x) {
    const VectorInst& step = (*steps_)[id];
    vmovups(slot_address(static_cast<int>(step.index)), x);
    if (!is_masked(id) || elements_ < few_lanes) return;
    const Ymm rest = vector(temporary());
    vmovups(rest, constant(identity(static_cast<VectorOp>(step.bits))));
    set_tail();
    if (is_512_) {
      is_f64_ ? vmovapd(rest | k2, x) : vmovaps(rest | k2, x);
    } else {
      vblendvps(rest, rest, x, spare());
    }
    vmovups(slot_address(static_cast<int>(step.index)), rest);
  }
  // As fold_line does it, from the slots.
  void fold(std::size_t id) {
    const VectorInst& step = (*steps_)[id];
    const Ymm r = vector(temporary()), a = vector(temporary()), b = vector(temporary());
    if (elements_ < few_lanes) {
      const auto element = [this](int i) { return ptr[rsp + static_cast<std::size_t>(i * element_)]; };
      const Xmm one(a.getIdx()), other(b.getIdx());
      is_f64_ ? vmovsd(one, element(0)) : vmovss(one, element(0));
      for (int i = 1; i < elements_; ++i) {
        if (step.op == VectorOp::fold_sum) {
          is_f64_ ? vaddsd(one, one, element(i)) : vaddss(one, one, element(i));
          continue;
        }
        is_f64_ ? vmovsd(other, element(i)) : vmovss(other, element(i));
        folded(step.op, r, a, b);
        vmovaps(a, r);
      }
    } else {
      const int accumulators = few_lanes / lanes_;
      const auto folded_slot = [&](int into, int from) {
        vmovups(a, slot_address(into));
        vmovups(b, slot_address(from));
        folded(step.op, r, a, b);
        vmovups(slot_address(into), r);
      };
      for (int v = accumulators; v < vectors_; ++v) folded_slot(v % accumulators, v);
      for (int half = accumulators / 2; half > 0; half /= 2) {
        for (int k = 0; k < half; ++k) folded_slot(k, k + half);
      }
      vmovups(a, slot_address(0));
      halve(step.op, r, a, b);
    }
    const int reg = r.getIdx();
    broadcast(r, Xmm(a.getIdx()));
    put(id, reg);
  }
  // All lanes of a to one, in lane 0 of it.
  void halve(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    const Ymm a256(a.getIdx()), b256(b.getIdx());
    const Xmm a128(a.getIdx()), b128(b.getIdx());
    const auto add_half = [&] {
      folded(op, r, a, b);
      vmovaps(a, r);
    };
    if (is_512_) {
      vextractf64x4(b256, Zmm(a.getIdx()), 1);
      add_half();
    }
    if (is_512_) {
      vextractf32x4(b128, a256, 1);
    } else {
      vextractf128(b128, a256, 1);
    }
    add_half();
    if (!is_f64_) {
      vmovhlps(b128, a128, a128);
      add_half();
      vmovshdup(b128, a128);
    } else {
      vunpckhpd(b128, a128, a128);
    }
    add_half();
  }

  // As in folds.cpp.
  static constexpr int few_lanes = 16;

  const RunCode& code_;
  const int elements_, lanes_, vectors_;
  std::vector<VectorInst> list_;
  std::vector<int> vector_of_;     // by step
  std::uint32_t held_ = no_index;  // the pointer in rax
  bool has_tail_ = false;          // does k2 have the mask?
  bool uses_tail_ = false;
  Xbyak::Label tail_mask_;
};

}  // namespace

std::shared_ptr<const RunKernel> generate(const RunCode& code, VectorUnits units) {
  const bool is_512 = units == VectorUnits::avx512;
  try {
    RunGenerator generator(code, is_512);
    std::shared_ptr<const void> memory = executable_copy(generator.write());
    if (memory == nullptr) return nullptr;
    const auto function = reinterpret_cast<RunKernel::Function>(const_cast<void*>(memory.get()));
    return std::make_shared<const RunKernel>(code, function, std::move(memory));
  } catch (const Xbyak::Error&) {
    return nullptr;
  }
}

}  // namespace tidu::cpu_detail

#else

namespace tidu::cpu_detail {

std::shared_ptr<const RunKernel> generate(const RunCode&, VectorUnits) { return nullptr; }

}  // namespace tidu::cpu_detail

#endif
