// json.hpp - graph dumps, format version 1: a graph as JSON that diffs well and reads back to the same bytes.
// One value and one operation a line, members in a fixed order; duplicate and dead operations, the ids of
// values and the order of operations are kept, so that loading a dump and dumping it again changes nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu {

/// Options of a dump.
struct DumpOptions {
  bool keys = false;  ///< write the content address of every value, which a loader then checks
};

/// The maximum number of values, operations and elements of tensors that a dump repeats: a graph that occurs
/// several times is written each time.
inline constexpr std::size_t max_repeated_in_dump = std::size_t{1} << 22;

/// The dump of `graph`; ends in a newline. Text that is not UTF-8 is written with replacement characters; an
/// input with such a name keeps its key. Throws Error: `dump` for graphs that nest more than 64 deep,
/// `invalid_argument` for those that would repeat more than max_repeated_in_dump.
std::string to_json(const Graph& graph, DumpOptions options = {});

/// Reads a dump in any layout of its JSON, verbatim: nothing is merged or dropped. Primitives are looked up
/// in `set`. Throws Error with the line, or the value or operation, of the defect. Its kind is `dump` for
/// malformed text (JSON, another version, unknown or missing members, ids, order, names, keys), `type` when
/// operands do not fit or a declared type is not the inferred one, `attribute`, or `unknown_primitive`.
/// Allocates at most 100 bytes for each byte of the text and 1000 more.
Graph graph_from_json(std::string_view text, const PrimitiveSet& set = standard_primitives());
Result<Graph> try_graph_from_json(std::string_view text, const PrimitiveSet& set = standard_primitives());

}  // namespace tidu
