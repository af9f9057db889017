// arrivals.hpp - Arrivals: anomaly mode's record of which node sent each node its first cotangent. Messages
// name the path from a root of the backward call to the node of an anomaly.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "eager/anomaly.hpp"

namespace tidu::eager::detail {

class Arrivals {
 public:
  /// `from` sent a cotangent to `target`. Only the first call for a target counts.
  void note(const Node& target, const Node& from);
  /// The path from a root to the node. Walks only as far as messages name it, so that its cost does not
  /// depend on the length of the tape.
  Path path_to(const Node& node);

 private:
  struct Arrival {
    const Node* from;
    std::size_t length;  // of the path from a root to the node, both included
    const Node* early;   // the last node at the beginning of the path that messages name
  };
  std::mutex mutex_;
  std::unordered_map<const Node*, Arrival> first_;  // by node, without roots
};

}  // namespace tidu::eager::detail
