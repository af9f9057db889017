// vector_x86.hpp - VectorAssembler: x86-64 code for vector instructions, in AVX2 or AVX-512, by Xbyak, with
// calls of libmvec. The loop over elements (vector_x86.cpp) and the one over rows (rows_x86.cpp) share it.
//
// The body of a loop is straight-line code, so registers are allocated in one pass. A value that is needed
// and in no register is loaded. If no register is free, the value whose next use is farthest away is spilled
// to the stack (Belady 1966). A call preserves no vector register, so live values are spilled before it. A
// mask is a vector in which all bits of a lane are set or clear.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "cpu/groups/vector_x86_sections.hpp"
#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail {

class VectorAssembler : protected SectionAssembler {
 protected:
  using SectionAssembler::SectionAssembler;
  ~VectorAssembler() override = default;

  static constexpr int nowhere = -1;

  struct Value {
    std::vector<std::uint32_t> uses;  // instructions, in order
    std::size_t next = 0;
    int reg = nowhere;
    int slot = nowhere;
    bool stored = false;  // a use is a store, after which operands may have changed
  };

  // Loads the value of an instruction without operands into a register.
  virtual void load(std::size_t id, int reg) = 0;
  // An instruction without a value.
  virtual void store(std::size_t id) = 0;
  // Can it be loaded again instead of spilled?
  virtual bool can_load_again(std::size_t id) const = 0;
  // Is it loaded only when it is needed?
  virtual bool is_late(VectorOp op) const { return op == VectorOp::immediate || op == VectorOp::splat; }

