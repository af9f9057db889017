// transpose_epilogue.hpp - transposes that are done by the group of rows before them.
//
// Note [Transposed results]: what a group makes for a transpose alone goes to a little memory, some rows at a
// time, and from there, while it is in the nearest cache, to where the transpose has it. So it is written to
// memory once, and not read from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/groups/rows_plan.hpp"
#include "cpu/kernels/strided.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// A transpose cut into pieces of its operand, each of whole rows that lie one behind the other.
class TransposingCopy {
 public:
  /// Of operands of this type, rows of so many elements. Nothing where pieces would be too long.
  static std::optional<TransposingCopy> make(Type type, std::span<const std::int64_t> permutation,
                                             std::int64_t columns);

  std::int64_t pieces() const { return pieces_; }
  /// Elements of a piece, at most.
  std::int64_t most() const { return at_once_ * inner_; }
  /// Elements in front of the piece, and of it.
  std::int64_t begin(std::int64_t piece) const;
  std::int64_t count(std::int64_t piece) const;
  /// From where the piece is to where the result begins.
  void run(std::int64_t piece, const std::byte* from, std::byte* to) const;

 private:
  struct Outer {
    std::int64_t extent, to;
  };
  std::int64_t pieces_ = 0, of_each_ = 1;                       // in all; of each index of outer axes
  std::int64_t extent_ = 1, at_once_ = 1, to_ = 0, inner_ = 1;  // of the axis that is cut
  std::vector<Outer> outer_;
  std::size_t size_ = 1;  // of an element
  StridedCopy whole_, last_;
};

/// What a group makes for the transpose right behind it alone, and how.
struct TransposedResult {
  ValueId value = no_index;   ///< of the group
  ValueId result = no_index;  ///< of the transpose
  std::uint32_t operation = no_index;
  RowsPlan plan;  ///< with `value`
  TransposingCopy copy;
};
/// By position of the group.
using TransposedResults = std::unordered_map<std::size_t, TransposedResult>;

/// All of them; of operations that are `done` (or empty) already none is. Then values[node] have the result
/// in the place of the group's.
TransposedResults find_transposed_results(const Program& program, std::vector<passes::NodeValues>& values,
                                          const std::vector<bool>& done, const CompileOptions& options);

}  // namespace tidu::cpu_detail
