// rows_x86_reductions.hpp - reductions in row fusions: of each row to one element (x86::RowReductions), and
// of all rows to one row (x86::ColumnReductions).
//
// The elements come in tiles (rows_x86_tile.hpp). Lanes beyond a partial vector hold the identity of the
// reduction.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "cpu/fusion/reduce.hpp"
#include "cpu/fusion/rows_x86_memory.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail::x86 {

/// Reductions of rows. Each has a few accumulators, vectors with neighbouring elements, in registers if there
/// are enough and the phase calls no function, else in the scratch memory. When they are combined, no value
/// is in a register.
class RowReductions {
 public:
  RowReductions(Assembler& assembler, RegisterAllocator& registers, const RowTile& tile,
                const RowScratch& scratch, PartialVector& tail)
      : x_(assembler), registers_(registers), tile_(tile), scratch_(scratch), tail_(tail) {}

  /// The reductions of a phase.
  void begin(const RowsCode::Phase& phase) {
    reductions_ = row_reductions_of(phase);
    calls_ = calls_out(phase.elements);
  }
  bool empty() const { return reductions_.empty(); }
  /// Accumulators for one reduction and row.
  std::int64_t accumulators() const { return accumulators_; }
  /// Accumulators in all.
  std::size_t num_accumulators() const {
    return reductions_.size() * static_cast<std::size_t>(accumulators_ * tile_.rows());
  }

  /// Fills the accumulators for `count` elements of one row with the identity.
  void start(std::int64_t count) {
    constexpr std::int64_t long_line = 128;  // as in reductions.cpp
    accumulators_ = (count < long_line ? few_lanes : many_lanes) / x_.lanes();
    const bool registers = in_registers();
    registers_.reset_limit();
    if (registers) registers_.set_limit(accumulator_register(x_, num_accumulators() - 1));
    for (std::size_t f = 0; f < reductions_.size(); ++f) {
      const Source identity = reduction_.identity(reductions_[f].op);
      if (!registers) x_.vmovups(x_.vector(0), identity);
      for (std::int64_t k = 0; k < accumulators_; ++k) {
        const std::size_t i = accumulator(f, k);
        registers ? x_.vmovups(held(i), identity) : x_.vmovups(scratch_.accumulator(i), x_.vector(0));
      }
    }
  }
  /// Marks the accumulators of short rows side by side as empty, which is as if they held the identity. Rows
  /// have few_lanes elements (see can_reduce_rows), so a partial vector is the first of no accumulator.
  void start_rows() {
    accumulators_ = few_lanes / x_.lanes();
    empty_.assign(num_accumulators(), true);
  }

  /// A reduction of x, in sequence with other instructions.
  void emit(std::size_t id, Ymm x) {
    const VectorInst& step = registers_.steps()[id];
    std::size_t f = 0;
    while (reductions_[f].index != step.index) ++f;
    const std::size_t i = accumulator(f, tile_.vector(id) % accumulators_, tile_.row(id) - tile_.first_row());
    if (!empty_.empty() && empty_[i]) {
      empty_[i] = false;
      return x_.vmovaps(held(i), x);
    }
    if (tile_.is_partial(id)) {
      tail_.set_mask();
      const Ymm filled = x_.is_512() ? x_.spare() : registers_.temporary();
      x_.vmovups(filled, reduction_.identity(step.op));
      tail_.blend(filled, x);
      x = filled;
    }
    const bool registers = in_registers();
    const Ymm a = registers ? held(i) : registers_.temporary();
    if (!registers) x_.vmovups(a, scratch_.accumulator(i));
    const Ymm r = ReductionEmitter::is_sum(step.op) ? a : registers_.temporary();
    reduction_.reduce(step.op, r, a, x);
    if (!registers) return x_.vmovups(scratch_.accumulator(i), r);
    if (r.getIdx() != a.getIdx()) x_.vmovaps(a, r);
  }

