// straight_line_x86.cpp - code for straight-line kernels on x86-64: every step for all vectors of an array,
// one after the other, so that none waits for another. Registers: rbx pointers.
//
// Elements that do not fill a vector are loaded and stored under a mask.
#include "cpu/fusion/straight_line.hpp"

#if defined(TIDU_WITH_LANES)

#include "cpu/fusion/vector_x86.hpp"
#include "cpu/fusion/vector_x86_partial.hpp"
#include "cpu/fusion/vector_x86_reduction.hpp"

namespace tidu::cpu_detail {
namespace {

using namespace x86;

class StraightLineGenerator : private MemoryEmitter {
 public:
  StraightLineGenerator(const StraightLineCode& code, bool is_512)
      : code_(code),
        x_(code.program.dtype, is_512),
        elements_(static_cast<int>(code.elements)),
        vectors_((elements_ + x_.lanes() - 1) / x_.lanes()) {}

  std::span<const std::uint8_t> write() {
    lay_out();
    tail_.keep_mask();
    emitter_.begin(list_);
    registers_.reserve_slots(vectors_);  // reductions read them
    x_.open_frame({rbx, rbp});
    x_.mov(rbx, rdi);
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const VectorInst& step = list_[i];
      is_of_one(step) ? call_of_one(i, step) : emitter_.emit(i);
      if (!is_of_one(step) && !calls_out(step)) continue;
      held_ = no_index;
      tail_.forget_mask();
    }
    x_.close_frame();
    tail_.data();
    emitter_.late_code();
    return x_.finished(registers_.num_slots());
  }

