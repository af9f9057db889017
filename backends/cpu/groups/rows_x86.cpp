// rows_x86.cpp - code for rows on x86-64: a loop over rows, and in it one over the elements of each phase.
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

#include "cpu/groups/rows_x86_folds.hpp"

namespace tidu::cpu_detail {
namespace {

class RowsGenerator : private FoldAssembler {
 public:
  RowsGenerator(const RowsCode& code, bool is_512) : FoldAssembler(code, is_512) {}
  using FoldAssembler::hold_by;
  using FoldAssembler::take_sections;
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
    for (halves_ = 2; max_together_ > 1 && halves_ > 0; --halves_) {
      together_ = max_together_;
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
    if (max_together_ > 1) {
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
    constexpr std::size_t max_vectors = 16, max_steps = 256;
    constexpr std::int64_t many_rows = 16;
    if (code_.phases.size() != 1) return;
    const std::vector<VectorInst>& steps = code_.phases[0].elements;
    is_straight_ = row_vectors() <= max_vectors && !calls_out(steps) && code_.phases[0].row.empty() &&
                   steps.size() * row_vectors() <= max_steps &&
                   std::none_of(steps.begin(), steps.end(), [](const VectorInst& step) {
                     return is_fold(step.op) || (is_column_fold(step.op) && step.bits != 0);
                   });
    const auto folds = static_cast<std::size_t>(std::count_if(
        steps.begin(), steps.end(), [](const VectorInst& step) { return is_column_fold(step.op); }));
    is_straight_ = is_straight_ && folds * row_vectors() <= max_accumulators() / 2;
    if (!is_straight_) return;
    const int last = is_512_ ? 16 : 9;  // of the registers that are held
    limit_ = is_512_ ? num_registers_ : spare_register;
    begin_shared();
    for (const VectorInst& step : steps) {
      if (!is_column_fold(step.op)) continue;
      for (int v = 0; v < static_cast<int>(row_vectors()); ++v)
        held_folds_.emplace(std::pair(step.index, v), held_vector(step.index, v));
    }
    if (is_512_ && columns_left() != 0) set_tail();
    tail_is_set_ = true;
    const auto count = static_cast<int>(row_vectors());
    for (const VectorInst& step : steps) {
      if (step.op != VectorOp::load_column || limit_ - count < last ||
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
    is_halved_ = is_512_ && together_ > 1 && !calls_out(phase.row);  // of rows together, at most 32 bytes
    begin(phase.row);
    for (std::size_t i = 0; i < phase.row.size(); ++i) step(i);
    of_row_ = is_halved_ = false;
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
    const std::vector<VectorInst> steps = laid_out(count);
    for (std::int64_t copy = 0; fetches_ && copy < count - (masked ? 1 : 0); ++copy) fetch_next(copy);
    begin(steps);
    for (std::size_t i = 0; i < steps.size(); ++i) step(i);
  }

  void fold_stretch(std::int64_t count) {
    start_accumulators(count);
    begin_section(calls_ ? 0 : count / (accumulators_ * lanes_));
    stretch(count, accumulators_, accumulators_);
    end_section();
  }

  bool fetches_ = false;      // does the phase?
  bool is_straight_ = false;  // is a row no loop?
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
