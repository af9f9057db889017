// moves.hpp - operations that move elements and read what others like them made: each copies from where the
// elements came from.
//
// Note [Moves]: what transposes, slices and concatenates make is in no memory where such operations alone
// read it, each element of it once at most, and where all of these copy lines as long as it would, or of some
// length, from where it would have been copied from; unless much more memory would have to live on for that,
// which it is a small part of. Attention's heads, for one, are slices of a transpose, and their gradients a
// transpose of a concatenate.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "cpu/kernel.hpp"
#include "tidu/program/passes.hpp"
#include "tidu/program/program.hpp"

namespace tidu::cpu_detail {

/// The plans of those that copy from elsewhere than from their operands, by position in the schedule:
/// `values` says there from where. Whose results are in no memory is set in `done`, by operation or empty.
/// `alone` says by operation whether it is a step of its own and no more than that.
std::unordered_map<std::size_t, Plan> make_moves(const Program& program,
                                                 std::vector<passes::NodeValues>& values,
                                                 const std::vector<bool>& alone, int threads,
                                                 std::vector<bool>& done);

}  // namespace tidu::cpu_detail
