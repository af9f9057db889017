// dot.hpp - a graph as Graphviz text: inputs, externals, operations and outputs as nodes, values as edges
// with their types.
#pragma once

#include <string>

#include "tidu/graph/graph.hpp"

namespace tidu {

/// Options of a drawing.
struct DotOptions {
  bool left_to_right = false;         ///< instead of top to bottom
  bool inner_graphs = true;           ///< draw the graphs that operations hold, as clusters beside
  bool keys = false;                  ///< write the content address of every value below its type
  std::size_t max_operations = 2000;  ///< values and operations of one graph; the rest is omitted, with a
                                      ///< note, to keep the picture readable
};

/// Text for `dot -Tsvg`. Primal operations are blue, linear ones orange (with a bold edge into each operand
/// they are linear in), inputs green ellipses, externals grey and dashed, outputs double circles in their
/// order. Never fails for a valid graph.
std::string to_dot(const Graph& graph, const DotOptions& options = {});

}  // namespace tidu
