// captures.hpp - Captures: the requested values of a backward call that are outputs of nodes, and copies of
// their cotangents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "eager/cotangents.hpp"
#include "eager/node.hpp"

namespace tidu::eager::detail {

/// Owns the copies. Requests are added before the first node runs; after that, threads may use it at the same
/// time for different nodes.
class Captures {
 public:
  Captures(const OperandTable& table, std::size_t requests) : table_(table), cotangents_(requests, nullptr) {}
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;
  ~Captures() {
    for (Cotangent* cotangent : cotangents_)
      if (cotangent != nullptr) destroy_cotangent(table_, cotangent);
  }

  /// An output of `node` is the value with that number among the requested ones.
  void add(const Node& node, std::uint32_t slot, std::uint32_t request) {
    requests_.emplace(std::pair(&node, slot), request);
  }
  bool contains(const Node& node, std::uint32_t slot) const { return requests_.contains({&node, slot}); }
  /// Copies the cotangents of requested outputs of the node.
  void take(const Node& node, std::span<Cotangent* const> by_slot, const CotangentOps& cotangents) {
    for (auto at = requests_.lower_bound({&node, 0}); at != requests_.end() && at->first.first == &node;
         ++at) {
      const Cotangent* cotangent = by_slot[at->first.second];
      if (cotangent != nullptr) cotangents_[at->second] = cotangents.duplicate(*cotangent);
    }
  }
  /// By request; null: none, or a leaf's.
  std::span<Cotangent* const> cotangents() const { return cotangents_; }
  /// The caller becomes the owner.
  Cotangent* release(std::size_t request) { return std::exchange(cotangents_[request], nullptr); }

 private:
  const OperandTable& table_;
  std::map<std::pair<const Node*, std::uint32_t>, std::uint32_t> requests_;  // by node and slot
  std::vector<Cotangent*> cotangents_;
};

}  // namespace tidu::eager::detail
