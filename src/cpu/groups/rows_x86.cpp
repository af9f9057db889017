// rows_x86.cpp - code for rows on x86-64: a loop over rows, in it one over the elements of each phase, and
// folds.
//
// In folds, lanes that a vector does not fill are elements that change nothing.
//
// Note [Held values]: a row of few vectors that is not folded and that calls no function is straight-line
// code. What is the same in all rows, the vectors that are repeated along them, what rows are folded to and
// the mask of what is left, stays in registers from the first row to the last, where there are enough: loads
// and stores are most of the time of such rows.
//
// Note [Halves]: rows that are computed together wait for their folds, and for what is computed of these. So
// as many more go through each phase behind them, before the first go on to the next: the processor has
// something to do meanwhile.
#include "cpu/groups/rows.hpp"

#if defined(TIDU_WITH_LANES)
#include <algorithm>

#include "cpu/groups/rows_x86.hpp"

namespace tidu::cpu_detail {
namespace {

class RowsGenerator : private RowsAssembler {
 public:
  RowsGenerator(const RowsCode& code, bool is_512) : RowsAssembler(code, is_512) {}
  using RowsAssembler::hold_by;
  using RowsAssembler::take_sections;
  std::size_t scratch_bytes() const { return scratch_; }

  std::span<const std::uint8_t> write() {
    for (const auto& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    open_frame();
    mov(r12, rdi);
    mov(r15, rsi);
    mov(rbx, rdx);
    add(rcx, rdx);
    mov(ptr[rbp - 8], rcx);
    imul(r14, rbx, static_cast<int>(code_.columns));
    xor_(r13, r13);
    find_fetched();
    hold();
    Xbyak::Label left, done;
    for (halves_ = 2; most_together_ > 1 && halves_ > 0; --halves_) {
      together_ = most_together_;
      Xbyak::Label rows, fewer;
      const auto compare = [&] {
        mov(rax, ptr[rbp - 8]);
        sub(rax, rbx);
        cmp(rax, static_cast<std::uint32_t>(halves_ * together_));
      };
      compare();
      jl(fewer, T_NEAR);
      L(rows);
      some_rows();
      compare();
      jge(rows, T_NEAR);
      L(fewer);
    }
    if (most_together_ > 1) {
      test(rax, rax);
      jz(done, T_NEAR);
    }
    halves_ = together_ = 1;
    L(left);
    some_rows();
    cmp(rbx, ptr[rbp - 8]);
    jl(left, T_NEAR);
    L(done);
    if (is_straight_) end_section();
    store_held_folds();
    if (has_streams()) sfence();
    vzeroupper();
    mov(rsp, rbp);
    for (const auto& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    ret();
    tail_mask();
    return finished();
  }

 private:
  void some_rows() {
    find_picked();
    for (std::size_t i = 0; i < code_.phases.size(); ++i) {
      for (std::int64_t half = 0; half < halves_; ++half) {
        first_row_ = half * together_;
        phase(code_.phases[i], i == 0);
      }
    }
    to_start();
    add(r14, static_cast<std::uint32_t>(halves_ * together_ * code_.columns));
    add(rbx, static_cast<std::uint32_t>(halves_ * together_));
  }
  // See Note [Held values].
  void hold() {
    constexpr std::size_t most_vectors = 16, most_steps = 256;
    constexpr std::int64_t many_rows = 16;
    if (code_.phases.size() != 1) return;
    const std::vector<LaneStep>& steps = code_.phases[0].elements;
    is_straight_ = row_vectors() <= most_vectors && !calls_out(steps) && code_.phases[0].row.empty() &&
                   steps.size() * row_vectors() <= most_steps &&
                   std::none_of(steps.begin(), steps.end(), [](const LaneStep& step) {
                     return is_fold(step.op) || (is_column_fold(step.op) && step.bits != 0);
                   });
    const auto folds = static_cast<std::size_t>(std::count_if(
        steps.begin(), steps.end(), [](const LaneStep& step) { return is_column_fold(step.op); }));
    is_straight_ = is_straight_ && folds * row_vectors() <= most_accumulators() / 2;
    if (!is_straight_) return;
    const int last = is_512_ ? 16 : 9;  // of the registers that are held
    limit_ = is_512_ ? num_registers_ : spare_register;
    begin_shared();
    for (const LaneStep& step : steps) {
      if (!is_column_fold(step.op)) continue;
      for (int v = 0; v < static_cast<int>(row_vectors()); ++v)
        held_folds_.emplace(std::pair(step.index, v), held_vector(step.index, v));
    }
    if (is_512_ && columns_left() != 0) set_tail();
    tail_is_set_ = true;
    const auto count = static_cast<int>(row_vectors());
    for (const LaneStep& step : steps) {
      if (step.op != LaneOp::load_column || limit_ - count < last ||
          held_columns_.find({step.index, 0}) != held_columns_.end())
        continue;
      for (int v = 0; v < count; ++v)
        held_columns_.emplace(std::pair(step.index, v), held_vector(step.index, v));
    }
    begin_section(many_rows);
  }
  // Vectors that rows together read, each of them, in registers that the section leaves. See Note [Held
  // constants].
  void hold_columns() {
    if (learnt() == nullptr) return;
    begin_shared();
    for (const auto& [uses, place] : often_used(learnt()->column_uses, 1)) {
      if (next_held() < learnt()->registers) return;
      held_columns_.emplace(place, held_vector(place.first, place.second));
    }
  }
  int next_held() const { return limit_ - 1 == spare_register ? limit_ - 2 : limit_ - 1; }
  // A vector of all rows in the last register that no value may take.
  int held_vector(std::uint32_t index, int v) {
    limit_ = next_held();
    copies_.assign(1, v);
    load_elements(vector(limit_), 0, pointer(index), true);
    return limit_;
  }
  // Step 0 is of the vector that copies_ says, and of all rows.
  void begin_shared() {
    masked_copy_ = columns_left() != 0 ? static_cast<int>(row_vectors()) - 1 : nowhere;
    rows_.assign(1, 0);
  }
  void store_held_folds() {
    begin_shared();
    for (const auto& [place, reg] : held_folds_) {
      copies_.assign(1, place.second);
      store_elements(0, pointer(place.first), vector(reg), true);
    }
  }
  void to_start() {
    sub(r14, r13);
    xor_(r13, r13);
  }

  void phase(const RowsCode::Phase& phase, bool first) {
    if (!first) to_start();
    folds_ = folds_of(phase);
    calls_ = calls_out(phase.elements);
    elements_ = &phase.elements;
    fetches_ = &phase == fetching_;
    cache_pointers();
    if (together_ > 1) {
      rows_together();
    } else if (is_straight_) {
      vectors(static_cast<std::int64_t>(row_vectors()), columns_left() != 0);
    } else if (folds_.empty()) {
      const std::int64_t at_once = calls_ || elements_->size() > 24 ? 2 : 4;
      begin_section(calls_ ? 0 : code_.columns / (at_once * lanes_));
      stretch(code_.columns, at_once, 0);
      end_section();
    } else {
      // Blocks of as many elements as folds take at once.
      const std::int64_t whole = code_.columns > fold_block ? code_.columns / fold_block : 0;
      const std::int64_t rest = code_.columns - whole * fold_block;
      if (whole > 0) {
        Xbyak::Label blocks;
        L(blocks);
        fold_stretch(fold_block);
        for (std::size_t f = 0; f < folds_.size(); ++f) {
          combine(f);
          mov(rax, r13);
          shr(rax, 10);
          const std::size_t part =
              parts_at_ + folds_[f].index * parts_size_ - static_cast<std::size_t>(element_);
          store_element(ptr[r15 + rax * element_ + part], vector(0));
        }
        if (whole > 1) {
          cmp(r13, static_cast<std::uint32_t>(whole * fold_block));
          jl(blocks, T_NEAR);
        }
      }
      if (rest > 0) {
        fold_stretch(rest);
        for (std::size_t f = 0; f < folds_.size(); ++f) {
          combine(f);
          const std::size_t parts = parts_at_ + folds_[f].index * parts_size_;
          if (whole > 0) {
            store_element(ptr[r15 + parts + static_cast<std::size_t>(whole * element_)], vector(0));
          } else {
            store_element(in_slot(folds_[f].index), vector(0));
          }
        }
      }
      if (whole > 0) finish_folds();
      limit_ = num_registers_;
    }
    cached_.clear();
    cached_picks_.clear();
    if (phase.row.empty()) return;
    copies_.assign(phase.row.size(), 0);
    rows_.assign(phase.row.size(), first_row_);
    masked_copy_ = nowhere;
    of_row_ = true;
    begin(phase.row);
    for (std::size_t i = 0; i < phase.row.size(); ++i) step(i);
    of_row_ = false;
  }
  // All lines of short rows at once: values of folds are lanes of one vector.
  void rows_together() {
    accumulators_ = few_lanes / lanes_;
    fresh_.assign(num_accumulators(), true);
    find_column_folds();
    const std::size_t taken = num_accumulators() + column_folds_.size() * row_vectors();
    if (taken > 0) limit_ = accumulator_register(taken - 1);
    begin_section(1);
    hold_columns();
    vectors(static_cast<std::int64_t>(row_vectors()), code_.columns % lanes_ != 0);
    held_columns_.clear();
    end_section();
    fresh_.clear();
    column_folds_.clear();
    for (std::size_t f = 0; f < folds_.size(); ++f) combine_rows(f);
    limit_ = num_registers_;
  }

  std::size_t row_vectors() const { return static_cast<std::size_t>((code_.columns + lanes_ - 1) / lanes_); }
  // Folds of all rows stay in registers from the first row to the last, where there are enough.
  void find_column_folds() {
    column_folds_.clear();
    for (const LaneStep& step : *elements_) {
      if (is_column_fold(step.op) && step.bits == 0) column_folds_.push_back(step.index);
    }
    if (num_accumulators() + column_folds_.size() * row_vectors() > most_accumulators())
      column_folds_.clear();
  }
  // `count` elements from r13 on, which is left where the last whole turn ends.
  void stretch(std::int64_t count, std::int64_t at_once, std::int64_t accumulators) {
    accumulators_ = accumulators;
    const std::int64_t turn = at_once * lanes_, turns = count / turn;
    if (turns > 0) {
      Xbyak::Label loop;
      L(loop);
      vectors(at_once, false);
      add(r13, static_cast<std::uint32_t>(turn));
      add(r14, static_cast<std::uint32_t>(turn));
      if (turns > 1) {
        if (count == fold_block && code_.columns > fold_block && accumulators > 0) {
          test(r13, static_cast<std::uint32_t>(fold_block - 1));
          jnz(loop, T_NEAR);
        } else {
          // Stretches that are not of whole blocks are a row's last.
          const std::int64_t end = code_.columns - count + turns * turn;
          cmp(r13, static_cast<std::uint32_t>(end));
          jl(loop, T_NEAR);
        }
      }
    }
    const std::int64_t left = count - turns * turn;
    if (left > 0) vectors((left + lanes_ - 1) / lanes_, left % lanes_ != 0);
  }
  // Straight-line code for vectors side by side, of each row the last one perhaps not whole.
  void vectors(std::int64_t count, bool masked) {
    masked_copy_ = masked ? static_cast<int>(count) - 1 : nowhere;
    const std::vector<LaneStep> steps = laid_out(count);
    for (std::int64_t copy = 0; fetches_ && copy < count - (masked ? 1 : 0); ++copy) fetch_next(copy);
    begin(steps);
    for (std::size_t i = 0; i < steps.size(); ++i) step(i);
  }

  static LaneOp with(LaneOp op) {
    if (op == LaneOp::fold_sum || op == LaneOp::column_sum) return LaneOp::add;
    return op == LaneOp::fold_max || op == LaneOp::column_max ? LaneOp::max : LaneOp::min;
  }
  // What changes nothing: -0, and infinities.
  std::uint64_t identity(LaneOp op) const {
    const LaneOp kind = with(op);
    if (kind == LaneOp::add) return sign_bit();
    const std::uint64_t infinity = is_f64_ ? 0x7ff0000000000000U : 0x7f800000U;
    return kind == LaneOp::max ? infinity | sign_bit() : infinity;
  }
  // r = a with b; r is neither.
  void folded(LaneOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    if (with(op) == LaneOp::add) {
      is_f64_ ? vaddpd(r, a, b) : vaddps(r, a, b);
    } else {
      extremum(with(op), r, a, b);
    }
  }
  bool in_registers() const { return !calls_ && num_accumulators() <= most_accumulators(); }
  std::size_t num_accumulators() const {
    return folds_.size() * static_cast<std::size_t>(accumulators_ * together_);
  }
  // Accumulators take registers from the last one down, but not the spare one.
  int accumulator_register(std::size_t i) const {
    const int first = is_512_ ? num_registers_ - 1 : spare_register - 1;
    return first - static_cast<int>(i);
  }
  Address accumulator_memory(std::size_t i) {
    return ptr[r15 + accumulators_at_ + i * static_cast<std::size_t>(vector_)];
  }
  std::size_t accumulator(std::size_t f, std::int64_t k, std::int64_t row = 0) const {
    const std::size_t of_row = f * static_cast<std::size_t>(together_) + static_cast<std::size_t>(row);
    return of_row * static_cast<std::size_t>(accumulators_) + static_cast<std::size_t>(k);
  }
  void fold_stretch(std::int64_t count) {
    accumulators_ = (count < long_line ? few_lanes : many_lanes) / lanes_;
    const bool registers = in_registers();
    limit_ = registers ? accumulator_register(num_accumulators() - 1) : num_registers_;
    for (std::size_t f = 0; f < folds_.size(); ++f) {
      const Constant nothing = constant(identity(folds_[f].op));
      if (!registers) vmovups(vector(0), nothing);
      for (std::int64_t k = 0; k < accumulators_; ++k) {
        const std::size_t i = accumulator(f, k);
        if (registers) {
          vmovups(vector(accumulator_register(i)), nothing);
        } else {
          vmovups(accumulator_memory(i), vector(0));
        }
      }
    }
    begin_section(calls_ ? 0 : count / (accumulators_ * lanes_));
    stretch(count, accumulators_, accumulators_);
    end_section();
  }
  void fold(std::size_t id, Ymm x) override {
    const LaneStep& step = (*steps_)[id];
    std::size_t f = 0;
    while (folds_[f].index != step.index) ++f;
    const std::size_t i = accumulator(f, copies_[id] % accumulators_, rows_[id] - first_row_);
    if (!fresh_.empty() && fresh_[i]) {  // as if what changes nothing were there
      fresh_[i] = false;
      const Ymm a = vector(accumulator_register(i));
      if (!is_masked(id)) return vmovaps(a, x);
      set_tail();
      if (is_512_) {
        vmovups(a, constant(identity(step.op)));
        return is_f64_ ? vmovapd(a | k2, x) : vmovaps(a | k2, x);
      }
      vmovups(a, constant(identity(step.op)));
      return vblendvps(a, a, x, spare());
    }
    if (is_masked(id)) {
      set_tail();
      const Constant nothing = constant(identity(step.op));
      if (is_512_) {
        vmovups(spare(), nothing);
        is_f64_ ? vmovapd(spare() | k2, x) : vmovaps(spare() | k2, x);
        x = spare();
      } else {
        const Ymm t = vector(temporary());
        vmovups(t, nothing);
        vblendvps(t, t, x, spare());
        x = t;
      }
    }
    const bool registers = in_registers();
    const Ymm a = vector(registers ? accumulator_register(i) : temporary());
    if (!registers) vmovups(a, accumulator_memory(i));
    if (with(step.op) == LaneOp::add) {
      folded(step.op, a, a, x);
      if (!registers) vmovups(accumulator_memory(i), a);
    } else {
      const Ymm r = vector(temporary());
      folded(step.op, r, a, x);
      registers ? vmovaps(a, r) : vmovups(accumulator_memory(i), r);
    }
  }
  // All accumulators of a fold to one element, in lane 0 of register 0. No value is in a register.
  void combine(std::size_t f) {
    const LaneOp op = folds_[f].op;
    const bool registers = in_registers();
    const auto get = [&](std::int64_t k, int into) {
      const std::size_t i = accumulator(f, k);
      if (registers) return vector(accumulator_register(i));
      vmovups(vector(into), accumulator_memory(i));
      return vector(into);
    };
    for (std::int64_t step = accumulators_ / 2; step > 0; step /= 2) {
      for (std::int64_t k = 0; k < step; ++k) {
        const Ymm a = get(k, 0), b = get(k + step, 1), r = vector(2);
        folded(op, r, a, b);
        registers ? vmovaps(a, r) : vmovups(accumulator_memory(accumulator(f, k)), r);
      }
    }
    const Ymm all = get(0, 0);
    if (all.getIdx() != 0) vmovaps(vector(0), all);
    if (is_512_) {
      vextractf64x4(Ymm(1), Zmm(0), 1);
      folded(op, Ymm(2), Ymm(0), Ymm(1));
      vmovaps(Ymm(0), Ymm(2));
    }
    vextractf128(Xmm(1), Ymm(0), 1);
    halved(op);
    if (!is_f64_) {
      vmovhlps(Xmm(1), Xmm(0), Xmm(0));
      halved(op);
      vmovshdup(Xmm(1), Xmm(0));
    } else {
      vunpckhpd(Xmm(1), Xmm(0), Xmm(0));
    }
    halved(op);
  }
  // The same of all rows together, in registers all the way, to their values: of as many rows at a time as
  // have elements in 16 bytes. All values are stored at once, as they are loaded next: two stores would both
  // have to reach the cache before.
  void combine_rows(std::size_t f) {
    const LaneOp op = folds_[f].op;
    const std::int64_t at_once = 16 / element_;
    for (std::int64_t first = 0; first < together_; first += at_once) {
      for (std::int64_t row = 0; row < at_once; ++row) {
        const auto get = [&](std::int64_t k) { return accumulator_register(accumulator(f, k, first + row)); };
        for (std::int64_t step = accumulators_ / 2; step > 0; step /= 2) {
          for (std::int64_t k = 0; k < step; ++k) {
            folded(op, vector(4), vector(get(k)), vector(get(k + step)));
            vmovaps(vector(get(k)), vector(4));
          }
        }
        const Ymm x = Ymm(static_cast<int>(row));
        if (is_512_) {
          vextractf64x4(Ymm(4), Zmm(get(0)), 1);
          folded(op, Ymm(5), Ymm(get(0)), Ymm(4));
        } else {
          vmovaps(Ymm(5), Ymm(get(0)));
        }
        vextractf128(Xmm(4), Ymm(5), 1);
        folded(op, x, Ymm(5), Ymm(4));
      }
      // Halves of two rows side by side, and then again.
      const auto halves = [&](int to, int a, int b) {
        vunpcklpd(Xmm(4), Xmm(a), Xmm(b));
        vunpckhpd(Xmm(5), Xmm(a), Xmm(b));
        folded(op, Ymm(to), Ymm(4), Ymm(5));
      };
      halves(6, 0, 1);
      if (!is_f64_) {
        halves(0, 2, 3);
        vshufps(Xmm(4), Xmm(6), Xmm(0), 0x88);
        vshufps(Xmm(5), Xmm(6), Xmm(0), 0xdd);
        folded(op, Ymm(6), Ymm(4), Ymm(5));
      }
      if (first == 0 && at_once < together_) vmovaps(Xmm(7), Xmm(6));
    }
    if (at_once == together_) return vmovups(in_slot(folds_[f].index, first_row_), Xmm(6));
    vinsertf128(Ymm(7), Ymm(7), Xmm(6), 1);
    vmovups(in_slot(folds_[f].index, first_row_), Ymm(7));
  }
  // Register 0 with register 1: whole vectors cost no more, and what is beyond does not count.
  void halved(LaneOp op) {
    folded(op, Ymm(2), Ymm(0), Ymm(1));
    vmovaps(Ymm(0), Ymm(2));
  }
  // What folds made of each block, to one.
  void finish_folds() {
    vzeroupper();
    for (const LaneStep& step : folds_) {
      const char* const name = with(step.op) == LaneOp::add   ? "reduce_sum"
                               : with(step.op) == LaneOp::max ? "reduce_max"
                                                              : "reduce_min";
      lea(rdi, ptr[r15 + parts_at_ + step.index * parts_size_]);
      mov(rsi, static_cast<std::uint64_t>(code_.columns));
      lea(rdx, in_slot(step.index));
      mov(rax, reinterpret_cast<std::uintptr_t>(fold_functions(name, code_.dtype).finish));
      call(rax);
    }
  }
  void fold_column(std::size_t id, const Ymm& x) override {
    const LaneStep& step = (*steps_)[id];
    const Ymm a = vector(temporary());
    const bool shared = step.bits == 0;
    if (const auto all = held_folds_.find({step.index, copies_[id]}); all != held_folds_.end()) {
      folded(step.op, a, vector(all->second), x);
      return vmovaps(vector(all->second), a);
    }
    const auto held = std::find(column_folds_.begin(), column_folds_.end(), step.index);
    if (shared && held != column_folds_.end()) {
      const auto which = static_cast<std::size_t>(held - column_folds_.begin());
      const std::size_t vector_of = which * row_vectors() + static_cast<std::size_t>(copies_[id]);
      const Ymm sum = vector(accumulator_register(num_accumulators() + vector_of));
      if (rows_[id] == first_row_) load_elements(sum, id, pointer(step.index), true);
      folded(step.op, a, sum, x);
      vmovaps(sum, a);
      if (rows_[id] == first_row_ + together_ - 1) store_elements(id, pointer(step.index), sum, true);
      return;
    }
    load_elements(a, id, pointer(step.index), shared);
    Ymm r = a;
    if (with(step.op) != LaneOp::add) r = vector(temporary());
    folded(step.op, r, a, x);
    store_elements(id, pointer(step.index), r, shared);
  }

  std::vector<LaneStep> folds_;                              // of the phase
  bool fetches_ = false;                                     // does the phase?
  bool is_straight_ = false;                                 // is a row no loop?
  std::int64_t accumulators_ = 0;                            // of a fold and row
  std::vector<std::uint32_t> column_folds_;                  // pointers: see find_column_folds
  std::map<std::pair<std::uint32_t, int>, int> held_folds_;  // of all rows: by pointer and vector a register
  std::vector<bool> fresh_;  // those that nothing was folded into yet, of rows together
};

}  // namespace

std::shared_ptr<const RowKernel> generate(const RowsCode& code, VectorUnits units) {
  const bool is_512 = units == VectorUnits::avx512;
  try {
    RowsGenerator generator(code, is_512);
    const std::span<const std::uint8_t> written = generator.write();
    const std::shared_ptr<const void> memory = written_again(generator, written, RowsGenerator(code, is_512));
    if (memory == nullptr) return nullptr;
    const auto function = reinterpret_cast<RowKernel::Function>(const_cast<void*>(memory.get()));
    return std::make_shared<const RowKernel>(code, function, generator.scratch_bytes(), memory);
  } catch (const Xbyak::Error&) {
    return nullptr;
  }
}

}  // namespace tidu::cpu_detail

#else

namespace tidu::cpu_detail {

std::shared_ptr<const RowKernel> generate(const RowsCode&, VectorUnits) { return nullptr; }

}  // namespace tidu::cpu_detail

#endif
