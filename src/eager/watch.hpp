// watch.hpp - WatchingHost: an executor that does what another one does, and notes for each node of a
// backward call which of the cotangents that came in and went out are zero.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "eager/node.hpp"
#include "tidu/eager/host.hpp"

namespace tidu::eager::detail {

/// What is known of a cotangent, in the order in which sums are formed from it.
enum class Flow : std::uint8_t { absent, zero, there };

/// What was seen of a node.
struct NodeFlow {
  std::vector<Flow> incoming;  ///< by output slot
  std::vector<Flow> outgoing;  ///< by edge
};

class WatchingHost final : public Host {
 public:
  explicit WatchingHost(const Host& watched) : Host(watched.table), host_(watched) {}

  /// Of a node whose transposed graph ran, or null. For one backward call, on one thread.
  const NodeFlow* find(const Node* node) const;
  Flow flow_of(const void* operand) const;

  void execute_forward(const GraphCall& call, Inputs inputs, std::byte* out) const override {
    host_.execute_forward(call, inputs, out);
  }
  void run_transposed_linear(const GraphCall& call, Inputs inputs, std::byte* out) const override;
  void add_operands(const AddCall& call, void* a, const void* b) const override {
    host_.add_operands(call, a, b);
  }
  std::optional<Type> describe(const void* operand) const override { return host_.describe(operand); }
  std::optional<std::uint32_t> device_of(const void* operand) const override {
    return host_.device_of(operand);
  }
  bool ones_like(Type type, void* out) const override { return host_.ones_like(type, out); }
  std::optional<bool> is_finite(const void* operand) const override { return host_.is_finite(operand); }
  bool watch_finite(const void* operand, const std::function<void()>& report) const override {
    return host_.watch_finite(operand, report);
  }
  void check_watched() const override { host_.check_watched(); }
  std::optional<bool> is_zero(const void* operand) const override { return host_.is_zero(operand); }
  std::string statistics(const void* operand) const override { return host_.statistics(operand); }
  std::optional<std::uint64_t> version(const void* operand) const override { return host_.version(operand); }
  std::size_t bytes(const void* operand) const override { return host_.bytes(operand); }
  Placement current_placement() const override { return host_.current_placement(); }
  Event record(Placement placement) const override { return host_.record(placement); }
  void wait(Placement placement, const Event& event) const override { host_.wait(placement, event); }
  std::shared_ptr<const ThreadState> thread_state() const override { return host_.thread_state(); }

 private:
  const Host& host_;
  mutable std::unordered_map<const Node*, NodeFlow> seen_;
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
