// vector_x86_instructions.hpp - x86::InstructionEmitter: code for the instructions of straight-line code, on
// values that the register allocator places.
//
// Loads and stores are those of the generator. exp, tanh, sin and cos are inline code; other functions are
// calls of libmvec, which preserve no vector register, so live values are spilled before them. late_code is
// to be called once, after the end of the code.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/fusion/vector_x86_arithmetic.hpp"
#include "cpu/fusion/vector_x86_circular.hpp"
#include "cpu/fusion/vector_x86_exponential.hpp"
#include "cpu/fusion/vector_x86_registers.hpp"
#include "cpu/instruction_set.hpp"

namespace tidu::cpu_detail::x86 {

inline bool is(const VectorInst& step, VectorFunction function) {
  return step.index == static_cast<std::uint32_t>(function);
}
inline bool is_circular(const VectorInst& step) {
  return is(step, VectorFunction::sin) || is(step, VectorFunction::cos);
}
/// Does it call a function, which preserves no register?
inline bool calls_out(const VectorInst& step) {
  return step.op == VectorOp::call && !is(step, VectorFunction::exp) && !is(step, VectorFunction::tanh) &&
         !is_circular(step);
}
inline bool calls_out(const std::vector<VectorInst>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const VectorInst& step) { return calls_out(step); });
}
inline bool is_row_reduction(VectorOp op) { return op >= VectorOp::reduce_sum && op <= VectorOp::reduce_min; }

class InstructionEmitter {
 public:
  InstructionEmitter(Assembler& assembler, RegisterAllocator& registers, MemoryEmitter& memory)
      : x_(assembler), registers_(registers), memory_(memory) {}

  /// Starts straight-line code for these instructions.
  void begin(const std::vector<VectorInst>& steps) {
    registers_.begin(steps);
    scales_ = x_.is_512() && multiplications(steps) > 0 && computes_in_halves();
  }
  void emit(std::size_t i) {
    const VectorInst& step = registers_.steps()[i];
    registers_.unpin();
    if (num_operands(step.op) == 0) {
      if (!registers_.is_used(i) || memory_.is_late(step.op)) return;
      const Ymm to = registers_.take();
      memory_.load(i, to);
      return registers_.put(i, to);
    }
    if (step.op >= VectorOp::store) {
      memory_.store(i);
    } else if (registers_.is_used(i)) {
      if (calls_out(step)) return call_function(i, step);
      step.op == VectorOp::call ? emit_function(i, step) : compute(i, step);
    }
    registers_.used(step);
  }
  void emit_all(const std::vector<VectorInst>& steps) {
    begin(steps);
    for (std::size_t i = 0; i < steps.size(); ++i) emit(i);
  }

  /// Moves operands to registers 0 and 1, and saves values that are live after the call. The operands may be
  /// dead then.
  void prepare_call(std::size_t i, const VectorInst& s) {
    const Ymm a = registers_.in_register(s.a);
    const Ymm b = s.b == no_register ? a : registers_.in_register(s.b);
    registers_.spill_all_after(i);
    if (s.b != no_register) x_.vmovaps(x_.spare(), b);
    if (a.getIdx() != 0) x_.vmovaps(x_.vector(0), a);
    if (s.b != no_register) x_.vmovaps(x_.vector(1), x_.spare());
    registers_.forget_registers();
    registers_.used(s);
  }

  void late_code() {
    circular_.late_code();
    exponential_.late_code();
  }

