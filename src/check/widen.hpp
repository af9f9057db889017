// widen.hpp - graphs of f16 and bf16 converted to f32, in which differences are meaningful.
#pragma once

#include <optional>

#include "check/numeric.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::check {

/// Is anything in the graph, or in one that an attribute holds, of f16 or bf16?
bool has_sixteen_bits(const Graph& graph);
/// The same graph with f32 for f16 and bf16: types, dtypes and tensors in attributes, and graphs there.
/// Values and operations have the same ids. Nothing if the conversion gives no valid graph (a bitcast to 16
/// bits).
std::optional<Graph> widened(const Graph& graph);
/// The tensor, of f32 if it is of f16 or bf16.
Tensor widened(const Tensor& tensor);

}  // namespace tidu::check
