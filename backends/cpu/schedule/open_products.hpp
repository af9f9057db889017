// open_products.hpp - products that equal ones may stand beside, in a product group.
//
// Note [Products]: a product joins an equal one before it where all that it reads is made before that one.
// Products too small for a thread to begin with gain nothing; large ones are shared by threads themselves.
// What many leave before it is read is no longer in the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::passes {

class OpenProducts {
 public:
  explicit OpenProducts(const Graph& graph) : graph_(graph) {}

  /// Is it a product of two arrays that may stand beside equal ones?
  static bool takes(const Graph& graph, const OperationRecord& record);
  /// The first node where it can: one that `is_open`, behind that node. 0 where there is none.
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
  /// A node that others may join.
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
