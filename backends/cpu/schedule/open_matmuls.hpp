// open_matmuls.hpp - OpenMatmuls: nodes of grouped matmuls that further equal matmuls may join.
//
// Note [Matmuls]: a matmul joins an equal earlier one if all its operands are available before that one. The
// tiniest matmuls gain nothing from this, and large ones already use several threads. The results of a group
// have a limited size, so that they are still in the caches when they are read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::passes {

class OpenMatmuls {
 public:
  explicit OpenMatmuls(const Graph& graph) : graph_(graph) {}

  /// Is the operation a matmul of two arrays, of a size that gains from grouping?
  static bool takes(const Graph& graph, const OperationRecord& record);
  /// The first node after `behind` that the matmul can join and for which `is_open` holds; 0 if there is
  /// none.
  template <class IsOpen>
  std::uint32_t find(const OperationRecord& record, std::uint32_t behind, const IsOpen& is_open) {
    std::vector<Group>& groups = groups_[key_of(record)];
    const std::size_t bytes = graph_.type(record.first_output).bytes();
    std::erase_if(groups,
                  [&](const Group& group) { return !is_open(group.node) || group.bytes + bytes > max_left; });
    const auto ready =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.node > behind; });
    if (ready == groups.end()) return 0;
    ready->bytes += bytes;
    return ready->node;
  }
  /// Adds a node that other matmuls may join.
  void add(const OperationRecord& record, std::uint32_t node);

 private:
  static constexpr std::size_t max_left = std::size_t{1} << 19;  // bytes
  using Key = std::tuple<const OpRecord*, const void*, const void*>;
  struct Group {
    std::uint32_t node;
    std::size_t bytes;  // of its results
  };
  Key key_of(const OperationRecord& record) const;

  const Graph& graph_;
  std::map<Key, std::vector<Group>> groups_;  // by attributes and types, in order
};

}  // namespace tidu::passes
