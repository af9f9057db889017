// html.hpp - a graph as one HTML file to look at in a browser: nothing is loaded from elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tidu/graph/graph.hpp"

namespace tidu {

/// Options of the page.
struct HtmlOptions {
  std::string_view stage{};  ///< caption of the page: "primal", "transposed", … or empty
  bool keys = true;          ///< with the content address of every value
  /// Elements of a tensor in an attribute that the page shows; it says how many more there are.
  std::int64_t max_elements = 256;
};

/// A page that shows the graph in layers. Repeated parts and the graphs in attributes are collapsed at first.
/// The page has a search, and shows types, attributes, origins, keys and the bytes of residuals. It holds the
/// whole graph as JSON in the element with the id "data":
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
