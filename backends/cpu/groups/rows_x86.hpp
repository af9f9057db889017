// rows_x86.hpp - RowsAssembler: x86-64 code for the loads and stores of row fusions.
//
// Registers: r12 pointers, r15 scratch memory, rbx the row, r13 the element within the row, r14 the element
// within the matrix. The scratch memory holds: values of the row, a vector each with equal lanes;
// accumulators that are not in registers; partial reductions of each 1024 elements of longer rows; values
// kept for the row; and the addresses of gathered rows.
//
// A partial vector is loaded and stored with a mask. The number of columns is a constant of the code, and so
// is the number of vectors.
#pragma once

#include <algorithm>
#include <set>

#include "cpu/groups/reduce.hpp"
#include "cpu/groups/rows.hpp"
#include "cpu/groups/vector_x86.hpp"

namespace tidu::cpu_detail {

class RowsAssembler : protected VectorAssembler {
 protected:
  RowsAssembler(const RowsCode& code, bool is_512)
      : VectorAssembler(code.dtype, is_512), code_(code), lanes_(vector_ / element_), num_registers_(limit_) {
    find_together();
    const std::int64_t blocks = (code.columns + fold_block - 1) / fold_block;
    parts_at_ = code.num_slots * line;
    parts_size_ = blocks > 1 ? aligned(static_cast<std::size_t>(blocks * element_)) : 0;
    accumulators_at_ = parts_at_ + code.num_slots * parts_size_;
    std::size_t folds = 0;
    for (const RowsCode::Phase& phase : code.phases) folds = std::max(folds, folds_of(phase).size());
    kept_at_ = accumulators_at_ + folds * static_cast<std::size_t>(many_lanes * element_);
    kept_size_ = aligned(static_cast<std::size_t>(code.columns * element_)) + line;
    picks_at_ = kept_at_ + code.num_kept * kept_size_ * static_cast<std::size_t>(max_rows());
    scratch_ = picks_at_ + aligned(code.picks.size() * sizeof(void*));
  }

