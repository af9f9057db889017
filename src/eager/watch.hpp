// watch.hpp - BackwardObserver, which sees every cotangent of a backward call, and Watch, which notes for
// each node and leaf the incoming and outgoing cotangents that are zero.
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

/// Receives the cotangents of each node and leaf of a backward call.
class BackwardObserver {
 public:
  enum class When : std::uint8_t {
    arrived,  ///< sums of incoming cotangents, by output slot
    left,     ///< the same after hooks, if there are any
    made,     ///< results of the transposed graph, by edge
    sent      ///< the same after hooks, if there are any
  };
  /// `cotangents`: null if absent.
  virtual void see(When when, const Node& node, std::span<Cotangent* const> cotangents) = 0;

 protected:
  ~BackwardObserver() = default;
};

/// Knowledge about a cotangent. A sum has the greatest of its terms' values.
enum class Flow : std::uint8_t { absent, zero, there };

/// Observations of a node or leaf.
struct NodeFlow {
  std::vector<Flow> arrived, left;  ///< by output slot
  std::vector<Flow> made, sent;     ///< by edge; empty if it did not run
};

class Watch final : public BackwardObserver {
 public:
  explicit Watch(const ErasedExecutor& host) : host_(host) {}
  void see(When when, const Node& node, std::span<Cotangent* const> cotangents) override;
  /// The observations of a node that is not a leaf, or null.
  const NodeFlow* find(const Node* node) const;
  /// The observations of a leaf, or null.
  const NodeFlow* find(const Key& leaf) const;
  Flow flow_of(const void* operand) const;

 private:
  const ErasedExecutor& host_;
  std::mutex mutex_;
  std::unordered_map<const Node*, NodeFlow> nodes_;
  std::map<Key, NodeFlow> leaves_;
};

/// Memory for one operand of the table's type. The caller constructs it; the destructor destroys it.
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
