// rows_x86.cpp - code for row fusions on x86-64: a loop over rows, and in it one over the elements of each
// phase. The generator holds the parts of vector_x86.hpp, and these: the tile of vectors that are computed
// side by side, the scratch memory, pointers, loads and stores, and reductions (rows_x86_*.hpp).
//
// Note [Held values]: a row of few vectors that is not reduced and that calls no function is straight-line
// code. Constants, vectors that all rows share, reductions of columns, and the mask of a partial vector stay
// in registers from the first row to the last, if there are enough: loads and stores are most of the time of
// such rows.
//
// Note [Halves]: rows that are computed together wait for their reductions, and for values that are computed
// of these. Therefore as many more rows go through each phase after them, before the first ones go on to the
// next phase: the processor has something to do meanwhile.
#include "cpu/fusion/rows.hpp"

#if defined(TIDU_WITH_LANES)
#include <algorithm>

#include "cpu/fusion/rows_x86_reductions.hpp"
#include "cpu/fusion/vector_x86.hpp"

namespace tidu::cpu_detail {
namespace {

using namespace x86;

class RowsGenerator : private MemoryEmitter {
 public:
  RowsGenerator(const RowsCode& code, bool is_512) : code_(code), x_(code.dtype, is_512) {}
  Sections& sections() { return sections_; }
  std::size_t scratch_bytes() const { return scratch_.bytes(); }

  std::span<const std::uint8_t> write() {
    x_.open_frame({rbx, rbp, r12, r13, r14, r15});
    x_.mov(r12, rdi);
    x_.mov(r15, rsi);
    x_.mov(rbx, rdx);
    x_.add(rcx, rdx);
    x_.mov(ptr[rbp - 8], rcx);
    x_.imul(r14, rbx, static_cast<int>(code_.columns));
    x_.xor_(r13, r13);
    if (is_straight_) hold();
    Label left, done;
    if (together_ > 1) {
      for (const std::int64_t halves : {2, 1}) loop_together(halves);
      x_.test(rax, rax);
      x_.jz(done, x_.T_NEAR);
    }
    tile_.set_rows(1);
    x_.L(left);
    some_rows(1);
    x_.cmp(rbx, ptr[rbp - 8]);
    x_.jl(left, x_.T_NEAR);
    x_.L(done);
    if (is_straight_) sections_.end();
    held_reductions_.store();
    if (has_streams()) x_.sfence();
    x_.close_frame();
    tail_.data();
    emitter_.late_code();
    return x_.finished(registers_.num_slots());
  }

 private:
  // Rows side by side, while there are enough; rax is the number of those that are left.
  void loop_together(std::int64_t halves) {
    tile_.set_rows(together_);
    Label rows, fewer;
    const auto compare = [&] {
      x_.mov(rax, ptr[rbp - 8]);
      x_.sub(rax, rbx);
      x_.cmp(rax, static_cast<std::uint32_t>(halves * together_));
    };
    compare();
    x_.jl(fewer, x_.T_NEAR);
    x_.L(rows);
    some_rows(halves);
    compare();
    x_.jge(rows, x_.T_NEAR);
    x_.L(fewer);
  }
  void some_rows(std::int64_t halves) {
    pointers_.find_gathered();
    for (std::size_t i = 0; i < code_.phases.size(); ++i) {
      for (std::int64_t half = 0; half < halves; ++half) {
        tile_.set_first_row(half * tile_.rows());
        if (i != 0) to_start();
        phase(code_.phases[i]);
      }
    }
    to_start();
    x_.add(r14, static_cast<std::uint32_t>(halves * tile_.rows() * code_.columns));
    x_.add(rbx, static_cast<std::uint32_t>(halves * tile_.rows()));
  }
  void to_start() {
    x_.sub(r14, r13);
    x_.xor_(r13, r13);
  }

