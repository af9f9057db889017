// vector_x86_registers.hpp - x86::RegisterAllocator: the registers and spill slots of the values of
// straight-line code.
//
// Instructions come in order, so registers are allocated in one pass. A value that is needed and in no
// register is loaded. If no register is free, the value whose next use is farthest away is spilled to the
// stack (Belady 1966). The spare register and registers from the limit on hold no values. No value is in a
// register at the beginning or the end of straight-line code.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/fusion/vector_x86_assembler.hpp"

namespace tidu::cpu_detail::x86 {

/// The instructions that read and write memory, which differ from one generator to the next.
class MemoryEmitter {
 public:
  /// Loads the value of an instruction without operands into a register.
  virtual void load(std::size_t id, const Ymm& to) = 0;
  /// An instruction without a value.
  virtual void store(std::size_t id) = 0;
  /// Can it be loaded again instead of spilled?
  virtual bool can_load_again(std::size_t id) const = 0;
  /// Is it loaded only when it is needed?
  virtual bool is_late(VectorOp op) const = 0;

 protected:
  ~MemoryEmitter() = default;
};

class RegisterAllocator {
 public:
  RegisterAllocator(Assembler& assembler, MemoryEmitter& memory)
      : x_(assembler), memory_(memory), limit_(assembler.num_registers()) {
    at_.owner.fill(nowhere);
  }

