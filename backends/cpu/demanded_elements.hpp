// demanded_elements.hpp - which elements of values nobody reads, so that products need not make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {

/// Of a value, element e is read by something if read[e % read.size()]; null: all of them are.
using ReadElements = std::shared_ptr<const std::vector<bool>>;

/// By value: the elements that something reads, or nothing at all where none are left out anywhere. What
/// narrows them is a slice of one axis, a take whose indices are constants, and a scatter_add whose indices
/// are, too, and lead to where nothing is read, or nowhere; element-wise operations and views hand on what is
/// read of their results. `constant_at` has by value the bytes of constants, or null; `outputs` what is read
/// of each output, empty: all. Linear in the size of the graph; a million elements of values are looked at in
/// all, the rest counts as read.
std::vector<ReadElements> find_reads(const Graph& graph, std::span<const std::byte* const> constant_at,
                                     std::span<const ReadElements> outputs);

/// Of rows of n elements, row i being that of the pattern with i % size: behind which of its elements nothing
/// is read. Empty where rows and pattern do not fit.
std::vector<std::int32_t> row_ends(const std::vector<bool>& read, std::int64_t n);

}  // namespace tidu::cpu_detail
