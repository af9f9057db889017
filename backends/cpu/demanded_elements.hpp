// demanded_elements.hpp - demanded elements of values (as LLVM's SimplifyDemandedVectorElts): matmuls leave
// out the tiles that no operation reads. One sweep from the outputs to the inputs computes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

/// Demanded elements of a value: element e is read if read[e % read.size()]. Null: all elements are read.
using ReadElements = std::shared_ptr<const std::vector<bool>>;

/// The demanded elements of each value, indexed by value; empty if all elements of all values are read.
/// Slices of one axis, takes with constant indices, and scatter_adds with constant indices into unread or
/// missing elements narrow the set. Element-wise operations and views pass the set of their results on to
/// their operands. `constant_at` has the bytes of each constant, indexed by value, or null. `outputs` has the
/// demanded elements of each output; empty: all. Linear in the size of the graph. The sweep looks at a
/// million elements in all and treats the rest as read.
std::vector<ReadElements> find_reads(const Graph& graph, std::span<const std::byte* const> constant_at,
                                     std::span<const ReadElements> outputs);

/// The end of the demanded elements of each row, for rows of n elements; row i of the matrix is row i % size
/// of the pattern. Empty if the pattern does not consist of whole rows.
std::vector<std::int32_t> row_ends(const std::vector<bool>& read, std::int64_t n);

}  // namespace tidu::cpu_detail
