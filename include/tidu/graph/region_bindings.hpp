// region_bindings.hpp - what goes together in an operation that holds graphs: a binding is a value as it is
// outside and inside. A carry of a loop is one: an operand, an input and an output of the body, and a result.
// What nobody reads is left out binding by binding.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu {

/// Operands and results of an operation, and inputs and outputs of the graphs in its attributes, that are all
/// there or all left out. A binding is needed where one of its results is read outside or one of its inputs
/// inside; its operands and its outputs are then read.
struct RegionBinding {
  /// An input or output of a graph that an attribute holds.
  struct Port {
    std::size_t graph;  ///< counted over all attributes, in the order of the schema
    std::size_t index;  ///< position among its inputs, or outputs
  };
  std::vector<std::size_t> operands{};  ///< by position
  std::vector<std::size_t> results{};   ///< by position
  std::vector<Port> inputs{};           ///< that stand for it inside
  std::vector<Port> outputs{};          ///< that it is made by
  std::string_view count{};  ///< the integer attribute that counts region_bindings of its kind, if any
  bool always = false;       ///< needed with whatever else is: what chooses, or ends a loop
};

/// The same function without what the graphs in its operations compute for nobody, at any depth: results that
/// are not read, with what is only computed for them, and operands that are then not read; carries of loops
/// that only they themselves need. Left out are region_bindings, by the rules of primitives that have one;
/// what is impure stays as it is. The graph itself where there is nothing to leave out; else also without
/// other operations that no output needs, equal ones merged. Keys of values that come from a changed
/// operation change.
///
/// Takes time in proportion to the graphs inside, for each different operation of `graph` and each different
/// choice of its results that is read. Equal operations deeper inside one of these are cut alike: to what all
/// of them together need.
Graph eliminate_dead_code(const Graph& graph);

/// The name that it had.
[[deprecated("use eliminate_dead_code")]] inline Graph without_unread(const Graph& graph) {
  return eliminate_dead_code(graph);
}

}  // namespace tidu
