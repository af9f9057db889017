// rows.hpp - RowsCode: the vector program of a row fusion. It processes one row of matrices after another:
// element by element, with reductions of the row and computations on their results, and with reductions of
// all rows to one.
//
// Note [Rows]: a row is processed in phases. A phase takes the row's elements in order, vector by vector, and
// reduces some of them. Computations on the reduced values follow, once for each row; the next phase has
// their results in every lane. A value that a later phase needs again is recomputed or loaded again, or kept
// for the row if that takes long. Rows are processed one after another, so all of a row stays in the nearest
// cache.
//
// Reductions have the bits of reduce.hpp: see Note [Order of sums] there. So do elements; the division of
// rows among threads therefore does not matter. Columns are reduced in chunks of reduction_chunk rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/fusion/vector_ir.hpp"

namespace tidu::cpu_detail {

/// Phases of instructions (see VectorOp); each instruction refers to values of its own list. Operands and
/// results are numbered together, as pointers.
struct RowsCode {
  struct Phase {
    std::vector<VectorInst> elements;
    std::vector<VectorInst> row;  ///< after the elements: instructions on values of the row
    friend bool operator==(const Phase&, const Phase&) = default;
  };
  DType dtype = f32;         ///< f32 or f64
  std::int64_t columns = 0;  ///< elements of a row: see can_reduce_rows
  std::vector<Phase> phases;
  std::uint32_t num_pointers = 0;
  std::uint32_t num_slots = 0;
  std::uint32_t num_kept = 0;
  /// A gathered row: for each row, one row of an array is read. Its number is an integer of the row, clamped;
  /// or, for repeated rows, r / `every` * `together` + r % `together` for row r.
  struct Gather {
    std::uint32_t array = 0, indices = 0;  ///< pointers
    std::int64_t rows = 0;                 ///< of the array
    bool wide = false;                     ///< i64 indices instead of i32
    std::int64_t every = 0,
                 together = 1;  ///< for repeated rows; `every` is a multiple of `together`
    bool is_repeated() const { return every != 0; }
    friend bool operator==(const Gather&, const Gather&) = default;
  };
  std::vector<Gather> gathers;
  /// Do any indices select rows?
  bool has_indices() const {
    return std::any_of(gathers.begin(), gathers.end(),
                       [](const Gather& gather) { return !gather.is_repeated(); });
  }
  friend bool operator==(const RowsCode&, const RowsCode&) = default;
  std::uint64_t hash() const;
};

/// Can generated code reduce rows of `columns` elements?
constexpr bool can_reduce_rows(std::int64_t columns) {
  return columns >= 16 && (columns <= 1024 || columns % 1024 == 0 || columns % 1024 >= 16);
}

/// A compiled RowsCode; any number of threads may run it at the same time.
class RowKernel {
 public:
  using Function = void (*)(const std::byte* const* pointers, std::byte* scratch, std::int64_t first,
                            std::int64_t count);
  RowKernel(RowsCode code, Function function, std::size_t scratch, std::shared_ptr<const void> memory)
      : code_(std::move(code)), function_(function), scratch_(scratch), memory_(std::move(memory)) {}

  /// Processes `count` rows from row `first` on. The arrays begin at `pointers`; `scratch` is aligned to 64
  /// bytes. A result must not overlap an operand.
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

}  // namespace tidu::cpu_detail