  /// Starts straight-line code for these instructions.
  void begin(const std::vector<VectorInst>& steps) {
    steps_ = &steps;
    at_.values.assign(steps.size(), {});
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const std::uint16_t x : {steps[i].a, steps[i].b, steps[i].c}) {
        if (x == no_register) continue;
        at_.values[x].uses.push_back(static_cast<std::uint32_t>(i));
        if (steps[i].op == VectorOp::store || steps[i].op == VectorOp::store_mask)
          at_.values[x].stored = true;
      }
    }
  }
  const std::vector<VectorInst>& steps() const { return *steps_; }
  /// Has the value any uses, before and after the present instruction?
  bool is_used(std::size_t id) const { return !at_.values[id].uses.empty(); }
  /// Is a use a store, after which operands may have changed?
  bool is_stored(std::size_t id) const { return at_.values[id].stored; }
  /// Is the value in a register or a slot?
  bool is_made(std::size_t id) const {
    return at_.values[id].reg != nowhere || at_.values[id].slot != nowhere;
  }

  /// Values of a bank and their registers: see Note [Pairs] in vector_x86.cpp. Slots belong to all banks.
  struct Value {
    std::vector<std::uint32_t> uses;  // instructions, in order
    std::size_t next = 0;
    int reg = nowhere;
    int slot = nowhere;
    bool stored = false;
  };
  struct Assignment {
    std::vector<Value> values;
    std::array<int, 32> owner;  // by register
  };
  const Assignment& assignment() const { return at_; }
  void swap(Assignment& other) { std::swap(at_, other); }

  /// Starts an instruction: registers of the last one's operands and results may be spilled.
  void unpin() { pinned_ = 0; }
  /// A register without a value.
  Ymm take() {
    for (int r = 0; r < limit_; ++r) {
      if (r != spare_register && owner(r) == nowhere && (pinned_ & (1U << r)) == 0) {
        taken_ = std::max(taken_, r + 1);
        return x_.vector(r);
      }
    }
    int farthest = nowhere;
    std::uint32_t at = 0;
    for (int r = 0; r < limit_; ++r) {
      if (r == spare_register || (pinned_ & (1U << r)) != 0) continue;
      const std::uint32_t use = next_use(at_.values[static_cast<std::size_t>(owner(r))]);
      if (farthest == nowhere || use > at) farthest = r, at = use;
    }
    const auto id = static_cast<std::size_t>(owner(farthest));
    spill(id);
    leave(id);
    return x_.vector(farthest);
  }
  /// A register for this instruction alone.
  Ymm temporary() {
    const Ymm reg = take();
    pinned_ |= 1U << x_.number_of(reg);
    return reg;
  }
  /// The value is in this register from now on.
  void put(std::size_t id, const Ymm& where) {
    const int reg = x_.number_of(where);
    owner(reg) = static_cast<int>(id);
    at_.values[id].reg = reg;
    pinned_ |= 1U << reg;
  }

  /// The value in a register that it keeps until the instruction is emitted.
  Ymm in_register(std::size_t id) {
    const Value& value = at_.values[id];
    if (value.reg == nowhere && (*steps_)[id].op == VectorOp::immediate) {
      if (const std::optional<Ymm> held = x_.holding((*steps_)[id].bits)) return *held;
    }
    if (value.reg == nowhere) {
      const Ymm to = take();
      if (value.slot != nowhere) {
        x_.vmovups(to, x_.slot(value.slot));
      } else {
        memory_.load(id, to);
      }
      put(id, to);
    }
    pinned_ |= 1U << value.reg;
    return x_.vector(value.reg);
  }
  /// Can it be a memory operand? True for a constant, and for the last use of a spilled value.
  bool in_memory(std::size_t id) const {
    const Value& value = at_.values[id];
    if (value.reg != nowhere) return false;
    return (*steps_)[id].op == VectorOp::immediate ||
           (value.slot != nowhere && value.next + 1 >= value.uses.size());
  }
  Source memory(std::size_t id) {
    if (at_.values[id].slot != nowhere) return Source(x_.slot(at_.values[id].slot));
    return x_.constant((*steps_)[id].bits);
  }

  /// Counts the uses of the instruction's operands; values without further uses release their register and
  /// slot.
  void used(const VectorInst& step) {
    std::uint16_t last = no_register;
    for (const std::uint16_t x : {step.a, step.b, step.c}) {
      if (x == no_register) continue;
      Value& value = at_.values[x];
      ++value.next;
      if (value.next < value.uses.size() || x == last) continue;
      last = x;
      if (value.reg != nowhere) leave(x);
      if (value.slot != nowhere) free_slots_.push_back(value.slot);
      value.slot = nowhere;
    }
  }

  /// Spills the values that are used after instruction i.
  void spill_all_after(std::size_t i) {
    for (int r = 0; r < limit_; ++r) {
      if (owner(r) == nowhere) continue;
      const auto id = static_cast<std::size_t>(owner(r));
      const std::vector<std::uint32_t>& uses = at_.values[id].uses;
      if (!uses.empty() && uses.back() > i) spill(id);
    }
  }
  /// No value is in a register from now on.
  void forget_registers() {
    for (int& id : at_.owner) {
      if (id != nowhere) at_.values[static_cast<std::size_t>(id)].reg = nowhere;
      id = nowhere;
    }
  }

  int num_slots() const { return num_slots_; }
  /// Slots 0 to count - 1 are the generator's own; called before any instruction.
  void reserve_slots(int count) { num_slots_ = count; }
  /// Values may be in registers before this one.
  int limit() const { return limit_; }
  void set_limit(int limit) { limit_ = limit; }
  void reset_limit() { limit_ = x_.num_registers(); }
  /// The number of registers, from the first on, that values took since the last reset_taken.
  int taken() const { return taken_; }
  void reset_taken() { taken_ = 0; }

 private:
  static constexpr int nowhere = -1;

  int& owner(int reg) { return at_.owner[static_cast<std::size_t>(reg)]; }
  // The next instruction that uses the value; no_index if there is none.
  static std::uint32_t next_use(const Value& value) {
    return value.next < value.uses.size() ? value.uses[value.next] : no_index;
  }
  void spill(std::size_t id) {
    Value& value = at_.values[id];
    if (value.slot != nowhere || memory_.can_load_again(id)) return;
    if (free_slots_.empty()) {
      value.slot = num_slots_++;
    } else {
      value.slot = free_slots_.back();
      free_slots_.pop_back();
    }
    x_.vmovups(x_.slot(value.slot), x_.vector(value.reg));
  }
  void leave(std::size_t id) {
    owner(at_.values[id].reg) = nowhere;
    at_.values[id].reg = nowhere;
  }

  Assembler& x_;
  MemoryEmitter& memory_;
  const std::vector<VectorInst>* steps_ = nullptr;
  Assignment at_;
  std::uint32_t pinned_ = 0;  // registers of the present instruction, a bit each
  int limit_, taken_ = 0;
  std::vector<int> free_slots_;
  int num_slots_ = 0;
};

}  // namespace tidu::cpu_detail::x86
