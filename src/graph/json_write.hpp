// json_write.hpp - writes a graph's dump into a larger text; the caller writes the graphs in attributes.
#pragma once

#include <string>

#include "graph/json_attributes.hpp"
#include "tidu/graph/json.hpp"

namespace tidu::detail {

/// Appends the text of to_json, without the last newline. `nested` writes the graphs in attributes, and
/// tensors are cut after `max_elements` elements as in append_attributes.
void append_graph_json(std::string& out, const Graph& graph, DumpOptions options, const WriteGraph& nested,
                       std::int64_t max_elements);

}  // namespace tidu::detail