  /// Stores the partial results of a block, which ends at r13.
  void store_block() {
    for (std::size_t f = 0; f < reductions_.size(); ++f) {
      combine(f);
      x_.mov(rax, r13);
      x_.shr(rax, 10);
      const std::size_t part =
          scratch_.parts(reductions_[f].index) - static_cast<std::size_t>(x_.element_bytes());
      x_.store_element(ptr[r15 + rax * x_.element_bytes() + part], x_.vector(0));
    }
  }
  /// Stores the results of what follows `blocks` blocks: partial ones, if there are any blocks.
  void store_rest(std::int64_t blocks) {
    for (std::size_t f = 0; f < reductions_.size(); ++f) {
      combine(f);
      const std::size_t part =
          scratch_.parts(reductions_[f].index) + static_cast<std::size_t>(blocks * x_.element_bytes());
      x_.store_element(blocks > 0 ? ptr[r15 + part] : scratch_.slot(reductions_[f].index), x_.vector(0));
    }
  }
  /// Reduces the partial results of blocks to one.
  void finish_blocks() {
    x_.vzeroupper();
    for (const VectorInst& step : reductions_) {
      const VectorOp instruction = ReductionEmitter::instruction(step.op);
      const Primitive& reduction = instruction == VectorOp::add   ? prim::reduce_sum
                                   : instruction == VectorOp::max ? prim::reduce_max
                                                                  : prim::reduce_min;
      x_.lea(rdi, ptr[r15 + scratch_.parts(step.index)]);
      x_.mov(rsi, static_cast<std::uint64_t>(tile_.columns()));
      x_.lea(rdx, scratch_.slot(step.index));
      x_.call_function(reinterpret_cast<const void*>(reduction_functions(reduction, x_.dtype()).finish));
    }
  }
  /// Stores the results of rows side by side.
  void finish_rows() {
    empty_.clear();
    for (std::size_t f = 0; f < reductions_.size(); ++f) {
      x_.is_512() && !x_.is_f64() && tile_.rows() == 8 ? combine_eight_rows(f) : combine_rows(f);
    }
  }

