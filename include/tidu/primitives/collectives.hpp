// collectives.hpp - collectives of the standard set: operations over the ranks of a named axis, each of which
// runs the same program on its own data. Their records (tidu::prim) and the functions that emit them
// (tidu::ops). Names and semantics are those of jax.lax; `reduce_scatter` is the primitive of
// jax.lax.psum_scatter.
//
// A graph names an axis and its number of ranks; the compiling executor binds the name to a communicator
// (tidu/mpi.hpp). Without a binding, an axis of one rank works, and any other is an error.
//
// Transposition is with respect to the inner product summed over all ranks, as in jax.shard_map with
// check_vma=False: psum is its own transpose. So the gradient of Σ over ranks of a loss that each rank
// computes from its own data is psum of the ranks' gradients. If a value that is equal on N ranks, such as
// psum(loss), has seed 1 on each of them, the result is the derivative of N times that value.
// rank, such as psum(loss), with 1 on each of N ranks, differentiates N times that value.
#pragma once

#include <string_view>
#include <vector>

#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Over the ranks of an axis.
extern const Primitive psum, all_gather, reduce_scatter, ppermute;

/// The records of this header, in the order of the documentation's table.
std::vector<const Primitive*> collective_primitives();

/// For executors without a communicator for the op's axis. Throws Error (execution) when it has more than one
/// rank.
void require_one_rank(const Op& collective);

}  // namespace tidu::prim

namespace tidu::ops {

/// The sum of the ranks' x, on each rank: for numbers, in ascending order of ranks.
Value psum(Value x, std::string_view axis_name, std::int64_t axis_size, Where where = Where::current());

/// The ranks' x, in order of ranks, on each rank: stacked along a new axis at position `all_gather_dimension`
/// of the result or, if `tiled`, concatenated along that axis of x.
Value all_gather(Value x, std::string_view axis_name, std::int64_t axis_size,
                 std::int64_t all_gather_dimension = 0, bool tiled = false, Where where = Where::current());

/// The part of psum(x) that belongs to this rank: x[r] along `scatter_dimension`, whose extent is
/// `axis_size` and which the result lacks, or, `tiled`, the r-th of `axis_size` equal parts along it.
Value reduce_scatter(Value x, std::string_view axis_name, std::int64_t axis_size,
                     std::int64_t scatter_dimension = 0, bool tiled = false, Where where = Where::current());

/// x of the rank that `perm` sends here, zeros where it sends none. `perm` are [source, destination]; no
/// rank is source or destination of two.
Value ppermute(Value x, std::string_view axis_name, std::int64_t axis_size, const IntLists& perm,
               Where where = Where::current());

}  // namespace tidu::ops
