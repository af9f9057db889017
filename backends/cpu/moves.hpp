// moves.hpp - operations that move elements and read what others like them made: each copies from where the
// elements came from. And products that read what they made, or make what they move.
//
// Note [Moves]: what transposes, slices and concatenates make is in no memory where such operations alone
// read it, each element of it once at most, and where all of these copy lines as long as it would, or of some
// length, from where it would have been copied from; unless much more memory would have to live on for that,
// which it is a small part of. Lines are of the last axis, or of all axes that go on where it ends: what is
// as long in either way will do. Attention's heads, for one, are slices of a transpose, and their gradients a
// transpose of a concatenate.
//
// Note [Results in place]: products read such a value where it came from too, and what a move makes of
// products alone they write to its place themselves: the first of them makes the move's result, which the
// others have as an operand. A group between that adds 0.0 to each is left out: they add it themselves, which
// tells for a -0.0.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "cpu/kernel.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The plans of those that copy from elsewhere than from their operands, or multiply what is elsewhere, by
/// position in the schedule: `values` says there from where; no plan is of a group that does nothing. Whose
/// results are in no memory, or made by others, is set in `done`, by operation or empty. `alone` says by
/// operation whether it is a step of its own and no more than that; `products`: may products take part?
/// `max_kept`: bytes of what may live on since others move the rest of it, or be there before all of it is
/// made.
std::unordered_map<std::size_t, Plan> make_moves(const Program& program,
                                                 std::vector<passes::NodeValues>& values,
                                                 const std::vector<bool>& alone, bool products,
                                                 std::size_t max_kept, int threads, std::vector<bool>& done);

}  // namespace tidu::cpu_detail