  // Is a row straight-line code without reductions of it?
  bool is_straight() const {
    constexpr std::size_t max_vectors = 16, max_steps = 256;
    if (code_.phases.size() != 1 || !code_.phases[0].row.empty()) return false;
    const std::vector<VectorInst>& steps = code_.phases[0].elements;
    const auto vectors = static_cast<std::size_t>(tile_.num_vectors());
    if (vectors > max_vectors || steps.size() * vectors > max_steps || calls_out(steps)) return false;
    std::size_t reductions = 0;
    for (const VectorInst& step : steps) {
      if (is_row_reduction(step.op) || (is_column_reduction(step.op) && step.bits != 0)) return false;
      if (is_column_reduction(step.op)) ++reductions;
    }
    return reductions * vectors <= max_accumulators(x_) / 2;
  }
  // See Note [Held values].
  void hold() {
    constexpr std::int64_t many_rows = 16;
    const int last = x_.is_512() ? 16 : 9;  // of the registers that are held
    const std::vector<VectorInst>& steps = code_.phases[0].elements;
    registers_.set_limit(x_.is_512() ? x_.num_registers() : spare_register);
    for (const VectorInst& step : steps) {
      for (int v = 0; is_column_reduction(step.op) && v < tile_.num_vectors(); ++v)
        held_reductions_.hold({step.index, v});
    }
    tail_.keep_mask();
    if (x_.is_512() && tile_.left() != 0) tail_.set_mask();
    for (const VectorInst& step : steps) {
      if (step.op != VectorOp::load_column || registers_.limit() - tile_.num_vectors() < last ||
          held_columns_.find({step.index, 0}))
        continue;
      for (int v = 0; v < tile_.num_vectors(); ++v) held_columns_.hold({step.index, v});
    }
    sections_.begin(many_rows);
  }
  // Vectors that rows together read, each of them, in registers that the section leaves. See Note [Held
  // constants].
  void hold_columns() {
    if (sections_.learnt() == nullptr) return;
    for (const auto& [uses, key] : Section::often_used(sections_.learnt()->column_uses, 1)) {
      if (held_columns_.next() < sections_.learnt()->registers) return;
      held_columns_.hold(key);
    }
  }
  bool has_streams() const {
    const auto streams = [](const VectorInst& step) { return step.op == VectorOp::stream; };
    return std::any_of(code_.phases.begin(), code_.phases.end(), [&](const RowsCode::Phase& phase) {
      return std::any_of(phase.elements.begin(), phase.elements.end(), streams);
    });
  }

  void phase(const RowsCode::Phase& phase) {
    phase_ = &phase;
    calls_ = calls_out(phase.elements);
    reductions_.begin(phase);
    if (!calls_) pointers_.cache(phase.elements);
    if (tile_.rows() > 1) {
      rows_together();
    } else if (is_straight_) {
      vectors(tile_.num_vectors(), tile_.left() != 0);
    } else if (reductions_.empty()) {
      const std::int64_t at_once = calls_ || phase.elements.size() > 24 ? 2 : 4;
      sections_.begin(calls_ ? 0 : code_.columns / (at_once * x_.lanes()));
      stretch(code_.columns, at_once);
      sections_.end();
    } else {
      reduced_row();
    }
    pointers_.forget();
    if (!phase.row.empty()) values_of_rows(phase.row);
  }
  // Blocks of as many elements as reductions take at once.
  void reduced_row() {
    const std::int64_t blocks = code_.columns > reduction_block ? code_.columns / reduction_block : 0;
    const std::int64_t rest = code_.columns - blocks * reduction_block;
    if (blocks > 0) {
      Label loop;
      x_.L(loop);
      reduce_stretch(reduction_block);
      reductions_.store_block();
      if (blocks > 1) {
        x_.cmp(r13, static_cast<std::uint32_t>(blocks * reduction_block));
        x_.jl(loop, x_.T_NEAR);
      }
    }
    if (rest > 0) {
      reduce_stretch(rest);
      reductions_.store_rest(blocks);
    }
    if (blocks > 0) reductions_.finish_blocks();
    registers_.reset_limit();
  }
  void reduce_stretch(std::int64_t count) {
    reductions_.start(count);
    sections_.begin(calls_ ? 0 : count / (reductions_.accumulators() * x_.lanes()));
    stretch(count, reductions_.accumulators());
    sections_.end();
  }
  // All lines of short rows at once: values of reductions are lanes of one vector.
  void rows_together() {
    reductions_.start_rows();
    const std::size_t taken = reductions_.num_accumulators() +
                              column_reductions_.start_tile(phase_->elements, reductions_.num_accumulators());
    if (taken > 0) registers_.set_limit(accumulator_register(x_, taken - 1));
    sections_.begin(1);
    hold_columns();
    vectors(tile_.num_vectors(), tile_.left() != 0);
    held_columns_.clear();
    sections_.end();
    column_reductions_.finish_tile();
    reductions_.finish_rows();
    registers_.reset_limit();
  }
  // Instructions on values of the rows, at most 32 bytes if there are several.
  void values_of_rows(const std::vector<VectorInst>& steps) {
    tile_.select_rows(steps.size());
    memory_.set_of_rows(true);
    x_.set_halved(x_.is_512() && tile_.rows() > 1 && !calls_out(steps));
    emitter_.emit_all(steps);
    x_.set_halved(false);
    memory_.set_of_rows(false);
  }

