// ready.hpp - ReadyQueues: the nodes and leaves of a backward call whose cotangents have all arrived, by
// device, and the order in which they run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "eager/states.hpp"
#include "tidu/eager/backward.hpp"

namespace tidu::eager::detail {

/// Ready work of one device: leaves first, then the node with the highest priority.
class ReadyQueue {
 public:
  bool empty() const { return nodes_.empty() && leaves_.empty(); }
  bool has_leaves() const { return !leaves_.empty(); }
  bool has_nodes() const { return !nodes_.empty(); }
  void push(std::uint64_t priority, State& state) {
    nodes_.push_back({priority, state.node->first_key.source, &state});
    std::push_heap(nodes_.begin(), nodes_.end());
  }
  void push_leaf(std::uint32_t index) { leaves_.push_back(index); }
  State& pop_node() {
    if (announced_ > 0) --announced_;
    std::pop_heap(nodes_.begin(), nodes_.end());
    State& state = *nodes_.back().state;
    nodes_.pop_back();
    return state;
  }
  /// Returns the index of a leaf.
  std::uint32_t pop_leaf() {
    if (announced_ > 0) --announced_;
    const std::uint32_t leaf = leaves_.back();
    leaves_.pop_back();
    return leaf;
  }
  /// Number of nodes and leaves that were added since the last call, and are still there.
  std::size_t announce() {
    const std::size_t count = nodes_.size() + leaves_.size();
    return count - std::min(count, std::exchange(announced_, count));
  }

 private:
  struct Ready {
    std::uint64_t priority;
    std::uint64_t source;
    State* state;
    friend bool operator<(const Ready& a, const Ready& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.source < b.source;
    }
  };
  std::vector<Ready> nodes_;  // a heap
  std::vector<std::uint32_t> leaves_;
  std::size_t announced_ = 0;
};

/// With several threads, all functions need the lock of the run (parallel.cpp).
class ReadyQueues {
 public:
  /// `options` must outlive the queues.
  explicit ReadyQueues(const BackwardOptions& options) : options_(options) {}

  /// Gives each device a queue of its own. Without, all work is in the host's queue.
  void separate_devices() { by_device_ = true; }
  ReadyQueue& host() { return host_; }
  ReadyQueue& of(std::uint32_t device) { return device == 0 || !by_device_ ? host_ : devices_[device]; }
  /// The queues of devices other than the host, by device.
  std::map<std::uint32_t, ReadyQueue>& devices() { return devices_; }

  void push(State& state) {
    state.listed = true;
    ++pushed_;
    of(state.node->device).push(priority_of(*state.node), state);
  }
  /// `index`: of the leaf in its list.
  void push(LeafState& leaf, std::uint32_t index) {
    leaf.done = true;
    of(leaf.node->device).push_leaf(index);
  }

 private:
  // Of the node that is pushed now.
  std::uint64_t priority_of(const Node& node) const {
    switch (options_.order) {
      case Order::latest_first: break;
      case Order::fifo: return ~pushed_;
      case Order::lifo: return pushed_;
      case Order::random:
        return tidu::detail::fold(pushed_ ^ 0x8ebc6af09c88c6e3ULL, options_.order_seed | 1U);
    }
    return node.sequence;
  }

  const BackwardOptions& options_;
  bool by_device_ = false;
  ReadyQueue host_;
  std::map<std::uint32_t, ReadyQueue> devices_;
  std::uint64_t pushed_ = 0;
};

}  // namespace tidu::eager::detail
