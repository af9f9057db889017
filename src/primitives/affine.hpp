// affine.hpp - finds sums that make a graph affine although it has to be linear, also in the graphs of
// operations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::prim {

/// The dependence of a value on the inputs in which the graph has to be linear.
struct Standing {
  bool depends = false;  ///< on these inputs
  bool zero = false;     ///< whatever the inputs are
  bool bent = false;     ///< depends, and is not linear in them according to the primitives on the path
  friend bool operator==(const Standing&, const Standing&) = default;
  friend auto operator<=>(const Standing&, const Standing&) = default;
};

/// The standings of the graph's outputs, analysed through the graphs that its operations hold. The number of
/// steps of a while may depend on the linear inputs without making its results bent: a solver's steps go on
/// until they are enough.
std::vector<Standing> standings(const Graph& graph, const std::vector<Standing>& inputs);
/// A sum of a term that depends on the inputs and a term that neither does nor is zero, on a path to outputs
/// at these positions; described by operation and graph. For a loop, as many first steps are examined as the
/// dependences of its carries take to settle. A linear_call and a custom_linear_solve are linear by
/// declaration, whatever their graphs do.
std::optional<std::string> affine_sum(const Graph& graph, const std::vector<Standing>& inputs,
                                      const std::vector<std::size_t>& outputs);
/// The same in the graphs that an operation holds.
std::optional<std::string> affine_sum(const Operation& operation, const std::vector<Standing>& operands);

}  // namespace tidu::prim
