// arrivals.cpp - see arrivals.hpp.
#include "eager/arrivals.hpp"

#include <algorithm>
#include <vector>

#include "eager/node.hpp"

namespace tidu::eager::detail {

void Arrivals::note(const Node& target, const Node& from) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto before = first_.find(&from);
  const bool root = before == first_.end();
  const std::size_t length = root ? 2 : before->second.length + 1;
  const bool early = length <= Path::named;
  first_.try_emplace(&target, Arrival{&from, length, early ? &target : before->second.early});
}

Path Arrivals::path_to(const Node& node) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto append = [this](std::vector<const Node*>& part, const Node* at, std::size_t most) {
    while (at != nullptr && part.size() < most) {
      part.push_back(at);
      const auto before = first_.find(at);
      at = before != first_.end() ? before->second.from : nullptr;
    }
    std::reverse(part.begin(), part.end());
  };
  Path path;
  const auto last = first_.find(&node);
  const std::size_t length = last != first_.end() ? last->second.length : 1;
  if (length > 2 * Path::named) {
    append(path.first, last->second.early, Path::named);
    append(path.last, &node, Path::named);
    path.omitted = length - 2 * Path::named;
  } else {
    append(path.last, &node, length);
  }
  return path;
}

}  // namespace tidu::eager::detail
