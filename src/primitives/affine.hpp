// affine.hpp - sums that make a graph affine where it is to be linear, also in graphs that operations hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::prim {

/// What is known of a value.
struct Standing {
  bool depends = false;  ///< on what the graph is to be linear in
  bool zero = false;     ///< whatever the inputs are
  bool bent = false;     ///< depends, and is not linear in it by what the primitives on the way say
  friend bool operator==(const Standing&, const Standing&) = default;
  friend auto operator<=>(const Standing&, const Standing&) = default;
};

/// Of the outputs of the graph, through the graphs that its operations hold. When a while ends may depend on
/// what the graph is to be linear in, and makes nothing bent: a solver's steps go on until they are enough.
std::vector<Standing> standings(const Graph& graph, const std::vector<Standing>& inputs);
/// A sum of what depends and of what neither does nor is zero, on the way to outputs of these positions:
/// which operation of which graph that is. Of loops the first steps are looked at, as many as it takes for
/// what carries depend on to settle. A linear_call is linear because it says so, whatever its graph does, and
/// so is a custom_linear_solve.
std::optional<std::string> affine_sum(const Graph& graph, const std::vector<Standing>& inputs,
                                      const std::vector<std::size_t>& outputs);
/// The same in the graphs that an operation holds.
std::optional<std::string> affine_sum(const Operation& operation, const std::vector<Standing>& operands);

}  // namespace tidu::prim
