// straight_line.hpp - straight-line kernels: many operations on short arrays of one length become one piece
// of generated code without loops, in which each array is a few vectors.
//
// Note [Straight-line kernels]: a recurrence that is unrolled consists of thousands of operations on a few
// elements, and calling their kernels takes most of the time. A sequence of operations in the schedule is cut
// at places that depend on its pattern (see Note [Cuts] in straight_line_plan.cpp), so that all steps of the
// recurrence are cut alike. Pieces that differ only in addresses share code, and code is generated only for
// pieces that occur often.
//
// Memory is read and written in the order of the operations: the first reads all operands before it writes,
// and then the second does. The memory plan of single operations therefore remains valid. Values that nothing
// reads after the block are not written.
//
// Each value has the bits of the single operation: functions of one element are those of the C++ library,
// functions of several elements those of vector code, and sums are added in the order of reduce.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::cpu_detail {

/// Limits of the array length in a block. Functions of arrays of these lengths are always those of vector
/// code.
inline constexpr std::int64_t min_straight_line = 8;
inline constexpr std::int64_t max_straight_line = 63;

/// Instructions (see VectorOp) on arrays of `elements` elements and on single elements. Operands and results
/// are numbered together, as pointers. Loads of one element, reductions, and computations on them alone have
/// equal lanes.
struct StraightLineCode {
  /// In addition to element-wise instructions: reduce_sum, reduce_max and reduce_min give a value; store_row
  /// stores one element, and so does store_mask if `bits` is set; a call with `bits` set is of one element.
  VectorProgram program;
  std::int64_t elements = 0;
  friend bool operator==(const StraightLineCode&, const StraightLineCode&) = default;
  std::uint64_t hash() const;
};

/// Compiled code; any number of threads may run it at the same time.
class StraightLineKernel {
 public:
  using Function = void (*)(const std::byte* const* pointers);
  StraightLineKernel(StraightLineCode code, Function function, std::shared_ptr<const void> memory)
      : code_(std::move(code)), function_(function), memory_(std::move(memory)) {}
  void run(const std::byte* const* pointers) const { function_(pointers); }
  const StraightLineCode& code() const { return code_; }

 private:
  StraightLineCode code_;
  Function function_;
  std::shared_ptr<const void> memory_;
};

/// Consecutive nodes of a schedule that run as one.
struct StraightLineBlock {
  std::size_t first = 0, count = 0;
  std::vector<ValueId> values;  ///< by pointer
  std::shared_ptr<const StraightLineKernel> kernel;
};
/// The blocks, in the order of the schedule; none without a vector JIT, or if fusion is disabled. Operations
/// that are set in `excluded` are in no block; `excluded` may be empty.
std::vector<StraightLineBlock> find_straight_line_blocks(const Program& program,
                                                         const CompileOptions& options,
                                                         const std::vector<bool>& excluded);

/// Can the code have vectors of `vector_bytes` bytes? Longer arrays need loops.
constexpr bool fits_straight_line(std::int64_t elements, DType dtype, std::int64_t vector_bytes) {
  constexpr std::int64_t max_vectors = 4;
  return elements >= min_straight_line && elements <= max_straight_line &&
         elements * static_cast<std::int64_t>(size_of(dtype)) <= max_vectors * vector_bytes;
}

/// The C++ library's function of one f32 or f64 operand; null for functions of two. In
/// straight_line_plan.cpp.
const void* scalar_address_of(VectorFunction function, bool is_f64);

}  // namespace tidu::cpu_detail