  // Starts straight-line code for these instructions. No value is in a register at its beginning or end.
  void begin(const std::vector<VectorInst>& steps) {
    steps_ = &steps;
    scales_ = is_512_ && multiplications(steps) > 0 && computes_in_halves();
    values_.assign(steps.size(), {});
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const std::uint16_t x : {steps[i].a, steps[i].b, steps[i].c}) {
        if (x == no_register) continue;
        values_[x].uses.push_back(static_cast<std::uint32_t>(i));
        if (steps[i].op == VectorOp::store || steps[i].op == VectorOp::store_mask) values_[x].stored = true;
      }
    }
  }

  void step(std::size_t i) {
    const VectorInst& step = (*steps_)[i];
    pinned_ = 0;
    if (num_operands(step.op) == 0) {
      if (values_[i].uses.empty() || is_late(step.op)) return;
      const int reg = take_register();
      load(i, reg);
      put(i, reg);
    } else if (step.op >= VectorOp::store) {
      store(i);
      used(step);
    } else if (values_[i].uses.empty()) {
      used(step);
    } else if (calls_out(step)) {
      call_function(i, step);
    } else if (step.op == VectorOp::call) {
      call_inlined(i, step);
      used(step);
    } else {
      compute(i, step);
      used(step);
    }
  }

  Address slot_address(int slot) { return ptr[rsp + static_cast<std::size_t>(slot * vector_)]; }

  // The next instruction that uses the value; no_index if there is none.
  std::uint32_t next_use(const Value& value) const {
    return value.next < value.uses.size() ? value.uses[value.next] : no_index;
  }
  void to_slot(std::size_t id) {
    Value& value = values_[id];
    if (value.slot != nowhere || can_load_again(id)) return;
    if (free_slots_.empty()) {
      value.slot = num_slots_++;
    } else {
      value.slot = free_slots_.back();
      free_slots_.pop_back();
    }
    vmovups(slot_address(value.slot), vector(value.reg));
  }
  int take_register() {
    for (int r = 0; r < limit_; ++r) {
      if (r != spare_register && owner_[static_cast<std::size_t>(r)] == nowhere &&
          (pinned_ & (1U << r)) == 0) {
        taken_ = std::max(taken_, r + 1);
        return r;
      }
    }
    int farthest = nowhere;
    std::uint32_t at = 0;
    for (int r = 0; r < limit_; ++r) {
      if (r == spare_register || (pinned_ & (1U << r)) != 0) continue;
      const auto id = static_cast<std::size_t>(owner_[static_cast<std::size_t>(r)]);
      const std::uint32_t use = next_use(values_[id]);
      if (farthest == nowhere || use > at) farthest = r, at = use;
    }
    const auto id = static_cast<std::size_t>(owner_[static_cast<std::size_t>(farthest)]);
    to_slot(id);
    leave_register(id);
    return farthest;
  }
  void leave_register(std::size_t id) {
    owner_[static_cast<std::size_t>(values_[id].reg)] = nowhere;
    values_[id].reg = nowhere;
  }
  void put(std::size_t id, int reg) {
    owner_[static_cast<std::size_t>(reg)] = static_cast<int>(id);
    values_[id].reg = reg;
    pinned_ |= 1U << reg;
  }

  // The value in a register that it keeps until the instruction is emitted.
  Ymm in_register(std::size_t id) {
    Value& value = values_[id];
    if (value.reg == nowhere && (*steps_)[id].op == VectorOp::immediate) {
      if (const std::optional<Ymm> held = holding((*steps_)[id].bits)) return *held;
    }
    if (value.reg == nowhere) {
      const int reg = take_register();
      if (value.slot != nowhere) {
        vmovups(vector(reg), slot_address(value.slot));
      } else {
        load(id, reg);
      }
      put(id, reg);
    }
    pinned_ |= 1U << value.reg;
    return vector(value.reg);
  }
  // Can it be a memory operand? True for a constant, and for the last use of a spilled value.
  bool in_memory(std::size_t id) const {
    const Value& value = values_[id];
    if (value.reg != nowhere) return false;
    return (*steps_)[id].op == VectorOp::immediate ||
           (value.slot != nowhere && value.next + 1 >= value.uses.size());
  }
  Constant memory(std::size_t id) {
    if (values_[id].slot != nowhere) return Constant(slot_address(values_[id].slot));
    return constant((*steps_)[id].bits);
  }

  // Counts the uses of the instruction's operands; values without further uses release their register and
  // slot.
  void used(const VectorInst& step) {
    std::uint16_t last = no_register;
    for (const std::uint16_t x : {step.a, step.b, step.c}) {
      if (x == no_register) continue;
      Value& value = values_[x];
      ++value.next;
      if (value.next < value.uses.size() || x == last) continue;
      last = x;
      if (value.reg != nowhere) leave_register(x);
      if (value.slot != nowhere) free_slots_.push_back(value.slot);
      value.slot = nowhere;
    }
  }

  // The number of instructions for multiplication units minus the number for addition units.
  int multiplications(const std::vector<VectorInst>& steps) const {
    int more = 0;
    for (const VectorInst& step : steps) {
      if (step.op == VectorOp::mul || step.op == VectorOp::multiply_no_nan || step.op == VectorOp::sqrt)
        ++more;
      if (step.op == VectorOp::div || step.op == VectorOp::divide_no_nan) more += 2;
      if (step.op == VectorOp::add || step.op == VectorOp::sub ||
          (step.op >= VectorOp::fold_sum && step.op <= VectorOp::column_min))
        --more;
      if (step.op == VectorOp::call && !calls_out(step)) more += 6;
    }
    return more;
  }
  // Multiplies by a power of two with a scaling instruction, which Zen 4 executes in its addition units, in
  // two cycles each. Returns false, without emitting anything, for other instructions.
  bool scale(std::size_t i, const VectorInst& s) {
    if (s.op != VectorOp::mul) return false;
    for (const auto& [x, by] : {std::pair(s.a, s.b), std::pair(s.b, s.a)}) {
      const VectorInst& factor = (*steps_)[by];
      const std::optional<int> exponent =
          factor.op == VectorOp::immediate ? exponent_of(factor.bits) : std::nullopt;
      if (!exponent || (*steps_)[x].op == VectorOp::immediate) continue;
      const Ymm a = in_register(x);
      const int reg = take_register();
      is_f64_ ? vscalefpd(vector(reg), a, number(*exponent)) : vscalefps(vector(reg), a, number(*exponent));
      put(i, reg);
      return true;
    }
    return false;
  }
  // The exponent of a power of two that is not subnormal.
  std::optional<int> exponent_of(std::uint64_t bits) const {
    const int digits = is_f64_ ? 52 : 23, largest = is_f64_ ? 0x7ff : 0xff;
    const std::uint64_t exponent = bits >> static_cast<unsigned>(digits);
    if (exponent << static_cast<unsigned>(digits) != bits || exponent == 0 ||
        exponent >= static_cast<std::uint64_t>(largest))
      return std::nullopt;
    return static_cast<int>(exponent) - largest / 2;
  }

  void compute(std::size_t i, const VectorInst& s) {
    if (scales_ && scale(i, s)) return;
    const Ymm a = in_register(s.a);
    const bool direct = s.op >= VectorOp::add && s.op <= VectorOp::div && s.b != s.a && in_memory(s.b);
    const Ymm b = s.b == no_register || direct ? a : in_register(s.b);
    const Ymm c = s.c == no_register ? a : in_register(s.c);
    const bool no_nan = s.op == VectorOp::multiply_no_nan || s.op == VectorOp::divide_no_nan;
    const Ymm t = no_nan && !is_512_ ? vector(temporary()) : a;
    const int reg = take_register();
    const Ymm r = vector(reg);
    if (is_whole(s.op)) {
      compute_whole(s.op, r, a, b);
      return put(i, reg);
    }
    const Constant where = direct ? memory(s.b) : Constant(b);
    const Xbyak::Operand& right = where;
    switch (s.op) {
      case VectorOp::add: is_f64_ ? vaddpd(r, a, right) : vaddps(r, a, right); break;
      case VectorOp::sub: is_f64_ ? vsubpd(r, a, right) : vsubps(r, a, right); break;
      case VectorOp::mul: is_f64_ ? vmulpd(r, a, right) : vmulps(r, a, right); break;
      case VectorOp::div: is_f64_ ? vdivpd(r, a, right) : vdivps(r, a, right); break;
      case VectorOp::max:
      case VectorOp::min: extremum(s.op, r, a, b); break;
      case VectorOp::multiply_no_nan:
      case VectorOp::divide_no_nan: without_nan(s.op, r, a, b, t); break;
      case VectorOp::neg: bits_of(r, a, sign_bit(), true); break;
      case VectorOp::abs: bits_of(r, a, ~sign_bit(), false); break;
      case VectorOp::sqrt: is_f64_ ? vsqrtpd(r, a) : vsqrtps(r, a); break;
      case VectorOp::floor: rounded(r, a, 9); break;
      case VectorOp::ceil: rounded(r, a, 10); break;
      case VectorOp::round: rounded(r, a, 8); break;
      case VectorOp::equal: compare(r, a, b, 0x00); break;
      case VectorOp::not_equal: compare(r, a, b, 0x04); break;
      case VectorOp::less: compare(r, a, b, 0x11); break;
      case VectorOp::less_equal: compare(r, a, b, 0x12); break;
      case VectorOp::bits_and:
      case VectorOp::mask_and: is_512_ ? vpandd(r, a, b) : vpand(r, a, b); break;
      case VectorOp::bits_or:
      case VectorOp::mask_or: is_512_ ? vpord(r, a, b) : vpor(r, a, b); break;
      case VectorOp::bits_xor:
      case VectorOp::mask_xor: is_512_ ? vpxord(r, a, b) : vpxor(r, a, b); break;
      case VectorOp::mask_not:
        if (is_512_) {
          vpternlogd(r, a, a, 0x55);
        } else {
          vpcmpeqd(r, r, r);
          vpxor(r, r, a);
        }
        break;
      default:  // the selections
        if (is_512_) {
          vmovdqa64(r, a);
          vpternlogd(r, c, b, 0xca);
        } else {
          vblendvps(r, b, c, a);
        }
        break;
    }
    put(i, reg);
  }
  void bits_of(const Ymm& r, const Ymm& a, std::uint64_t mask, bool flip) {
    const Constant with = constant(is_f64_ ? mask : mask & 0xffffffffU);
    if (flip) {
      is_512_ ? vpxord(r, a, with) : vpxor(r, a, with);
    } else {
      is_512_ ? vpandd(r, a, with) : vpand(r, a, with);
    }
  }
  void rounded(const Ymm& r, const Ymm& a, std::uint8_t how) {
    if (is_512_) {
      is_f64_ ? vrndscalepd(r, a, how) : vrndscaleps(r, a, how);
    } else {
      is_f64_ ? vroundpd(r, a, how) : vroundps(r, a, how);
    }
  }
  // The instruction returns the second operand if either is NaN, so the first operand is restored if it is
  // NaN.
  void extremum(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    constexpr std::uint8_t unordered = 3;
    if (is_512_) {
      is_f64_ ? vcmppd(k1, a, a, unordered) : vcmpps(k1, a, a, unordered);
    } else {
      is_f64_ ? vcmppd(spare(), a, a, unordered) : vcmpps(spare(), a, a, unordered);
    }
    if (op == VectorOp::max) {
      is_f64_ ? vmaxpd(r, a, b) : vmaxps(r, a, b);
    } else {
      is_f64_ ? vminpd(r, a, b) : vminps(r, a, b);
    }
    if (is_512_) {
      is_f64_ ? vmovapd(r | k1, a) : vmovaps(r | k1, a);
    } else {
      vblendvps(r, r, a, spare());
    }
  }
  void compare(const Ymm& r, const Ymm& a, const Ymm& b, std::uint8_t how) {
    if (!is_512_) return is_f64_ ? vcmppd(r, a, b, how) : vcmpps(r, a, b, how);
    is_f64_ ? vcmppd(k1, a, b, how) : vcmpps(k1, a, b, how);
    spread(r);
  }

  // Does it call a function, which preserves no register?
  bool calls_out(const VectorInst& step) const {
    if (step.op != VectorOp::call) return false;
    return !is(step, VectorFunction::exp) && !is(step, VectorFunction::tanh) && !is_circular(step);
  }
  static bool is(const VectorInst& step, VectorFunction function) {
    return step.index == static_cast<std::uint32_t>(function);
  }
  static bool is_circular(const VectorInst& step) {
    return is(step, VectorFunction::sin) || is(step, VectorFunction::cos);
  }
  bool calls_out(const std::vector<VectorInst>& steps) const {
    bool calls = false;
    for (const VectorInst& step : steps) calls = calls || calls_out(step);
    return calls;
  }
  // A register for this instruction alone.
  int temporary() {
    const int reg = take_register();
    pinned_ |= 1U << reg;
    return reg;
  }
  void exponential(std::size_t i, const VectorInst& s) {
    const Ymm x = in_register(s.a);
    const Ymm r = vector(temporary()), n = vector(temporary()), p = vector(temporary());
    FunctionAssembler::exponential(x, r, n, p);
    put(i, number_of(p));
  }
  void hyperbolic_tangent(std::size_t i, const VectorInst& s) {
    const Ymm x = in_register(s.a);
    const Ymm t = vector(temporary()), u = vector(temporary()), n = vector(temporary());
    const Ymm p = vector(temporary());
    if (is_f64_) {
      tanh_f64(x, t, u, n, p);
    } else {
      tanh_f32(x, t, u, vector(temporary()), n, p);
    }
    put(i, number_of(p));
  }

  void call_inlined(std::size_t i, const VectorInst& s) {
    if (is_circular(s)) return circular_function(i, s);
    is(s, VectorFunction::exp) ? exponential(i, s) : hyperbolic_tangent(i, s);
  }
  bool is_made(std::size_t i) const { return values_[i].reg != nowhere || values_[i].slot != nowhere; }
  // Emits sin or cos, together with the other function of the same value if a later instruction needs that.
  // Instructions that occur several times may need it for one value; it is computed once.
  void circular_function(std::size_t i, const VectorInst& s) {
    if (is_made(i)) return;  // together with the other
    std::size_t other = i + 1;
    const auto is_other = [&](std::size_t k) {
      const VectorInst& step = (*steps_)[k];
      return step.op == VectorOp::call && step.a == s.a && step.bits == s.bits && is_circular(step) &&
             step.index != s.index && !values_[k].uses.empty() && !is_made(k);
    };
    while (other < steps_->size() && !is_other(other)) ++other;
    const bool pair = other < steps_->size();
    const bool sine = is(s, VectorFunction::sin);
    const Ymm x = in_register(s.a);
    const Ymm r = vector(temporary()), n = vector(temporary()), p = vector(temporary());
    const Ymm q = vector(temporary()), t = vector(temporary());
    circular({x, r, n, p, q, t}, sine || pair, !sine || pair);
    if (pair) put(other, number_of(sine ? q : p));
    put(i, number_of(sine || !pair ? p : q));
  }

  // From elements 0 and 1 to masks.
  void to_mask(const Ymm& x) {
    if (is_512_) {
      vpxord(spare(), spare(), spare());
    } else {
      vpxor(spare(), spare(), spare());
    }
    if (is_f64_) {
      vpsubq(x, spare(), x);
    } else {
      vpsubd(x, spare(), x);
    }
  }
  // From masks to bytes 1 and 0, in the spare register.
  Xmm to_bytes(const Ymm& x) {
    const Xmm bytes = narrow_spare();
    if (is_512_) {
      is_f64_ ? vpmovqb(bytes, x) : vpmovdb(bytes, x);
    } else {
      vextracti128(bytes, Ymm(x.getIdx()), 1);
      if (is_f64_) {  // two lanes of 64 bits each: the low halves of all four
        vshufps(bytes, Xmm(x.getIdx()), bytes, 0x88);
        vpackssdw(bytes, bytes, bytes);
      } else {
        vpackssdw(bytes, Xmm(x.getIdx()), bytes);
      }
      vpacksswb(bytes, bytes, bytes);
    }
    vpabsb(bytes, bytes);
    return bytes;
  }

  // Moves operands to registers 0 and 1, and saves values that are live after the call. The operands may be
  // dead then.
  void before_call(std::size_t i, const VectorInst& s) {
    const Ymm a = in_register(s.a);
    const Ymm b = s.b == no_register ? a : in_register(s.b);
    for (int r = 0; r < limit_; ++r) {
      const int id = owner_[static_cast<std::size_t>(r)];
      if (id == nowhere) continue;
      const Value& value = values_[static_cast<std::size_t>(id)];
      std::size_t here = 0;  // uses by this instruction
      while (value.next + here < value.uses.size() && value.uses[value.next + here] == i) ++here;
      if (value.next + here < value.uses.size()) to_slot(static_cast<std::size_t>(id));
    }
    if (s.b != no_register) vmovaps(spare(), b);
    if (a.getIdx() != 0) vmovaps(vector(0), a);
    if (s.b != no_register) vmovaps(vector(1), spare());
    for (int& id : owner_) {
      if (id != nowhere) values_[static_cast<std::size_t>(id)].reg = nowhere;
      id = nowhere;
    }
    used(s);
  }
  void call_function(std::size_t i, const VectorInst& s) {
    before_call(i, s);
    mov(rax,
        reinterpret_cast<std::uintptr_t>(address_of(static_cast<VectorFunction>(s.index), is_f64_, is_512_)));
    call(rax);
    put(i, 0);
  }

  // Reserves the stack frame from the prologue to the end; its size is known only at the end.
  void open_frame() {
    mov(rbp, rsp);
    sub(rsp, 0x7fffffff);
    frame_at_ = getSize() - 4;
    and_(rsp, static_cast<std::uint32_t>(-64));
  }
  // The code, which is position-independent. Slots beyond the frame are never used; the frame ends with 64
  // bytes without slots.
  std::span<const std::uint8_t> finished() {
    late_code();
    constants();
    ready(Xbyak::CodeGenerator::PROTECT_RW);
    const auto frame = static_cast<std::uint32_t>(num_slots_ * vector_ + 64);
    std::memcpy(const_cast<std::uint8_t*>(getCode()) + frame_at_, &frame, sizeof frame);
    return {getCode(), getSize()};
  }

  const std::vector<VectorInst>* steps_ = nullptr;
  bool scales_ = false;  // multiply by powers of two with scale()
  std::vector<Value> values_;
  std::array<int, 32> owner_ = filled();
  std::uint32_t pinned_ = 0;
  std::vector<int> free_slots_;
  int num_slots_ = 0;
  std::size_t frame_at_ = 0;

  static std::array<int, 32> filled() {
    std::array<int, 32> owner;
    owner.fill(nowhere);
    return owner;
  }
};

/// A copy of the code in executable, read-only pages; null if the system provides none. In vector_x86.cpp.
std::shared_ptr<const void> executable_copy(std::span<const std::uint8_t> code);

/// The code that `first` has written, or, if constants are worth holding in registers, the code that `again`
/// writes for the same instructions. See Note [Held constants] in vector_x86_sections.hpp.
template <class Generator>
std::shared_ptr<const void> written_again(Generator& first, std::span<const std::uint8_t> code,
                                          Generator again) {
  std::vector<SectionAssembler::Section> sections = first.take_sections();
  if (!SectionAssembler::is_worth_holding(sections)) return executable_copy(code);
  again.hold_by(std::move(sections));
  return executable_copy(again.write());
}

}  // namespace tidu::cpu_detail
