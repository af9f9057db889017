// input_index.hpp - the inputs of a graph by name, for many lookups.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>

#include "tidu/graph/graph.hpp"

namespace tidu::detail {

/// Finds as Graph::find_input does, in constant time. Refers to the graph.
class InputIndex {
 public:
  explicit InputIndex(const Graph& graph) : graph_(graph) {
    if (graph.inputs().size() <= few) return;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      by_key_.emplace(graph.input_key(i).bits(), i);
      if (const std::string_view label = graph.label(graph.inputs()[i]); !label.empty())
        by_label_.emplace(label, i);
    }
  }

  std::optional<std::size_t> find(std::string_view name) const {
    if (graph_.inputs().size() <= few) return graph_.find_input(name);
    auto at = by_key_.find(InputKey::named(name).bits());
    if (const std::optional<Key128> digits = parse_hex(name)) {
      const auto other = by_key_.find(*digits);
      if (at == by_key_.end() || (other != by_key_.end() && other->second < at->second)) at = other;
    }
    if (at != by_key_.end()) return at->second;
    const auto labelled = by_label_.find(name);
    return labelled != by_label_.end() ? std::optional<std::size_t>(labelled->second) : std::nullopt;
  }

 private:
  static constexpr std::size_t few = 16;
  const Graph& graph_;
  std::unordered_map<Key128, std::size_t> by_key_;  // of several the first, as below
  std::unordered_map<std::string_view, std::size_t> by_label_;
};

}  // namespace tidu::detail
