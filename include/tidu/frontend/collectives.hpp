// collectives.hpp - psum, all_gather, reduce_scatter and ppermute of Arrays, for data-parallel programs: each
// rank runs the same code on its own data. The executor of the program defines the axes: one made by
// with_axes() (tidu/mpi.hpp, tidu/cuda.hpp), or, for an axis of one rank, any executor. See
// primitives/collectives.hpp for their derivatives.
#pragma once

#include <cstdint>
#include <string_view>

#include "tidu/frontend/array.hpp"
#include "tidu/graph/attribute.hpp"

namespace tidu {

/// The sum of every rank's x, on each of them. Throws Error: type for booleans, execution where the axis is
/// not bound to as many ranks.
Array psum(const Array& x, std::string_view axis_name, std::int64_t axis_size,
           Where where = Where::current());
/// The x of all ranks, in order of ranks, stacked along a new axis at position `all_gather_dimension` or, if
/// `tiled`, concatenated along that axis. Throws Error (type, execution).
Array all_gather(const Array& x, std::string_view axis_name, std::int64_t axis_size,
                 std::int64_t all_gather_dimension = 0, bool tiled = false, Where where = Where::current());
/// This rank's part of psum(x) along `scatter_dimension`, which is of extent `axis_size` and goes, or,
/// `tiled`, is divided. Throws Error (type, execution).
Array reduce_scatter(const Array& x, std::string_view axis_name, std::int64_t axis_size,
                     std::int64_t scatter_dimension = 0, bool tiled = false, Where where = Where::current());
/// x of the rank that sends to this one, or zeros; `perm` are [source, destination]. Throws Error (type,
/// execution).
Array ppermute(const Array& x, std::string_view axis_name, std::int64_t axis_size, const IntLists& perm,
               Where where = Where::current());

}  // namespace tidu
