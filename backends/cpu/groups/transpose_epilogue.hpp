// transpose_epilogue.hpp - the transpose epilogue of row fusions: a fusion whose result only a transpose
// reads writes that result transposed.
//
// Note [Transposed results]: the fusion writes some rows at a time to a small buffer, and copies them from
// there, while they are in the nearest cache, to their transposed positions. The result is written to memory
// once and never read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/groups/rows_plan.hpp"
#include "cpu/kernels/strided.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// A transpose that is divided into pieces of its operand; each piece consists of contiguous whole rows.
class TransposingCopy {
 public:
  /// For an operand of this type with rows of `columns` elements. Nothing if pieces would be too long.
  static std::optional<TransposingCopy> make(Type type, std::span<const std::int64_t> permutation,
                                             std::int64_t columns);

  std::int64_t pieces() const { return pieces_; }
  /// Maximum number of elements of a piece.
  std::int64_t most() const { return at_once_ * inner_; }
  /// The first element of the piece, and its number of elements.
  std::int64_t begin(std::int64_t piece) const;
  std::int64_t count(std::int64_t piece) const;
  /// Copies the piece at `from` into the result at `to`.
  void run(std::int64_t piece, const std::byte* from, std::byte* to) const;

 private:
  struct Outer {
    std::int64_t extent, to;
  };
  std::int64_t pieces_ = 0, of_each_ = 1;                       // in all; of each index of outer axes
  std::int64_t extent_ = 1, at_once_ = 1, to_ = 0, inner_ = 1;  // of the axis that is divided
  std::vector<Outer> outer_;
  std::size_t size_ = 1;  // of an element
  StridedCopy whole_, last_;
};

/// The result of a fusion that only the following transpose reads, and the plan of both.
struct TransposedResult {
  ValueId value = no_index;   ///< of the fusion
  ValueId result = no_index;  ///< of the transpose
  RowsPlan plan;              ///< with `value`
  TransposingCopy copy;
};

}  // namespace tidu::cpu_detail
