// rows.hpp - work on one row of matrices after another as generated code: element by element, with values of
// a row that are folds of its elements and what is computed of them, and folds of all rows to one.
//
// Note [Rows]: a row is gone through in phases. A phase takes the row's elements in order, vector by vector,
// and folds some of them; behind it comes what is computed of such folds, once for each row, which the next
// phase finds in every lane. What a later phase needs again is computed or loaded again, or, where that takes
// long, kept for the row. Rows are computed one after another, so all of it stays in the nearest cache.
//
// The folds are those of reduce.hpp, bit by bit: see Note [Order of sums] there. The same holds for elements,
// so it does not matter how rows are dealt to threads, and columns are folded in chunks of fold_chunk rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/groups/vector_ir.hpp"

namespace tidu::cpu_detail {

/// Phases of steps (see VectorOp), each of which names values of its own list. Operands and results are
/// numbered together, as pointers.
struct RowsCode {
  struct Phase {
    std::vector<VectorInst> elements;
    std::vector<VectorInst> row;  ///< behind them, of values of the row alone
    friend bool operator==(const Phase&, const Phase&) = default;
  };
  DType dtype = f32;         ///< f32 or f64
  std::int64_t columns = 0;  ///< elements of a row: see can_fold_rows
  std::vector<Phase> phases;
  std::uint32_t num_pointers = 0;
  std::uint32_t num_slots = 0;
  std::uint32_t num_kept = 0;
  /// Each row reads one row of an array: which an integer of the row's own names, moved into range; or, where
  /// rows are repeated, row r / `every` * `together` + r % `together`.
  struct Pick {
    std::uint32_t array = 0, indices = 0;  ///< pointers
    std::int64_t rows = 0;                 ///< of the array
    bool wide = false;                     ///< i64 indices, not i32
    std::int64_t every = 0,
                 together = 1;  ///< where nothing names the row; `every` is a multiple of `together`
    bool is_repeated() const { return every != 0; }
    friend bool operator==(const Pick&, const Pick&) = default;
  };
  std::vector<Pick> picks;
  /// Do indices name rows?
  bool has_indices() const {
    return std::any_of(picks.begin(), picks.end(), [](const Pick& pick) { return !pick.is_repeated(); });
  }
  friend bool operator==(const RowsCode&, const RowsCode&) = default;
  std::uint64_t hash() const;
};

/// May generated code fold rows of so many elements?
constexpr bool can_fold_rows(std::int64_t columns) {
  return columns >= 16 && (columns <= 1024 || columns % 1024 == 0 || columns % 1024 >= 16);
}

/// Code that is ready to run, on any number of threads at once.
class RowKernel {
 public:
  using Function = void (*)(const std::byte* const* pointers, std::byte* scratch, std::int64_t first,
                            std::int64_t count);
  RowKernel(RowsCode code, Function function, std::size_t scratch, std::shared_ptr<const void> memory)
      : code_(std::move(code)), function_(function), scratch_(scratch), memory_(std::move(memory)) {}

  /// Rows from `first` on, of arrays that begin where the pointers point, in scratch memory aligned to 64
  /// bytes. No result may lie where an operand does.
  void run(const std::byte* const* pointers, std::byte* scratch, std::int64_t first,
           std::int64_t count) const {
    if (count > 0) function_(pointers, scratch, first, count);
  }
  std::size_t scratch_bytes() const { return scratch_; }
  const RowsCode& code() const { return code_; }

 private:
  RowsCode code_;
  Function function_;
  std::size_t scratch_;
  std::shared_ptr<const void> memory_;
};

/// In rows_x86.cpp. Null where memory for code is not to be had.
std::shared_ptr<const RowKernel> generate(const RowsCode& code, VectorUnits units);

}  // namespace tidu::cpu_detail
