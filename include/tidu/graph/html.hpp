// html.hpp - a graph as one HTML file to look at in a browser: nothing is loaded from elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tidu/graph/graph.hpp"

namespace tidu {

/// What the page holds.
struct HtmlOptions {
  std::string_view stage{};  ///< what the page says the graph is: "primal", "transposed", … or nothing
  bool keys = true;          ///< with the content address of every value
  /// Of a tensor in an attribute that has more elements, that many are in the page; it says how many are not.
  std::int64_t max_elements = 256;
};

/// A page that shows the graph in layers, parts that repeat and graphs that operations hold folded until they
/// are asked for; searches it, and tells types, attributes, origins, keys and the bytes of residuals. All of
/// the graph is in it, as JSON in the element with the id "data":
///
///     {"format": "tidu.view", "version": 1, "stage": "primal", "graphs": [...]}
///
/// where graph 0 is `graph`, each as to_json gives it except that attributes hold {"graph": number of the
/// graph in the list}, each distinct graph once. In the text of the page every '<' of the JSON stands
/// escaped, so that no name can end the element. The same graph gives the same bytes. Linear in the size of
/// the distinct graphs, without recursion. Text that is not UTF-8 is written with replacement characters.
std::string to_html(const Graph& graph, const HtmlOptions& options = {});

}  // namespace tidu
