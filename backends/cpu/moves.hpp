// moves.hpp - copy elision: transposes, slices and concatenations are not materialized if their readers can
// access the original elements. Readers are other layout operations and matmuls; a matmul may also write its
// result in the layout of a later layout operation.
//
// Note [Moves]: the result of a layout operation is elided if all its readers are layout operations or
// matmuls, and the layout operations copy each element at most once. Their contiguous runs must have a
// minimum length, and be as long as those of the elided copy; lengths beyond a limit count as equal. Runs are
// along the last axis, or along all axes that continue it; either measure suffices. Elision is refused if it
// keeps alive much more memory than it saves. Example: the heads of attention are slices of a transpose, and
// their gradients are a transpose of a concatenation.
//
// Note [Results in place]: a matmul reads elided operands through strided views. If matmuls alone produce the
// operands of a layout operation, they write into its result themselves: the first of them creates the
// result, and the others take it as an operand. A fusion between them that only adds 0.0 is elided too; the
// matmuls add 0.0 themselves, which changes -0.0 to 0.0.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "cpu/kernel.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Plans the copies and matmuls with elided operands or results, by position in the schedule. Updates
/// `values` with the operands and results of these nodes; a fusion that becomes empty has no plan. Sets
/// `done` (by operation, or empty) for elided operations. `alone`: is the operation a standalone step? (by
/// operation). `products`: may matmuls take part? `max_kept`: maximum bytes of a root that stays alive for
/// several elided copies, or of a result that is created before all its parts are computed.
std::unordered_map<std::size_t, Plan> make_moves(const Program& program,
                                                 std::vector<passes::NodeValues>& values,
                                                 const std::vector<bool>& alone, bool products,
                                                 std::size_t max_kept, int threads, std::vector<bool>& done);

}  // namespace tidu::cpu_detail
