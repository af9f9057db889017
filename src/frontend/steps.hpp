// steps.hpp - shared helpers of loops: the graph of one step.
#pragma once

#include <cstddef>
#include <string_view>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::frontend_detail {

/// The step with its captures, which are its last inputs, moved before its arguments.
Graph consts_first(const Graph& step, std::size_t captured);
/// Throws Error if the graph moves an Array to another device.
void refuse_moves(std::string_view name, const Graph& graph, Where where);

}  // namespace tidu::frontend_detail