 private:
  // The steps for each vector; of values that are the same in every lane one for all.
  void lay_out() {
    const std::vector<VectorInst>& steps = code_.program.steps;
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
      if (is_row_reduction(step.op)) {
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
  static bool is_of_one(const VectorInst& step) { return step.op == VectorOp::call && step.bits != 0; }

  void call_of_one(std::size_t i, const VectorInst& step) {
    if (!registers_.is_used(i)) return registers_.used(step);
    registers_.unpin();
    emitter_.prepare_call(i, step);
    x_.vzeroupper();
    x_.call_function(scalar_address_of(static_cast<VectorFunction>(step.index), x_.is_f64()));
    x_.vbroadcasts(x_.vector(0), Xmm(0));
    registers_.put(i, x_.vector(0));
  }

  bool is_masked(std::size_t id) const { return tail_.left() != 0 && vector_of_[id] == vectors_ - 1; }
  // In rax, which nothing else writes but calls and masks of one element.
  Reg64 pointer(std::size_t id) {
    const std::uint32_t index = list_[id].index;
    if (held_ != index) x_.mov(rax, ptr[rbx + 8 * static_cast<std::size_t>(index)]);
    held_ = index;
    return rax;
  }
  Address elements_at(std::size_t id) {
    return ptr[pointer(id) + static_cast<std::size_t>(vector_of_[id] * x_.vector_bytes())];
  }
  Address bytes_at(std::size_t id, int lane = 0) {
    return ptr[pointer(id) + static_cast<std::size_t>(vector_of_[id] * x_.lanes() + lane)];
  }

  // Memory does not change while an operation is to come that reads it. Single elements are in use for
  // longer, since broadcasts repeat them: they are loaded once, before their first use.
  bool can_load_again(std::size_t id) const override {
    const VectorOp op = list_[id].op;
    return op == VectorOp::load || op == VectorOp::load_mask || op == VectorOp::immediate;
  }
  bool is_late(VectorOp op) const override { return op == VectorOp::immediate; }

  void load(std::size_t id, const Ymm& to) override {
    const auto at = [&](int i) { return bytes_at(id, i); };
    switch (list_[id].op) {
      case VectorOp::immediate: return x_.vmovups(to, x_.constant(list_[id].bits));
      case VectorOp::splat: return x_.vbroadcasts(to, ptr[pointer(id)]);
      case VectorOp::load: {
        const Address from = elements_at(id);
        return is_masked(id) ? tail_.load(to, from) : x_.vmovups(to, from);
      }
      case VectorOp::load_mask:
        is_masked(id) ? tail_.load_bytes(to, at) : x_.vpmovzxb(to, bytes_at(id));
        return arithmetic_.to_mask(to);
      default: arithmetic_.broadcast_mask(to, byte[pointer(id)]); held_ = no_index;
    }
  }
  void store(std::size_t id) override {
    const VectorInst& step = list_[id];
    const Ymm x = registers_.in_register(step.a);
    switch (step.op) {
      case VectorOp::store: {
        const Address to = elements_at(id);
        return is_masked(id) ? tail_.store(to, x) : x_.vmovups(to, x);
      }
      case VectorOp::store_row: return x_.store_element(ptr[pointer(id)], x);
      case VectorOp::store_mask: return store_bytes(id, arithmetic_.to_bytes(x));
      case VectorOp::keep: return keep(id, x);
      default: return reduce(id);
    }
  }
  void store_bytes(std::size_t id, const Xmm& bytes) {
    if (list_[id].bits != 0) return x_.vpextrb(bytes_at(id), bytes, 0);
    if (!is_masked(id)) return arithmetic_.store_bytes(bytes_at(id), bytes);
    tail_.store_bytes([&](int i) { return bytes_at(id, i); }, bytes);
  }

  // Stores a vector that is reduced in its slot; lanes without elements hold the identity.
  void keep(std::size_t id, const Ymm& x) {
    const VectorInst& step = list_[id];
    const Address slot = x_.slot(static_cast<int>(step.index));
    x_.vmovups(slot, x);
    if (!is_masked(id) || elements_ < few_lanes) return;
    const Ymm rest = registers_.temporary();
    x_.vmovups(rest, reduction_.identity(static_cast<VectorOp>(step.bits)));
    tail_.set_mask();
    tail_.blend(rest, x);
    x_.vmovups(slot, rest);
  }
  // Reduces the vectors in the slots, in the order of reduce_line.
  void reduce(std::size_t id) {
    const VectorOp op = list_[id].op;
    const Ymm r = registers_.temporary(), a = registers_.temporary(), b = registers_.temporary();
    if (elements_ < few_lanes) {
      reduce_elements(op, r, a, b);
    } else {
      const int accumulators = few_lanes / x_.lanes();
      const auto reduce_slot = [&](int into, int from) {
        x_.vmovups(a, x_.slot(into));
        x_.vmovups(b, x_.slot(from));
        reduction_.reduce(op, r, a, b);
        x_.vmovups(x_.slot(into), r);
      };
      for (int v = accumulators; v < vectors_; ++v) reduce_slot(v % accumulators, v);
      for (int half = accumulators / 2; half > 0; half /= 2) {
        for (int k = 0; k < half; ++k) reduce_slot(k, k + half);
      }
      x_.vmovups(a, x_.slot(0));
      reduction_.reduce_lanes(op, r, a, b);
    }
    x_.vbroadcasts(r, Xmm(a.getIdx()));
    registers_.put(id, r);
  }
  // One element after another, into lane 0 of a.
  void reduce_elements(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    const auto element = [this](int i) {
      return ptr[rsp + static_cast<std::size_t>(i * x_.element_bytes())];
    };
    const Xmm one(a.getIdx()), other(b.getIdx());
    x_.vmovs(one, element(0));
    for (int i = 1; i < elements_; ++i) {
      if (op == VectorOp::reduce_sum) {
        x_.vadds(one, one, element(i));
        continue;
      }
      x_.vmovs(other, element(i));
      reduction_.reduce(op, r, a, b);
      x_.vmovaps(a, r);
    }
  }

  const StraightLineCode& code_;
  Assembler x_;
  const int elements_, vectors_;
  RegisterAllocator registers_{x_, *this};
  InstructionEmitter emitter_{x_, registers_, *this};
  ArithmeticEmitter arithmetic_{x_};
  ReductionEmitter reduction_{x_};
  PartialVector tail_{x_, elements_ % x_.lanes(), ecx};
  std::vector<VectorInst> list_;
  std::vector<int> vector_of_;     // by step
  std::uint32_t held_ = no_index;  // the pointer in rax
};

}  // namespace

MachineCode assemble(const StraightLineCode& code, VectorUnits units) {
  try {
    StraightLineGenerator generator(code, units == VectorUnits::avx512);
    const std::span<const std::uint8_t> written = generator.write();
    return {{written.begin(), written.end()}};
  } catch (const Xbyak::Error&) {
    return {};
  }
}

}  // namespace tidu::cpu_detail

#endif
