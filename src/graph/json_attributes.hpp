// json_attributes.hpp - attributes of operations between dumps and Attribute, by the kind that the
// primitive's schema states.
#pragma once

#include <functional>
#include <limits>
#include <string>

#include "graph/json_tape.hpp"
#include "tidu/graph/attribute.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/op.hpp"

namespace tidu::detail {

/// Functions that read and write a graph in an attribute; their provider counts the levels. For kind `rule`
/// the graph may be deferred.
using ReadGraph = std::function<Attribute(JsonTape::Index, AttributeKind)>;
using WriteGraph = std::function<void(std::string&, const Graph&)>;
/// By which name a deferred graph is written.
using NameDeferred = std::function<std::string(const DeferredGraph&)>;
std::string own_name(const DeferredGraph& graph);

/// The attributes of an operation of `primitive` from the object at `node`. Throws Error (dump, attribute).
Attributes attributes_from_json(const JsonTape& tape, JsonTape::Index node, const Primitive& primitive,
                                const ReadGraph& read_graph);

/// The same from text: {"axes": [0]}. Graphs in it are dumps, of primitives of `set`.
Attributes attributes_from_text(std::string_view text, const Primitive& primitive, const PrimitiveSet& set);

/// Appends {"name": value, ...} of the attributes that differ from their defaults; appends nothing when there
/// are none. If a tensor has more than `max_elements` elements, the first ones are written, and "elided": the
/// number of the others, for people to read.
void append_attributes(std::string& out, std::string_view before, const OpRecord& op,
                       const WriteGraph& write_graph,
                       std::int64_t max_elements = std::numeric_limits<std::int64_t>::max(),
                       const NameDeferred& name_deferred = own_name);

/// Is it, so that append_json_string writes it as it is?
bool is_utf8(std::string_view text);
/// The text with replacement characters for invalid UTF-8.
std::string replaced_utf8(std::string_view text);
void append_json_string(std::string& out, std::string_view text);
void append_json_integer(std::string& out, std::int64_t value);

}  // namespace tidu::detail
