// json_write.hpp - writing a graph's dump into a larger text, with graphs in attributes as the caller wants
// them.
#pragma once

#include <string>

#include "graph/json_attributes.hpp"
#include "tidu/graph/json.hpp"

namespace tidu::detail {

/// Appends what to_json gives, without the last newline, but has `nested` write the graphs that attributes
/// hold, and cuts tensors after `max_elements` elements as append_attributes does.
void append_graph_json(std::string& out, const Graph& graph, DumpOptions options, const WriteGraph& nested,
                       std::int64_t max_elements);

}  // namespace tidu::detail