  // `count` elements from r13 on, which is left where the last whole turn ends.
  void stretch(std::int64_t count, std::int64_t at_once) {
    const std::int64_t turn = at_once * x_.lanes(), turns = count / turn;
    if (turns > 0) {
      Label loop;
      x_.L(loop);
      vectors(at_once, false);
      x_.add(r13, static_cast<std::uint32_t>(turn));
      x_.add(r14, static_cast<std::uint32_t>(turn));
      if (turns > 1) {
        if (count == reduction_block && code_.columns > reduction_block && !reductions_.empty()) {
          x_.test(r13, static_cast<std::uint32_t>(reduction_block - 1));
          x_.jnz(loop, x_.T_NEAR);
        } else {
          // Stretches that are not of whole blocks are a row's last.
          const std::int64_t end = code_.columns - count + turns * turn;
          x_.cmp(r13, static_cast<std::uint32_t>(end));
          x_.jl(loop, x_.T_NEAR);
        }
      }
    }
    const std::int64_t left = count - turns * turn;
    if (left > 0) vectors((left + x_.lanes() - 1) / x_.lanes(), left % x_.lanes() != 0);
  }
  // Straight-line code for vectors side by side, of each row the last one perhaps not whole.
  void vectors(std::int64_t count, bool is_partial) {
    // Two by two if there are many registers, since neither then waits for the other.
    const std::int64_t in_turn = x_.is_512() && !calls_ ? 2 : 1;
    const std::vector<VectorInst> steps = tile_.lay_out(phase_->elements, count, is_partial, in_turn);
    prefetch_.emit(*phase_, count - (is_partial ? 1 : 0));
    emitter_.emit_all(steps);
  }

  bool is_late(VectorOp op) const override { return op <= VectorOp::immediate; }
  bool can_load_again(std::size_t id) const override { return is_late(registers_.steps()[id].op); }
  void load(std::size_t id, const Ymm& to) override {
    const VectorInst& step = registers_.steps()[id];
    if (step.op == VectorOp::load_column) {
      const HeldColumns::Key key(step.index, tile_.vector(id));
      if (const std::optional<Ymm> held = held_columns_.find(key)) return x_.vmovaps(to, *held);
      sections_.count_column(key);
    }
    memory_.load(id, step, to);
  }
  void store(std::size_t id) override {
    const VectorInst& step = registers_.steps()[id];
    const Ymm x = registers_.in_register(step.a);
    if (is_row_reduction(step.op)) return reductions_.emit(id, x);
    is_column_reduction(step.op) ? column_reductions_.emit(id, x) : memory_.store(id, step, x);
  }

  const RowsCode& code_;
  Assembler x_;
  const std::int64_t together_ = rows_side_by_side(code_, x_);  // rows side by side
  RegisterAllocator registers_{x_, *this};
  Sections sections_{x_, registers_};
  InstructionEmitter emitter_{x_, registers_, *this};
  RowTile tile_{code_.columns, x_.lanes()};
  const RowScratch scratch_{code_, x_, together_ > 1 ? 2 * together_ : 1};
  RowPointers pointers_{code_, x_, scratch_};
  RowPrefetch prefetch_{code_, x_, pointers_};
  PartialVector tail_{x_, tile_.left(), eax};
  RowMemory memory_{x_, tile_, scratch_, pointers_, tail_};
  HeldColumns held_columns_{x_, registers_, tile_, memory_}, held_reductions_{x_, registers_, tile_, memory_};
  RowReductions reductions_{x_, registers_, tile_, scratch_, tail_};
  ColumnReductions column_reductions_{x_, registers_, tile_, memory_, held_reductions_};
  const bool is_straight_ = is_straight();
  const RowsCode::Phase* phase_ = nullptr;  // the present one
  bool calls_ = false;                      // does it have calls?
};

}  // namespace

MachineCode assemble(const RowsCode& code, VectorUnits units) {
  const bool is_512 = units == VectorUnits::avx512;
  try {
    RowsGenerator generator(code, is_512);
    const std::span<const std::uint8_t> written = generator.write();
    return {written_again(generator, written, RowsGenerator(code, is_512)), generator.scratch_bytes()};
  } catch (const Xbyak::Error&) {
    return {};
  }
}

}  // namespace tidu::cpu_detail

#endif
