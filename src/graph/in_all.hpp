// in_all.hpp - how much there is in a graph and in those that attributes hold, at any depth, each counted in
// every place where it stands. Each is looked at once, so that this takes the time of the distinct ones.
#pragma once

#include <limits>
#include <unordered_map>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/op.hpp"

namespace tidu::detail {

/// The greatest number stands for more, too.
inline std::size_t saturating_sum(std::size_t a, std::size_t b) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return a > most - b ? most : a + b;
}

/// Sums of what `own` gives for a graph alone.
class InAll {
 public:
  using Own = std::size_t (*)(const Graph&);
  explicit InAll(Own own) : own_(own) {}

  /// Graphs nest at most max_graph_depth deep, and so do these calls.
  std::size_t of(const Graph& graph) {
    if (const auto known = known_.find(&graph.data()); known != known_.end()) return known->second;
    std::size_t sum = own_(graph);
    distinct_ = saturating_sum(distinct_, sum);
    if (graph.data().depth > 1) {
      for (const OperationRecord& record : graph.data().operations) {
        if (!record.op->primitive->has_trait(Trait::holds_graph)) continue;
        for (const auto& [name, value] : record.op->attributes) {
          for (const auto& inner : value.graphs()) sum = saturating_sum(sum, of(Graph(inner)));
        }
      }
    }
    known_.emplace(&graph.data(), sum);
    return sum;
  }
  /// Of the graphs that were looked at, each counted once.
  std::size_t distinct() const { return distinct_; }

 private:
  Own own_;
  std::size_t distinct_ = 0;
  std::unordered_map<const GraphData*, std::size_t> known_;
};

inline std::size_t operations_in_all(const Graph& graph) {
  return InAll([](const Graph& each) { return each.num_operations(); }).of(graph);
}

}  // namespace tidu::detail