 private:
  bool in_registers() const { return !calls_ && num_accumulators() <= max_accumulators(x_); }
  Ymm held(std::size_t i) const { return x_.vector(accumulator_register(x_, i)); }
  std::size_t accumulator(std::size_t f, std::int64_t k, std::int64_t row = 0) const {
    const std::size_t of_row = f * static_cast<std::size_t>(tile_.rows()) + static_cast<std::size_t>(row);
    return of_row * static_cast<std::size_t>(accumulators_) + static_cast<std::size_t>(k);
  }
  // Reduces all accumulators to one element, in lane 0 of register 0.
  void combine(std::size_t f) {
    const VectorOp op = reductions_[f].op;
    const bool registers = in_registers();
    const auto get = [&](std::int64_t k, int into) {
      const std::size_t i = accumulator(f, k);
      if (registers) return held(i);
      x_.vmovups(x_.vector(into), scratch_.accumulator(i));
      return x_.vector(into);
    };
    for (std::int64_t step = accumulators_ / 2; step > 0; step /= 2) {
      for (std::int64_t k = 0; k < step; ++k) {
        const Ymm a = get(k, 0), b = get(k + step, 1), r = x_.vector(2);
        reduction_.reduce(op, r, a, b);
        registers ? x_.vmovaps(a, r) : x_.vmovups(scratch_.accumulator(accumulator(f, k)), r);
      }
    }
    const Ymm all = get(0, 0);
    if (all.getIdx() != 0) x_.vmovaps(x_.vector(0), all);
    reduction_.reduce_lanes(op, Ymm(2), Ymm(0), Ymm(1));
  }
  // As combine for all rows side by side, in registers, and stores their values. It handles as many rows at a
  // time as have elements in 16 bytes. All values are stored at once, since they are loaded next: two stores
  // would both have to reach the cache before that.
  void combine_rows(std::size_t f) {
    const VectorOp op = reductions_[f].op;
    const std::int64_t at_once = 16 / x_.element_bytes();
    for (std::int64_t first = 0; first < tile_.rows(); first += at_once) {
      for (std::int64_t row = 0; row < at_once; ++row)
        combine_row(f, first + row, Ymm(static_cast<int>(row)));
      // Puts halves of two rows side by side, and repeats that.
      const auto side_by_side = [&](int to, int a, int b) {
        x_.vunpcklpd(Xmm(4), Xmm(a), Xmm(b));
        x_.vunpckhpd(Xmm(5), Xmm(a), Xmm(b));
        reduction_.reduce(op, Ymm(to), Ymm(4), Ymm(5));
      };
      side_by_side(6, 0, 1);
      if (!x_.is_f64()) {
        side_by_side(0, 2, 3);
        x_.vshufps(Xmm(4), Xmm(6), Xmm(0), 0x88);
        x_.vshufps(Xmm(5), Xmm(6), Xmm(0), 0xdd);
        reduction_.reduce(op, Ymm(6), Ymm(4), Ymm(5));
      }
      if (first == 0 && at_once < tile_.rows()) x_.vmovaps(Xmm(7), Xmm(6));
    }
    const Address to = scratch_.slot(reductions_[f].index, tile_.first_row());
    if (at_once == tile_.rows()) return x_.vmovups(to, Xmm(6));
    x_.vinsertf128(Ymm(7), Ymm(7), Xmm(6), 1);
    x_.vmovups(to, Ymm(7));
  }
  // Reduces a row's accumulators to 16 bytes, in x.
  void combine_row(std::size_t f, std::int64_t row, const Ymm& x) {
    const VectorOp op = reductions_[f].op;
    const auto get = [&](std::int64_t k) { return accumulator_register(x_, accumulator(f, k, row)); };
    for (std::int64_t step = accumulators_ / 2; step > 0; step /= 2) {
      for (std::int64_t k = 0; k < step; ++k) {
        reduction_.reduce(op, x_.vector(4), x_.vector(get(k)), x_.vector(get(k + step)));
        x_.vmovaps(x_.vector(get(k)), x_.vector(4));
      }
    }
    if (x_.is_512()) {
      x_.vextractf64x4(Ymm(4), Zmm(get(0)), 1);
      reduction_.reduce(op, Ymm(5), Ymm(get(0)), Ymm(4));
    } else {
      x_.vmovaps(Ymm(5), Ymm(get(0)));
    }
    x_.vextractf128(Xmm(4), Ymm(5), 1);
    reduction_.reduce(op, x, Ymm(5), Ymm(4));
  }
  // As combine_rows for eight vectors of 16 elements. Each step halves the number of vectors: they hold
  // halves of two rows, quarters of four rows, and then two elements of each row.
  void combine_eight_rows(std::size_t f) {
    const VectorOp op = reductions_[f].op;
    const auto row = [&](std::int64_t r) { return Zmm(accumulator_register(x_, accumulator(f, 0, r))); };
    for (const auto& [a, b] : {std::pair(0, 2), std::pair(4, 6), std::pair(1, 3), std::pair(5, 7)}) {
      x_.vinsertf64x4(Zmm(4), row(a), Ymm(row(b).getIdx()), 1);
      x_.vshuff64x2(Zmm(5), row(a), row(b), 0xee);
      reduction_.reduce(op, row(a), Zmm(4), Zmm(5));
    }
    for (const auto& [a, b] : {std::pair(0, 4), std::pair(1, 5)}) {
      x_.vshuff32x4(Zmm(4), row(a), row(b), 0x88);
      x_.vshuff32x4(Zmm(5), row(a), row(b), 0xdd);
      reduction_.reduce(op, row(a), Zmm(4), Zmm(5));
    }
    x_.vunpcklpd(Zmm(4), row(0), row(1));
    x_.vunpckhpd(Zmm(5), row(0), row(1));
    reduction_.reduce(op, Zmm(0), Zmm(4), Zmm(5));
    x_.vmovshdup(Zmm(4), Zmm(0));
    reduction_.reduce(op, Zmm(1), Zmm(0), Zmm(4));
    x_.vpmovqd(Ymm(0), Zmm(1));  // the first of each two
    x_.vmovups(scratch_.slot(reductions_[f].index, tile_.first_row()), Ymm(0));
  }

