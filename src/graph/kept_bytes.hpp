// kept_bytes.hpp - KeptBytes: the number of bytes that graphs keep alive, for caches that hold graphs.
// Literals count with all their elements, arrays of operations and values by an estimate. A graph or literal
// that occurs several times, at any depth, counts once.
#pragma once

#include <cstddef>
#include <unordered_set>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/graph/op.hpp"

namespace tidu::detail {

/// An estimate of a graph's own arrays.
inline std::size_t array_bytes(const Graph& graph) {
  return 64 * std::size_t{graph.num_operations()} + 40 * graph.num_values();
}

class KeptBytes {
 public:
  /// Graphs nest at most max_graph_depth deep, and so do these calls.
  void add(const Graph& graph) {
    if (!graphs_.insert(&graph.data()).second) return;
    arrays_ += array_bytes(graph);
    for (const OperationRecord& record : graph.data().operations) {
      for (const auto& [name, value] : record.op->attributes) {
        if (const auto* const literal = value.get_if<Literal>()) {
          if (literals_.insert(literal->bytes()).second) literal_bytes_ += literal->type().bytes();
        }
        for (const auto& inner : value.graphs()) add(Graph(inner));
      }
    }
  }
  /// Bytes of the literals of all graphs that were added.
  std::size_t literals() const { return literal_bytes_; }
  /// Bytes of the literals and arrays.
  std::size_t all() const { return literal_bytes_ + arrays_; }

 private:
  std::unordered_set<const GraphData*> graphs_;
  std::unordered_set<const std::byte*> literals_;
  std::size_t literal_bytes_ = 0, arrays_ = 0;
};

}  // namespace tidu::detail
