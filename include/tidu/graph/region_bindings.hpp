// region_bindings.hpp - the region bindings of an operation that holds graphs, and dead code elimination
// through such operations. A binding ties together the operands, region arguments, yields and results that
// are one value outside and inside. A carry of a loop is one: an operand, an input and an output of the body,
// and a result. Dead code is removed binding by binding. (Compare MLIR's RegionBranchOpInterface and JAX's
// rules for dce_jaxpr.)
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu {

/// Operands and results of an operation, and inputs and outputs of the graphs in its attributes, that are
/// kept or removed together. A binding is live if one of its results is read outside or one of its inputs
/// inside; its operands and its outputs are then live.
struct RegionBinding {
  /// An input or output of a graph that an attribute holds.
  struct Port {
    std::size_t graph;  ///< counted over all attributes, in the order of the schema
    std::size_t index;  ///< position among its inputs, or outputs
  };
  std::vector<std::size_t> operands{};  ///< by position
  std::vector<std::size_t> results{};   ///< by position
  std::vector<Port> inputs{};           ///< region arguments: its value inside
  std::vector<Port> outputs{};          ///< yields: they define the value
  std::string_view count{};  ///< the integer attribute that counts region_bindings of its kind, if any
  bool always = false;       ///< always live, as the predicate of a conditional or a loop
};

/// Dead code elimination through operations that hold graphs, at any depth. It removes results that are not
/// read, the operations that compute only them, the operands that are then not read, and carries of loops
/// that only they themselves read. It removes whole region bindings, for primitives that have a rule for
/// them; impure operations stay. Returns `graph` itself if there is no dead code in its inner graphs; else
/// the result is also without other dead operations, and equal operations are merged. Values that depend on a
/// changed operation get other keys.
///
/// The time is proportional to the inner graphs, for each distinct operation of `graph` and each distinct set
/// of its live results. Equal operations deeper inside one of these are reduced alike, to the union of the
/// results that are live in any of them.
Graph eliminate_dead_code(const Graph& graph);

/// The former name.
[[deprecated("use eliminate_dead_code")]] inline Graph without_unread(const Graph& graph) {
  return eliminate_dead_code(graph);
}

}  // namespace tidu