  static constexpr std::size_t line = 64;
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + line - 1) / line * line; }
  static bool is_fold(VectorOp op) { return op >= VectorOp::fold_sum && op <= VectorOp::fold_min; }
  static bool is_column_fold(VectorOp op) { return op >= VectorOp::column_sum && op <= VectorOp::column_min; }
  // Equal for all vectors; equal for all vectors of a row.
  static bool is_same(VectorOp op) {
    return op == VectorOp::immediate || op == VectorOp::splat || op == VectorOp::splat_mask;
  }
  static bool is_same_in_row(VectorOp op) {
    return op == VectorOp::slot || op == VectorOp::slot_mask || op == VectorOp::splat_row;
  }
  // As in folds.cpp.
  static constexpr std::int64_t long_line = 128;
  static constexpr std::int64_t few_lanes = 16, many_lanes = 64;

  static std::vector<VectorInst> folds_of(const RowsCode::Phase& phase) {
    std::vector<VectorInst> folds;
    for (const VectorInst& step : phase.elements) {
      if (is_fold(step.op)) folds.push_back(step);
    }
    return folds;
  }
  // Sets the number of rows that are processed side by side: as many as fill a register of some width.
  void find_together() {
    constexpr std::int64_t max_vectors = 4;  // of a row
    constexpr std::size_t max_steps = 640;   // of these rows together
    const std::int64_t vectors = (code_.columns + lanes_ - 1) / lanes_;
    std::size_t folds = 0, steps = 0;
    bool calls = false;
    for (const RowsCode::Phase& phase : code_.phases) {
      folds = std::max(folds, folds_of(phase).size());
      steps += phase.elements.size();
      calls = calls || calls_out(phase.elements);
    }
    if (folds == 0 || calls || vectors > max_vectors || !code_.picks.empty()) return;
    const std::size_t accumulators = folds * static_cast<std::size_t>(few_lanes / lanes_);
    for (const int bytes : {32, 16}) {
      const std::int64_t rows = bytes / element_;
      const auto count = static_cast<std::size_t>(rows);
      if (rows * vectors > 16 || count * accumulators > max_accumulators()) continue;
      if (count * static_cast<std::size_t>(vectors) * steps > max_steps) continue;
      max_together_ = rows;
      return;
    }
  }
  bool has_streams() const {
    const auto streams = [](const VectorInst& step) { return step.op == VectorOp::stream; };
    return std::any_of(code_.phases.begin(), code_.phases.end(), [&](const RowsCode::Phase& phase) {
      return std::any_of(phase.elements.begin(), phase.elements.end(), streams);
    });
  }
  // The maximum number of rows with live or kept values.
  std::int64_t max_rows() const { return max_together_ > 1 ? 2 * max_together_ : 1; }
  std::size_t max_accumulators() const { return is_512_ ? 16U : 8U; }
  int columns_left() const { return static_cast<int>(code_.columns % lanes_); }

  // A reduction, in sequence with other instructions.
  virtual void fold(std::size_t id, Ymm x) = 0;
  virtual void fold_column(std::size_t id, const Ymm& x) = 0;

  // The phase's instructions for `count` vectors of each row that is processed side by side.
  std::vector<VectorInst> laid_out(std::int64_t count) {
    std::vector<VectorInst> steps;
    copies_.clear();
    rows_.clear();
    const std::size_t length = elements_->size();
    const std::int64_t copies = together_ * count;
    std::vector<std::uint16_t> at(length * static_cast<std::size_t>(copies));
    const auto put = [&](std::size_t i, std::int64_t copy) {
      VectorInst step = (*elements_)[i];
      std::uint16_t* const own = at.data() + static_cast<std::size_t>(copy) * length;
      if ((is_same(step.op) && copy > 0) || (is_same_in_row(step.op) && copy % count > 0)) {
        own[i] = at[static_cast<std::size_t>(copy - 1) * length + i];
        return;
      }
      for (std::uint16_t* x : {&step.a, &step.b, &step.c}) {
        if (*x != no_register) *x = own[*x];
      }
      own[i] = static_cast<std::uint16_t>(steps.size());
      steps.push_back(step);
      copies_.push_back(static_cast<int>(copy % count));
      rows_.push_back(first_row_ + copy / count);
    };
    // Two by two if there are many registers, since neither then waits for the other.
    const std::int64_t some = is_512_ && !calls_ ? 2 : 1;
    for (std::int64_t first = 0; first < copies; first += some) {
      for (std::size_t i = 0; i < length; ++i) {
        for (std::int64_t copy = first; copy < std::min(copies, first + some); ++copy) put(i, copy);
      }
    }
    return steps;
  }
  // Keeps the pointers of the phase in registers that calls do not use.
  void cache_pointers() {
    cached_.clear();
    cached_picks_.clear();
    if (calls_) return;
    std::vector<Xbyak::Reg64> free = {r8, r9, r10, r11, rcx, rsi, rdi};
    for (const VectorInst& step : *elements_) {
      if (free.empty()) return;
      if (step.op == VectorOp::load_picked && cached_picks_.find(step.index) == cached_picks_.end()) {
        cached_picks_.emplace(step.index, free.back());
        mov(free.back(), in_picks(step.index));
        free.pop_back();
        continue;
      }
      const bool reads = step.op <= VectorOp::splat_row;
      const bool writes = step.op == VectorOp::store || step.op == VectorOp::stream ||
                          step.op == VectorOp::store_mask || is_column_fold(step.op);
      if (!(reads || writes) || cached_.find(step.index) != cached_.end()) continue;
      cached_.emplace(step.index, free.back());
      mov(free.back(), ptr[r12 + 8 * static_cast<std::size_t>(step.index)]);
      free.pop_back();
    }
  }
  // May write rax.
  Xbyak::Reg64 pointer(std::uint32_t index) {
    const auto it = cached_.find(index);
    if (it != cached_.end()) return it->second;
    mov(rax, ptr[r12 + 8 * static_cast<std::size_t>(index)]);
    return rax;
  }

  Address in_picks(std::uint32_t index) { return ptr[r15 + picks_at_ + index * sizeof(void*)]; }
  // As pointer(), for a gathered row.
  Xbyak::Reg64 picked(std::uint32_t index) {
    const auto it = cached_picks_.find(index);
    if (it != cached_picks_.end()) return it->second;
    mov(rax, in_picks(index));
    return rax;
  }
  // Sets rax to the row that an index selects.
  void find_named(const RowsCode::Pick& pick) {
    mov(rax, ptr[r12 + 8 * static_cast<std::size_t>(pick.indices)]);
    if (pick.wide) {
      mov(rax, ptr[rax + rbx * 8]);
    } else {
      movsxd(rax, dword[rax + rbx * 4]);
    }
    xor_(edx, edx);
    test(rax, rax);
    cmovs(rax, rdx);
    mov(rdx, static_cast<std::uint64_t>(pick.rows - 1));
    cmp(rax, rdx);
    cmovg(rax, rdx);
  }
  // Sets rax to the row that is repeated here. Division of few bits is much faster on older processors.
  void find_repeated(const RowsCode::Pick& pick) {
    const std::int64_t rows = pick.rows / pick.together * pick.every;
    const bool is_few = rows < std::int64_t{1} << 31U;
    const auto divide = [&](std::int64_t by) {  // divides rax; remainder in rdx
      mov(rcx, static_cast<std::uint64_t>(by));
      xor_(edx, edx);
      is_few ? div(ecx) : div(rcx);
    };
    mov(rax, rbx);
    divide(pick.every);
    if (pick.together == 1) return;
    mov(rsi, rax);
    mov(rax, rdx);
    divide(pick.together);
    mov(rax, rsi);
    mov(rcx, static_cast<std::uint64_t>(pick.together));
    imul(rax, rcx);
    add(rax, rdx);
  }
  // Stores the addresses of the rows that are gathered for this row. No pointer is in a register.
  void find_picked() {
    for (std::uint32_t i = 0; i < code_.picks.size(); ++i) {
      const RowsCode::Pick& pick = code_.picks[i];
      pick.is_repeated() ? find_repeated(pick) : find_named(pick);
      mov(rdx, static_cast<std::uint64_t>(code_.columns * element_));
      imul(rax, rdx);
      add(rax, ptr[r12 + 8 * static_cast<std::size_t>(pick.array)]);
      mov(in_picks(i), rax);
    }
  }

  bool is_masked(std::size_t id) const { return copies_[id] == masked_copy_; }
  int virtual_register_of(std::size_t id) const { return copies_[id] * lanes_; }
  // Do the remaining columns fill a smaller register? That needs no mask, and a later load can read the
  // stored bytes at once, also together with the bytes after them.
  bool is_exact() const { return columns_left() * element_ == 16 || columns_left() * element_ == 32; }
  Xmm exact(const Ymm& x) const {
    return columns_left() * element_ == 32 ? Ymm(x.getIdx()) : Xmm(x.getIdx());
  }
  void set_tail() {
    if (is_512_ && tail_is_set_) return;
    if (is_512_) {
      mov(eax, (1U << static_cast<unsigned>(columns_left())) - 1);
      kmovd(k2, eax);
    } else {
      uses_tail_ = true;
      vmovups(spare(), ptr[rip + tail_mask_]);
    }
  }
  // Bytes from the registers' addresses to the instruction's vector.
  std::size_t offset_of(std::size_t id) const {
    return static_cast<std::size_t>(virtual_register_of(id) * element_);
  }
  // As offset_of for elements of a matrix; in elements.
  std::size_t elements_to(std::size_t id) const {
    return static_cast<std::size_t>(rows_[id] * code_.columns + virtual_register_of(id));
  }
  Address in_matrix(std::size_t id, const Xbyak::Reg64& from) {
    return ptr[from + r14 * element_ + elements_to(id) * static_cast<std::size_t>(element_)];
  }
  Address in_columns(std::size_t id, const Xbyak::Reg64& from) {
    return ptr[from + r13 * element_ + offset_of(id)];
  }
  Address in_kept(std::size_t id, std::uint32_t index) {
    const auto array = static_cast<std::size_t>(index * max_rows() + rows_[id]);
    return ptr[r15 + r13 * element_ + (kept_at_ + array * kept_size_ + offset_of(id))];
  }
  // A value of the first of the rows side by side, and of row `row` of them.
  Address in_slot(std::uint32_t index, std::int64_t row = 0) {
    return ptr[r15 + (index * line + static_cast<std::size_t>(row * element_))];
  }
  Address of_row(std::size_t id, const Xbyak::Reg64& from) {
    return ptr[from + rbx * element_ + static_cast<std::size_t>(rows_[id] * element_)];
  }
  // The part of a register that has one element of each row.
  Xmm of_rows(const Ymm& x) const { return together_ * element_ == 32 ? Ymm(x.getIdx()) : Xmm(x.getIdx()); }

  bool is_late(VectorOp op) const override { return op <= VectorOp::immediate; }
  bool can_load_again(std::size_t id) const override { return (*steps_)[id].op <= VectorOp::immediate; }

  // Prefetches the next row of each array, once for each row, since hardware prefetchers stop at page
  // boundaries. This is done in the longest phase, in which memory and core work at the same time. The target
  // is not the nearest cache, which is full of the present row.
  void find_fetched() {
    constexpr std::int64_t long_row = 1024, too_long = std::int64_t{1} << 16;  // bytes
    if (code_.columns * element_ < long_row || code_.columns * element_ > too_long) return;
    std::set<std::uint32_t> fetched;
    std::size_t longest = 0;
    for (const RowsCode::Phase& phase : code_.phases) {
      constexpr std::size_t call = 20;  // cost of a call in instructions
      std::size_t length = 0;
      for (const VectorInst& step : phase.elements) {
        length += step.op == VectorOp::call ? call : 1;
        if (step.op == VectorOp::load || step.op == VectorOp::store) fetched.insert(step.index);
      }
      if (length > longest) fetching_ = &phase;
      longest = std::max(longest, length);
    }
    fetched_.assign(fetched.begin(), fetched.end());
  }
  // For vector `copy` after r13.
  void fetch_next(std::int64_t copy) {
    const auto at = static_cast<std::size_t>(copy * lanes_ * element_);
    if (at % line != 0) return;
    const std::size_t next = at + static_cast<std::size_t>(code_.columns * element_);
    for (const std::uint32_t index : fetched_) prefetcht1(ptr[pointer(index) + r14 * element_ + next]);
  }
  void load_elements(const Ymm& to, std::size_t id, const Xbyak::Reg64& from, bool columns) {
    const auto address = [&] { return columns ? in_columns(id, from) : in_matrix(id, from); };
    if (!is_masked(id)) return vmovups(to, address());
    if (is_exact()) return vmovups(exact(to), address());  // zeros the rest
    if (is_512_) {
      // Setting the mask register overwrites rax, which may hold the pointer.
      const Xbyak::Reg64 safe = from.getIdx() == rax.getIdx() ? rdx : from;
      if (from.getIdx() == rax.getIdx()) mov(rdx, rax);
      set_tail();
      const Address at = columns ? in_columns(id, safe) : in_matrix(id, safe);
      return is_f64_ ? vmovupd(to | k2 | T_z, at) : vmovups(to | k2 | T_z, at);
    }
    set_tail();
    is_f64_ ? vmaskmovpd(to, spare(), address()) : vmaskmovps(to, spare(), address());
  }
  void load_mask_bytes(const Ymm& to, std::size_t id, const Xbyak::Reg64& from) {
    const std::size_t offset = elements_to(id);
    if (!is_masked(id)) {
      is_f64_ ? vpmovzxbq(to, ptr[from + r14 + offset]) : vpmovzxbd(to, ptr[from + r14 + offset]);
    } else {
      const Xmm bytes(spare_register);
      is_512_ ? vpxord(bytes, bytes, bytes) : vpxor(bytes, bytes, bytes);
      for (int i = 0; i < columns_left(); ++i)
        vpinsrb(bytes, bytes, ptr[from + r14 + offset + static_cast<std::size_t>(i)],
                static_cast<std::uint8_t>(i));
      is_f64_ ? vpmovzxbq(to, bytes) : vpmovzxbd(to, bytes);
    }
    to_mask(to);
  }
  void load(std::size_t id, int reg) override {
    const VectorInst& step = (*steps_)[id];
    const Ymm to = vector(reg);
    switch (step.op) {
      case VectorOp::immediate: return vmovups(to, constant(step.bits));
      case VectorOp::slot:
      case VectorOp::slot_mask: return load_row(to, in_slot(step.index, rows_[id]));
      case VectorOp::kept:
      case VectorOp::kept_mask: return vmovups(to, in_kept(id, step.index));
      case VectorOp::load: {
        const Xbyak::Reg64 from = pointer(step.index);
        return load_elements(to, id, from, false);
      }
      case VectorOp::load_column: {
        const auto held = held_columns_.find({step.index, copies_[id]});
        if (held != held_columns_.end()) return vmovaps(to, vector(held->second));
        ++column_uses_[{step.index, copies_[id]}];
        return load_elements(to, id, pointer(step.index), true);
      }
      case VectorOp::load_picked: return load_elements(to, id, picked(step.index), true);
      case VectorOp::load_mask: return load_mask_bytes(to, id, pointer(step.index));
      case VectorOp::splat_row: return load_row(to, of_row(id, pointer(step.index)));
      case VectorOp::splat: return broadcast(to, ptr[pointer(step.index)]);
      default: break;
    }
    movzx(eax, byte[pointer(step.index)]);  // splat_mask
    vmovd(Xmm(spare_register), eax);
    is_f64_ ? vpbroadcastq(to, Xmm(spare_register)) : vpbroadcastd(to, Xmm(spare_register));
    to_mask(to);
  }
  void broadcast(const Ymm& to, const Xbyak::Operand& from) {
    is_f64_ ? vbroadcastsd(to, from) : vbroadcastss(to, from);
  }

  // Loads a value of the row into every lane; in instructions on values of the row, each row's value into its
  // own lane.
  void load_row(const Ymm& to, const Address& from) {
    if (!of_row_ || together_ == 1) return broadcast(to, from);
    // Lanes beyond the rows repeat values, since functions are slow for zeros that belong to no row.
    const auto bytes = static_cast<int>(together_) * element_;
    if (bytes == (is_halved_ ? vector_ / 2 : vector_)) return vmovups(to, from);
    if (bytes == 32) return vbroadcastf64x4(Zmm(to.getIdx()), from);
    is_512_ ? vbroadcastf32x4(to, from) : vbroadcastf128(to, from);
  }
  void store_rows(const Address& to, const Ymm& x) {
    together_ > 1 ? vmovups(to, of_rows(x)) : store_element(to, x);
  }
  void store_element(const Address& to, const Ymm& x) {
    is_f64_ ? vmovsd(to, Xmm(x.getIdx())) : vmovss(to, Xmm(x.getIdx()));
  }

  void store(std::size_t id) override {
    const VectorInst& step = (*steps_)[id];
    const Ymm x = in_register(step.a);
    switch (step.op) {
      case VectorOp::store: {
        const Xbyak::Reg64 into = pointer(step.index);
        return store_elements(id, into, x, false);
      }
      case VectorOp::stream: return vmovntps(in_matrix(id, pointer(step.index)), x);
      case VectorOp::store_mask: return store_mask_bytes(id, pointer(step.index), x);
      case VectorOp::keep: return vmovups(in_kept(id, step.index), x);
      case VectorOp::set_slot: return store_rows(in_slot(step.index, rows_[id]), x);
      case VectorOp::store_row: return store_rows(of_row(id, pointer(step.index)), x);
      default: break;
    }
    is_fold(step.op) ? fold(id, x) : fold_column(id, x);
  }
  void store_elements(std::size_t id, const Xbyak::Reg64& to, const Ymm& x, bool columns) {
    const auto address = [&](const Xbyak::Reg64& at) {
      return columns ? in_columns(id, at) : in_matrix(id, at);
    };
    if (!is_masked(id)) return vmovups(address(to), x);
    if (is_exact()) return vmovups(address(to), exact(x));
    if (is_512_) {
      const Xbyak::Reg64 safe = to.getIdx() == rax.getIdx() ? rdx : to;
      if (to.getIdx() == rax.getIdx()) mov(rdx, rax);
      set_tail();
      return is_f64_ ? vmovupd(address(safe) | k2, x) : vmovups(address(safe) | k2, x);
    }
    set_tail();
    is_f64_ ? vmaskmovpd(address(to), spare(), x) : vmaskmovps(address(to), spare(), x);
  }
  void store_mask_bytes(std::size_t id, const Xbyak::Reg64& to, const Ymm& x) {
    const std::size_t offset = elements_to(id);
    const Xmm bytes = to_bytes(x);
    if (is_masked(id)) {
      for (int i = 0; i < columns_left(); ++i)
        vpextrb(ptr[to + r14 + offset + static_cast<std::size_t>(i)], bytes, static_cast<std::uint8_t>(i));
      return;
    }
    switch (lanes_) {
      case 16: return vmovdqu8(ptr[to + r14 + offset], bytes);
      case 8: return vmovq(ptr[to + r14 + offset], bytes);
      default: return vmovd(ptr[to + r14 + offset], bytes);
    }
  }

  // Emitted after the code.
  void tail_mask() {
    if (!uses_tail_) return;
    align(64);
    L(tail_mask_);
    for (int i = 0; i < lanes_; ++i) {
      for (int k = 0; k < element_ / 4; ++k) dd(i < columns_left() ? 0xffffffffU : 0U);
    }
  }

  const RowsCode& code_;
  const int lanes_;
  const int num_registers_;
  std::size_t parts_at_ = 0, parts_size_ = 0, accumulators_at_ = 0, kept_at_ = 0, kept_size_ = 0;
  std::size_t picks_at_ = 0, scratch_ = 0;
  const std::vector<VectorInst>* elements_ = nullptr;  // of the phase
  bool calls_ = false;                                 // does the phase have calls?
  std::map<std::uint32_t, Xbyak::Reg64> cached_;       // by pointer
  std::map<std::uint32_t, Xbyak::Reg64> cached_picks_;
  std::vector<std::uint32_t> fetched_;  // pointers: see find_fetched
  const RowsCode::Phase* fetching_ = nullptr;
  std::vector<int> copies_;         // by instruction: its vector
  std::vector<std::int64_t> rows_;  // and its row among those side by side
  std::int64_t max_together_ = 1, together_ = 1;
  std::int64_t halves_ = 1, first_row_ = 0;  // see Note [Halves]
  bool of_row_ = false;                      // are the instructions on values of the row?
  int masked_copy_ = nowhere;
  bool uses_tail_ = false;
  bool tail_is_set_ = false;
  std::map<std::pair<std::uint32_t, int>, int> held_columns_;  // by pointer and vector: a register
  Xbyak::Label tail_mask_;
};

}  // namespace tidu::cpu_detail
