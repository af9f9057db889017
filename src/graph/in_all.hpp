// in_all.hpp - sums over a graph and the graphs in its attributes, at any depth, each counted once for every
// occurrence. Each distinct graph is visited once, so that the time is proportional to the distinct graphs.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/op.hpp"

namespace tidu::detail {

/// The greatest number stands for more, too.
inline std::size_t saturating_sum(std::size_t a, std::size_t b) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return a > most - b ? most : a + b;
}

/// Sums of `own` of single graphs; `counts`, if given, selects the inner graphs that contribute.
class InAll {
 public:
  using Own = std::size_t (*)(const Graph&);
  using Counts = bool (*)(const Operation& holder, std::string_view attribute, const GraphData& inner);
  explicit InAll(Own own, Counts counts = nullptr) : own_(own), counts_(counts) {}

  /// Graphs nest at most max_graph_depth deep, and so do these calls.
  std::size_t of(const Graph& graph) {
    if (const auto known = known_.find(&graph.data()); known != known_.end()) return known->second;
    std::size_t sum = own_(graph);
    distinct_ = saturating_sum(distinct_, sum);
    if (graph.data().depth > 1) {
      for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
        const OpRecord& op = *graph.data().operations[i].op;
        if (!op.primitive->has_trait(Trait::holds_graph)) continue;
        for (const auto& [name, value] : op.attributes) {
          for (const auto& inner : value.graphs()) {
            if (counts_ == nullptr || counts_(graph.operation(i), name, *inner))
              sum = saturating_sum(sum, of(Graph(inner)));
          }
        }
      }
    }
    known_.emplace(&graph.data(), sum);
    return sum;
  }
  /// The number of distinct graphs that were visited.
  std::size_t distinct() const { return distinct_; }

 private:
  Own own_;
  Counts counts_;
  std::size_t distinct_ = 0;
  std::unordered_map<const GraphData*, std::size_t> known_;
};

inline std::size_t operations_in_all(const Graph& graph, InAll::Counts counts = nullptr) {
  return InAll([](const Graph& each) { return each.num_operations(); }, counts).of(graph);
}

}  // namespace tidu::detail
