// calls.hpp - what executors say of a call of a compiled program that does not fit it.
#pragma once

#include <cstddef>
#include <span>

#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::detail {

/// Of inputs by pointer, or room for outputs, that are not the graph's: throws Error as check_inputs does,
/// and invalid_argument for a null pointer or another number of outputs.
[[noreturn]] void refuse_call(const Graph& graph, std::span<const Tensor* const> inputs,
                              std::size_t num_outputs);

}  // namespace tidu::detail
