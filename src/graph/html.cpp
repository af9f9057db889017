// html.cpp - the graphs that a page shows: the given one, then those that operations hold, each distinct one
// once, from a work list: no recursion.
#include "tidu/graph/html.hpp"

#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/json_write.hpp"
#include "graph/view_page.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {

std::string to_html(const Graph& graph, const HtmlOptions& options) {
  std::vector<std::shared_ptr<const GraphData>> graphs{graph.share()};
  std::unordered_map<const GraphData*, std::size_t> numbers{{graph.share().get(), 0}};
  const detail::WriteGraph reference = [&](std::string& out, const Graph& held) {
    const auto [at, added] = numbers.try_emplace(held.share().get(), graphs.size());
    if (added) graphs.push_back(held.share());
    out += "{\"graph\": ";
    detail::append_json_integer(out, static_cast<std::int64_t>(at->second));
    out += '}';
  };

  std::string json = R"({"format": "tidu.view", "version": 1, "stage": )";
  detail::append_json_string(json, options.stage);
  json += ", \"graphs\": [\n";
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    if (i != 0) json += ",\n";
    const Graph each(graphs[i]);
    detail::append_graph_json(json, each, {.keys = options.keys}, reference, options.max_elements);
  }
  json += "]}";

  std::string title = graph.name().empty() ? "graph" : graph.name();
  if (!options.stage.empty()) title += detail::str(" (", options.stage, ')');
  return detail::view_page(title + " - tidu", json);
}

}  // namespace tidu
