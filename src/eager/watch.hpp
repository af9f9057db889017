// watch.hpp - what is told of every cotangent of a backward call, and Watch, which notes for each node and
// leaf which of those that came in and went out are zero.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "eager/node.hpp"
#include "tidu/eager/host.hpp"

namespace tidu::eager::detail {

/// Told of the cotangents of each node and leaf of a backward call.
class BackwardObserver {
 public:
  enum class When : std::uint8_t {
    arrived,  ///< sums of what came in, by output slot
    left,     ///< the same after hooks, where there are any
    made,     ///< what the transposed graph gave, by edge
    sent      ///< the same after hooks, where there are any
  };
  /// `cells`: null where absent.
  virtual void see(When when, const Node& node, std::span<Cell* const> cells) = 0;

 protected:
  ~BackwardObserver() = default;
};

/// What is known of a cotangent, in the order in which sums are formed from it.
enum class Flow : std::uint8_t { absent, zero, there };

/// What was seen of a node or leaf.
struct NodeFlow {
  std::vector<Flow> arrived, left;  ///< by output slot
  std::vector<Flow> made, sent;     ///< by edge; empty for what did not run
};

class Watch final : public BackwardObserver {
 public:
  explicit Watch(const ErasedExecutor& host) : host_(host) {}
  void see(When when, const Node& node, std::span<Cell* const> cells) override;
  /// Of a node that is no leaf, or null.
  const NodeFlow* find(const Node* node) const;
  /// Of a leaf, or null.
  const NodeFlow* find(const Key& leaf) const;
  Flow flow_of(const void* operand) const;

 private:
  const ErasedExecutor& host_;
  std::mutex mutex_;
  std::unordered_map<const Node*, NodeFlow> nodes_;
  std::map<Key, NodeFlow> leaves_;
};

/// An operand of the table's type; made by the caller, destroyed here.
class HeldOperand {
 public:
  explicit HeldOperand(const OperandTable& table) : table_(table), data_(::operator new(table.size)) {}
  HeldOperand(const HeldOperand&) = delete;
  HeldOperand& operator=(const HeldOperand&) = delete;
  ~HeldOperand() {
    if (filled) table_.destroy(data_);
    ::operator delete(data_);
  }
  void* get() { return data_; }
  bool filled = false;

 private:
  const OperandTable& table_;
  void* data_;
};

}  // namespace tidu::eager::detail
