// calls.hpp - errors for a call of a compiled program with wrong arguments.
#pragma once

#include <cstddef>
#include <span>

#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::detail {

/// For inputs by pointer, or outputs, that do not fit the graph: throws Error as check_inputs does, and
/// invalid_argument for a null pointer or another number of outputs.
[[noreturn]] void refuse_call(const Graph& graph, std::span<const Tensor* const> inputs,
                              std::size_t num_outputs);

}  // namespace tidu::detail
