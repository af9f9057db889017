// rows_x86_tile.hpp - the vectors that the code of a row fusion computes side by side (x86::RowTile), and its
// scratch memory (x86::RowScratch).
//
// Registers: r12 pointers, r15 scratch memory, rbx the row, r13 the element within the row, r14 the element
// within the matrix. The number of columns is a constant of the code, and so is the number of vectors. The
// last vector of a row may be partial.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "cpu/fusion/reduce.hpp"
#include "cpu/fusion/rows.hpp"
#include "cpu/fusion/vector_x86_instructions.hpp"
#include "cpu/fusion/vector_x86_reduction.hpp"

namespace tidu::cpu_detail::x86 {

inline bool is_column_reduction(VectorOp op) {
  return op >= VectorOp::column_sum && op <= VectorOp::column_min;
}
inline std::vector<VectorInst> row_reductions_of(const RowsCode::Phase& phase) {
  std::vector<VectorInst> reductions;
  std::copy_if(phase.elements.begin(), phase.elements.end(), std::back_inserter(reductions),
               [](const VectorInst& step) { return is_row_reduction(step.op); });
  return reductions;
}
/// The maximum number of registers with accumulators of reductions. They take registers from the last one
/// down, except the spare one.
inline std::size_t max_accumulators(const Assembler& x) { return x.is_512() ? 16 : 8; }
inline int accumulator_register(const Assembler& x, std::size_t i) {
  return (x.is_512() ? x.num_registers() : spare_register) - 1 - static_cast<int>(i);
}
/// The number of rows that are processed side by side: as many as fill a register of some width, or 1.
inline std::int64_t rows_side_by_side(const RowsCode& code, const Assembler& x) {
  constexpr std::int64_t max_vectors = 4;  // of a row
  constexpr std::size_t max_steps = 640;   // of these rows together
  const std::int64_t vectors = (code.columns + x.lanes() - 1) / x.lanes();
  std::size_t reductions = 0, steps = 0;
  bool calls = false;
  for (const RowsCode::Phase& phase : code.phases) {
    reductions = std::max(reductions, row_reductions_of(phase).size());
    steps += phase.elements.size();
    calls = calls || calls_out(phase.elements);
  }
  if (reductions == 0 || calls || vectors > max_vectors || !code.gathers.empty()) return 1;
  const std::size_t accumulators = reductions * static_cast<std::size_t>(few_lanes / x.lanes());
  for (const int bytes : {32, 16}) {
    const std::int64_t rows = bytes / x.element_bytes();
    const auto count = static_cast<std::size_t>(rows);
    if (rows * vectors > 16 || count * accumulators > max_accumulators(x)) continue;
    if (count * static_cast<std::size_t>(vectors) * steps <= max_steps) return rows;
  }
  return 1;
}

/// The scratch memory: values of the row, a line each with equal lanes; partial reductions of each 1024
/// elements of longer rows; accumulators that are not in registers; values kept for the row; and the
/// addresses of gathered rows. `max_rows`: the maximum number of rows with live or kept values.
class RowScratch {
 public:
  RowScratch(const RowsCode& code, const Assembler& x, std::int64_t max_rows)
      : element_(static_cast<std::size_t>(x.element_bytes())),
        vector_(static_cast<std::size_t>(x.vector_bytes())),
        rows_(static_cast<std::size_t>(max_rows)),
        parts_at_(code.num_slots * line) {
    const std::int64_t blocks = (code.columns + reduction_block - 1) / reduction_block;
    const std::size_t row = static_cast<std::size_t>(code.columns) * element_;
    parts_size_ = blocks > 1 ? aligned(static_cast<std::size_t>(blocks) * element_) : 0;
    accumulators_at_ = parts_at_ + code.num_slots * parts_size_;
    std::size_t reductions = 0;
    for (const RowsCode::Phase& phase : code.phases)
      reductions = std::max(reductions, row_reductions_of(phase).size());
    kept_at_ = accumulators_at_ + reductions * many_lanes * element_;
    kept_size_ = aligned(row) + line;
    gathers_at_ = kept_at_ + code.num_kept * kept_size_ * rows_;
    bytes_ = gathers_at_ + aligned(code.gathers.size() * sizeof(void*));
  }
  std::size_t bytes() const { return bytes_; }

  /// A value of the first of the rows side by side, and of row `row` of them.
  Address slot(std::uint32_t index, std::int64_t row = 0) const {
    return ptr[r15 + (index * line + static_cast<std::size_t>(row) * element_)];
  }
  /// The partial reductions of value `index`.
  std::size_t parts(std::uint32_t index) const { return parts_at_ + index * parts_size_; }
  Address accumulator(std::size_t i) const { return ptr[r15 + accumulators_at_ + i * vector_]; }
  /// `offset` bytes after the present element of array `index` of a row.
  Address kept(std::uint32_t index, std::int64_t row, std::size_t offset) const {
    const std::size_t array = index * rows_ + static_cast<std::size_t>(row);
    return ptr[r15 + r13 * static_cast<int>(element_) + (kept_at_ + array * kept_size_ + offset)];
  }
  Address gather(std::uint32_t index) const { return ptr[r15 + gathers_at_ + index * sizeof(void*)]; }