 private:
  // The number of instructions for multiplication units minus the number for addition units.
  static int multiplications(const std::vector<VectorInst>& steps) {
    int more = 0;
    for (const VectorInst& step : steps) {
      if (step.op == VectorOp::mul || step.op == VectorOp::multiply_no_nan || step.op == VectorOp::sqrt)
        ++more;
      if (step.op == VectorOp::div || step.op == VectorOp::divide_no_nan) more += 2;
      if (step.op == VectorOp::add || step.op == VectorOp::sub ||
          (step.op >= VectorOp::reduce_sum && step.op <= VectorOp::column_min))
        --more;
      if (step.op == VectorOp::call && !calls_out(step)) more += 6;
    }
    return more;
  }
  // Multiplies by a power of two with a scaling instruction, which Zen 4 executes in its addition units, in
  // two cycles each. Returns false, without emitting anything, for other instructions.
  bool scale(std::size_t i, const VectorInst& s) {
    if (s.op != VectorOp::mul) return false;
    const std::vector<VectorInst>& steps = registers_.steps();
    for (const auto& [x, by] : {std::pair(s.a, s.b), std::pair(s.b, s.a)}) {
      const std::optional<int> exponent =
          steps[by].op == VectorOp::immediate ? exponent_of(steps[by].bits) : std::nullopt;
      if (!exponent || steps[x].op == VectorOp::immediate) continue;
      const Ymm a = registers_.in_register(x);
      const Ymm r = registers_.take();
      x_.vscalef(r, a, x_.number(*exponent));
      registers_.put(i, r);
      return true;
    }
    return false;
  }
  // The exponent of a power of two that is not subnormal.
  std::optional<int> exponent_of(std::uint64_t bits) const {
    const int largest = x_.is_f64() ? 0x7ff : 0xff;
    const std::uint64_t exponent = bits >> x_.mantissa_bits();
    if (exponent << x_.mantissa_bits() != bits || exponent == 0 ||
        exponent >= static_cast<std::uint64_t>(largest))
      return std::nullopt;
    return static_cast<int>(exponent) - largest / 2;
  }

  void compute(std::size_t i, const VectorInst& s) {
    if (scales_ && scale(i, s)) return;
    const Ymm a = registers_.in_register(s.a);
    const bool direct = ArithmeticEmitter::is_basic(s.op) && s.b != s.a && registers_.in_memory(s.b);
    const Ymm b = s.b == no_register || direct ? a : registers_.in_register(s.b);
    const Ymm c = s.c == no_register ? a : registers_.in_register(s.c);
    const Ymm scratch = arithmetic_.uses_scratch(s.op) ? registers_.temporary() : a;
    const Ymm r = registers_.take();
    if (direct) {
      arithmetic_.basic(s.op, r, a, registers_.memory(s.b));
    } else {
      arithmetic_.emit(s.op, r, a, b, c, scratch);
    }
    registers_.put(i, r);
  }

  void emit_function(std::size_t i, const VectorInst& s) {
    if (is_circular(s)) return emit_circular(i, s);
    const Ymm x = registers_.in_register(s.a);
    const Ymm r = registers_.temporary(), n = registers_.temporary(), p = registers_.temporary();
    if (is(s, VectorFunction::exp)) {
      exponential_.exp(x, r, n, p);
      return registers_.put(i, p);
    }
    const Ymm q = registers_.temporary();
    if (x_.is_f64()) {
      exponential_.tanh_f64(x, r, n, p, q);
    } else {
      exponential_.tanh_f32(x, r, n, registers_.temporary(), p, q);
    }
    registers_.put(i, q);
  }
  // Emits sin or cos, together with the other function of the same value if a later instruction needs that.
  // Instructions that occur several times may need it for one value; it is computed once.
  void emit_circular(std::size_t i, const VectorInst& s) {
    if (registers_.is_made(i)) return;  // together with the other
    const std::vector<VectorInst>& steps = registers_.steps();
    std::size_t other = i + 1;
    const auto is_other = [&](std::size_t k) {
      return steps[k].op == VectorOp::call && steps[k].a == s.a && steps[k].bits == s.bits &&
             is_circular(steps[k]) && steps[k].index != s.index && registers_.is_used(k) &&
             !registers_.is_made(k);
    };
    while (other < steps.size() && !is_other(other)) ++other;
    const bool pair = other < steps.size();
    const bool sine = is(s, VectorFunction::sin);
    const Ymm x = registers_.in_register(s.a);
    const Ymm r = registers_.temporary(), n = registers_.temporary(), p = registers_.temporary();
    const Ymm q = registers_.temporary(), t = registers_.temporary();
    circular_.emit({x, r, n, p, q, t}, sine || pair, !sine || pair);
    if (pair) registers_.put(other, sine ? q : p);
    registers_.put(i, sine || !pair ? p : q);
  }
  void call_function(std::size_t i, const VectorInst& s) {
    prepare_call(i, s);
    x_.call_function(address_of(static_cast<VectorFunction>(s.index), x_.is_f64(), x_.is_512()));
    registers_.put(i, x_.vector(0));
  }

  Assembler& x_;
  RegisterAllocator& registers_;
  MemoryEmitter& memory_;
  ArithmeticEmitter arithmetic_{x_};
  ExponentialEmitter exponential_{x_};
  CircularEmitter circular_{x_};
  bool scales_ = false;  // multiply by powers of two with scale()
};

}  // namespace tidu::cpu_detail::x86
