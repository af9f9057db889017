// rows_x86_folds.hpp - FoldAssembler: x86-64 code for reductions in row fusions, of each row to one element
// and of all rows to one row. Lanes beyond a partial vector hold the identity of the reduction.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cpu/groups/rows_x86.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {

class FoldAssembler : protected RowsAssembler {
 protected:
  using RowsAssembler::RowsAssembler;
  ~FoldAssembler() override = default;

  std::size_t row_vectors() const { return static_cast<std::size_t>((code_.columns + lanes_ - 1) / lanes_); }
  // Reductions of all rows stay in registers from the first row to the last, if there are enough.
  void find_column_folds() {
    column_folds_.clear();
    for (const VectorInst& step : *elements_) {
      if (is_column_fold(step.op) && step.bits == 0) column_folds_.push_back(step.index);
    }
    if (num_accumulators() + column_folds_.size() * row_vectors() > max_accumulators()) column_folds_.clear();
  }
  // Prepares accumulators for `count` elements of one row; they are marked as empty.
  void start_accumulators(std::int64_t count) {
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
  }
  static VectorOp with(VectorOp op) {
    if (op == VectorOp::fold_sum || op == VectorOp::column_sum) return VectorOp::add;
    return op == VectorOp::fold_max || op == VectorOp::column_max ? VectorOp::max : VectorOp::min;
  }
  // The identity: -0, or an infinity.
  std::uint64_t identity(VectorOp op) const {
    const VectorOp kind = with(op);
    if (kind == VectorOp::add) return sign_bit();
    const std::uint64_t infinity = is_f64_ ? 0x7ff0000000000000U : 0x7f800000U;
    return kind == VectorOp::max ? infinity | sign_bit() : infinity;
  }
  // r = the reduction of a and b; r is neither of them.
  void folded(VectorOp op, const Ymm& r, const Ymm& a, const Ymm& b) {
    if (with(op) == VectorOp::add) {
      is_f64_ ? vaddpd(r, a, b) : vaddps(r, a, b);
    } else {
      extremum(with(op), r, a, b);
    }
  }
  bool in_registers() const { return !calls_ && num_accumulators() <= max_accumulators(); }
  std::size_t num_accumulators() const {
    return folds_.size() * static_cast<std::size_t>(accumulators_ * together_);
  }
  // Accumulators take registers from the last one down, except the spare one.
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
  void fold(std::size_t id, Ymm x) override {
    const VectorInst& step = (*steps_)[id];
    std::size_t f = 0;
    while (folds_[f].index != step.index) ++f;
    const std::size_t i = accumulator(f, copies_[id] % accumulators_, rows_[id] - first_row_);
    if (!fresh_.empty() && fresh_[i]) {  // empty: as if it held the identity
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
    if (with(step.op) == VectorOp::add) {
      folded(step.op, a, a, x);
      if (!registers) vmovups(accumulator_memory(i), a);
    } else {
      const Ymm r = vector(temporary());
      folded(step.op, r, a, x);
      registers ? vmovaps(a, r) : vmovups(accumulator_memory(i), r);
    }
  }
  // Reduces all accumulators to one element, in lane 0 of register 0. No value is in a register.
  void combine(std::size_t f) {
    const VectorOp op = folds_[f].op;
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
  // As combine for all rows side by side, in registers, and stores their values. It handles as many rows at a
  // time as have elements in 16 bytes. All values are stored at once, since they are loaded next: two stores
  // would both have to reach the cache before that.
  void combine_rows(std::size_t f) {
    if (is_512_ && !is_f64_ && together_ == 8) return combine_eight_rows(f);
    const VectorOp op = folds_[f].op;
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
      // Puts halves of two rows side by side, and repeats that.
      const auto side_by_side = [&](int to, int a, int b) {
        vunpcklpd(Xmm(4), Xmm(a), Xmm(b));
        vunpckhpd(Xmm(5), Xmm(a), Xmm(b));
        folded(op, Ymm(to), Ymm(4), Ymm(5));
      };
      side_by_side(6, 0, 1);
      if (!is_f64_) {
        side_by_side(0, 2, 3);
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
  // As combine_rows for eight vectors of 16 elements. Each step halves the number of vectors: they hold
  // halves of two rows, quarters of four rows, and then two elements of each row.
  void combine_eight_rows(std::size_t f) {
    const VectorOp op = folds_[f].op;
    const auto row = [&](std::int64_t r) { return Zmm(accumulator_register(accumulator(f, 0, r))); };
    for (const auto& [a, b] : {std::pair(0, 2), std::pair(4, 6), std::pair(1, 3), std::pair(5, 7)}) {
      vinsertf64x4(Zmm(4), row(a), Ymm(row(b).getIdx()), 1);
      vshuff64x2(Zmm(5), row(a), row(b), 0xee);
      folded(op, row(a), Zmm(4), Zmm(5));
    }
    for (const auto& [a, b] : {std::pair(0, 4), std::pair(1, 5)}) {
      vshuff32x4(Zmm(4), row(a), row(b), 0x88);
      vshuff32x4(Zmm(5), row(a), row(b), 0xdd);
      folded(op, row(a), Zmm(4), Zmm(5));
    }
    vunpcklpd(Zmm(4), row(0), row(1));
    vunpckhpd(Zmm(5), row(0), row(1));
    folded(op, Zmm(0), Zmm(4), Zmm(5));
    vmovshdup(Zmm(4), Zmm(0));
    folded(op, Zmm(1), Zmm(0), Zmm(4));
    vpmovqd(Ymm(0), Zmm(1));  // the first of each two
    vmovups(in_slot(folds_[f].index, first_row_), Ymm(0));
  }
  // Reduces register 0 with register 1. Whole vectors cost no more; further lanes are ignored.
  void halved(VectorOp op) {
    folded(op, Ymm(2), Ymm(0), Ymm(1));
    vmovaps(Ymm(0), Ymm(2));
  }
  // Reduces the partial results of blocks to one.
  void finish_folds() {
    vzeroupper();
    for (const VectorInst& step : folds_) {
      const Primitive& reduction = with(step.op) == VectorOp::add   ? prim::reduce_sum
                                   : with(step.op) == VectorOp::max ? prim::reduce_max
                                                                    : prim::reduce_min;
      lea(rdi, ptr[r15 + parts_at_ + step.index * parts_size_]);
      mov(rsi, static_cast<std::uint64_t>(code_.columns));
      lea(rdx, in_slot(step.index));
      mov(rax, reinterpret_cast<std::uintptr_t>(fold_functions(reduction, code_.dtype).finish));
      call(rax);
    }
  }
  void fold_column(std::size_t id, const Ymm& x) override {
    const VectorInst& step = (*steps_)[id];
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
    if (with(step.op) != VectorOp::add) r = vector(temporary());
    folded(step.op, r, a, x);
    store_elements(id, pointer(step.index), r, shared);
  }

  std::vector<VectorInst> folds_;                            // of the phase
  std::int64_t accumulators_ = 0;                            // for one reduction and row
  std::vector<std::uint32_t> column_folds_;                  // pointers: see find_column_folds
  std::map<std::pair<std::uint32_t, int>, int> held_folds_;  // of all rows: by pointer and vector a register
  std::vector<bool> fresh_;                                  // empty accumulators, of all rows side by side
};

}  // namespace tidu::cpu_detail