  static constexpr std::size_t line = 64;

 private:
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + line - 1) / line * line; }

  std::size_t element_, vector_, rows_;
  std::size_t parts_at_, parts_size_ = 0, accumulators_at_ = 0, kept_at_ = 0, kept_size_ = 0;
  std::size_t gathers_at_ = 0, bytes_ = 0;
};

/// A tile is some vectors of some rows side by side. For each instruction of its straight-line code, it tells
/// the vector within the row and the row.
class RowTile {
 public:
  RowTile(std::int64_t columns, int lanes) : columns_(columns), lanes_(lanes) {}

  /// Vectors of a row, and elements of the partial one, or 0.
  int num_vectors() const { return static_cast<int>((columns_ + lanes_ - 1) / lanes_); }
  int left() const { return static_cast<int>(columns_ % lanes_); }
  std::int64_t columns() const { return columns_; }
  std::int64_t rows() const { return num_rows_; }
  std::int64_t first_row() const { return first_row_; }
  void set_rows(std::int64_t rows) { num_rows_ = rows; }
  /// Counted from rbx: see Note [Halves] in rows_x86.cpp.
  void set_first_row(std::int64_t row) { first_row_ = row; }

  /// The phase's instructions for `count` vectors of each row, the last one partial if `is_partial`; some
  /// vectors in turn.
  std::vector<VectorInst> lay_out(const std::vector<VectorInst>& elements, std::int64_t count,
                                  bool is_partial, std::int64_t in_turn) {
    std::vector<VectorInst> steps;
    start(0, is_partial ? static_cast<int>(count) - 1 : none);
    const std::size_t length = elements.size();
    const std::int64_t copies = num_rows_ * count;
    std::vector<std::uint16_t> at(length * static_cast<std::size_t>(copies));
    const auto put = [&](std::size_t i, std::int64_t copy) {
      VectorInst step = elements[i];
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
      vectors_.push_back(static_cast<int>(copy % count));
      rows_.push_back(first_row_ + copy / count);
    };
    for (std::int64_t first = 0; first < copies; first += in_turn) {
      for (std::size_t i = 0; i < length; ++i) {
        for (std::int64_t copy = first; copy < std::min(copies, first + in_turn); ++copy) put(i, copy);
      }
    }
    return steps;
  }
  /// `count` instructions on values of the rows.
  void select_rows(std::size_t count) { start(count, none); }
  /// One instruction, 0, on vector `vector` of a matrix that has one row for all.
  void select_column(int vector) {
    start(1, left() != 0 ? num_vectors() - 1 : none);
    vectors_[0] = vector;
    rows_[0] = 0;
  }

  int vector(std::size_t id) const { return vectors_[id]; }
  std::int64_t row(std::size_t id) const { return rows_[id]; }
  bool is_partial(std::size_t id) const { return vectors_[id] == partial_; }
  bool is_first_row(std::size_t id) const { return rows_[id] == first_row_; }
  bool is_last_row(std::size_t id) const { return rows_[id] == first_row_ + num_rows_ - 1; }
  /// Elements from the present element of the row, and of the matrix, to the instruction's vector.
  std::size_t in_row(std::size_t id) const { return static_cast<std::size_t>(vectors_[id] * lanes_); }
  std::size_t in_matrix(std::size_t id) const {
    return static_cast<std::size_t>(rows_[id] * columns_) + in_row(id);
  }

 private:
  static constexpr int none = -1;
  // Equal for all vectors; equal for all vectors of a row.
  static bool is_same(VectorOp op) {
    return op == VectorOp::immediate || op == VectorOp::splat || op == VectorOp::splat_mask;
  }
  static bool is_same_in_row(VectorOp op) {
    return op == VectorOp::slot || op == VectorOp::slot_mask || op == VectorOp::splat_row;
  }
  void start(std::size_t count, int partial) {
    vectors_.assign(count, 0);
    rows_.assign(count, first_row_);
    partial_ = partial;
  }

  const std::int64_t columns_;
  const int lanes_;
  std::int64_t num_rows_ = 1, first_row_ = 0;
  std::vector<int> vectors_;        // by instruction
  std::vector<std::int64_t> rows_;  // by instruction
  int partial_ = none;              // the vector that is partial
};

}  // namespace tidu::cpu_detail::x86
