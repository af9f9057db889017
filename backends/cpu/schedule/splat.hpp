// splat.hpp - operands that are splats: all their elements are equal. Such an operand is not read from
// memory; its readers take the one element from a value of one element, or from a literal.
#pragma once

#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

/// The root whose memory holds the operand's elements, or the one element of a splat; no_index for a splat of
/// a literal. `roots` and `splats`: see alias_roots and find_splats.
inline ValueId memory_of(const Graph& graph, const std::vector<ValueId>& roots,
                         const std::vector<ValueId>& splats, ValueId operand) {
  const ValueId source = splats[operand];
  if (source == no_index) return roots[operand];
  return graph.type(source).size() == 1 ? roots[source] : no_index;
}

/// The literal among the attributes of the operation that defines a value; null if there is none.
inline const Literal* literal_of(const Graph& graph, ValueId id) {
  const auto producer = graph.producer(id);
  if (!producer) return nullptr;
  for (const auto& [name, value] : graph.data().operations[*producer].op->attributes) {
    if (const auto* literal = value.get_if<Literal>()) return literal;
  }
  return nullptr;
}

/// The literal that a splat without memory repeats. `source`: the splat's source. Throws Error (internal).
inline const Literal& splat_literal(const Graph& graph, ValueId source) {
  if (const Literal* literal = literal_of(graph, source)) return *literal;
  throw Error(ErrorKind::internal,
              detail::str("splat: expected the literal of value ", source, ", got none"));
}

}  // namespace tidu::passes