  Assembler& x_;
  RegisterAllocator& registers_;
  const RowTile& tile_;
  const RowScratch& scratch_;
  PartialVector& tail_;
  ReductionEmitter reduction_{x_};
  std::vector<VectorInst> reductions_;  // of the phase
  bool calls_ = false;                  // does the phase have calls?
  std::int64_t accumulators_ = 0;       // for one reduction and row
  std::vector<bool> empty_;             // accumulators of rows side by side
};

/// Reductions of columns: into elements that all rows share, or into those of the row. Shared ones stay in
/// registers for all rows, or from the first to the last row of a tile, if there are enough.
class ColumnReductions {
 public:
  ColumnReductions(Assembler& assembler, RegisterAllocator& registers, const RowTile& tile, RowMemory& memory,
                   const HeldColumns& held)
      : x_(assembler), registers_(registers), tile_(tile), memory_(memory), held_(held) {}

  /// Finds the shared reductions that stay in registers for a tile, after `first` accumulators. Returns the
  /// number of registers.
  std::size_t start_tile(const std::vector<VectorInst>& elements, std::size_t first) {
    first_ = first;
    for (const VectorInst& step : elements) {
      if (is_column_reduction(step.op) && step.bits == 0) in_tile_.push_back(step.index);
    }
    if (first + num_registers() > max_accumulators(x_)) in_tile_.clear();
    return num_registers();
  }
  void finish_tile() { in_tile_.clear(); }

  /// A reduction of x, in sequence with other instructions.
  void emit(std::size_t id, const Ymm& x) {
    const VectorInst& step = registers_.steps()[id];
    const Ymm r = registers_.temporary();
    const bool is_shared = step.bits == 0;
    if (const std::optional<Ymm> held = held_.find({step.index, tile_.vector(id)}))
      return accumulate(step.op, *held, x, r);
    const auto in_tile = std::find(in_tile_.begin(), in_tile_.end(), step.index);
    if (is_shared && in_tile != in_tile_.end()) {
      const auto index = (in_tile - in_tile_.begin()) * tile_.num_vectors() + tile_.vector(id);
      const Ymm sum = x_.vector(accumulator_register(x_, first_ + static_cast<std::size_t>(index)));
      if (tile_.is_first_row(id)) memory_.load_elements(sum, id, step.index, true);
      accumulate(step.op, sum, x, r);
      if (tile_.is_last_row(id)) memory_.store_elements(id, step.index, sum, true);
      return;
    }
    memory_.load_elements(r, id, step.index, is_shared);
    const Ymm sum = ReductionEmitter::is_sum(step.op) ? r : registers_.temporary();
    reduction_.reduce(step.op, sum, r, x);
    memory_.store_elements(id, step.index, sum, is_shared);
  }

 private:
  std::size_t num_registers() const {
    return in_tile_.size() * static_cast<std::size_t>(tile_.num_vectors());
  }
  void accumulate(VectorOp op, const Ymm& sum, const Ymm& x, const Ymm& scratch) {
    reduction_.reduce(op, scratch, sum, x);
    x_.vmovaps(sum, scratch);
  }

  Assembler& x_;
  RegisterAllocator& registers_;
  const RowTile& tile_;
  RowMemory& memory_;
  const HeldColumns& held_;  // for all rows
  ReductionEmitter reduction_{x_};
  std::vector<std::uint32_t> in_tile_;  // pointers
  std::size_t first_ = 0;               // accumulators before theirs
};

}  // namespace tidu::cpu_detail::x86
