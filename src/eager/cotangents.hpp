// cotangents.hpp - CotangentOps: operations on cotangents that one backward call does by the executor: it
// moves them to other devices, adds them, converts and checks them, and records the additions for higher
// orders.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "eager/anomaly.hpp"
#include "eager/states.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/eager/host.hpp"

namespace tidu::eager::detail {

/// Refers to the request. Its functions touch only the cotangents that they are given, so threads may call
/// them at the same time. `set` is the primitive set of the program that sends a cotangent, or null; `target`
/// is the node that receives it.
class CotangentOps {
 public:
  explicit CotangentOps(const BackwardRequest& backward_request);

  /// Waits, on the device and stream of `placement`, until the cotangent is there.
  void move_to(Cotangent& cotangent, Placement placement) const;
  /// into + from, on the device of `target`; `from` is consumed in any case. A second 16-bit cotangent may be
  /// chained to `into` first, and a sum of three may be held in f32: see complete_sum().
  void accumulate(Cotangent* into, Cotangent* from, const PrimitiveSet* set, const Node& target) const;
  /// Adds `from` to `into`.
  void add(Cotangent& into, const Cotangent& from, const PrimitiveSet* set, Placement placement) const;
  /// Must be called before a sum by accumulate() is read: adds chained cotangents, and rounds the sum to
  /// `type`.
  void complete_sum(Cotangent& sum, Type type, const PrimitiveSet* set, const Node& target) const {
    if (sum.next != nullptr || sum.type != type) complete_narrow_sum(sum, type, set, target);
  }
  /// Adds up waiting cotangents, in descending order of (sequence, source, edge) for each slot.
  void fold_waiting(Cotangent*& waiting, std::span<Cotangent*> by_slot, const PrimitiveSet* set,
                    const Node& target) const;
  /// Converts the cotangent to another dtype, in place.
  void convert(Cotangent& cotangent, DType dtype, const PrimitiveSet& set, const Node& target) const;
  /// Does the set have a conversion?
  static bool can_convert(const PrimitiveSet* set) {
    return set != nullptr && set->transform_ops().convert != nullptr;
  }
  Cotangent* duplicate(const Cotangent& cotangent) const;

  /// Asks the executor what it tells about operands, of which `seed` is one. Returns its type, if the
  /// executor describes it. Must be called before other functions.
  std::optional<Type> learn_from(const Cotangent& seed);
  /// The type of the operand, if the executor describes operands.
  std::optional<Type> type_of(const Cotangent& cotangent) const {
    return knows_types_ ? host_.describe(cotangent.operand()) : std::nullopt;
  }
  /// Throws Error (type) if the executor describes the cotangent by another type. Messages name `node`, and
  /// the cotangent by `who`, `what` and `index`.
  void check_type(const Cotangent& cotangent, Type expected, const Node& node, const char* who,
                  const char* what, std::size_t index) const;
  /// Throws Error (type) if a cotangent that a node returned is on another device than the node.
  void check_device(const Cotangent& cotangent, const Node& node, std::size_t input) const;

  const bool creates_graph;
  const bool wide_accumulation;  ///< requested, and supported by the executor
  const Looker looker;           ///< anomaly mode

 private:
  void complete_narrow_sum(Cotangent& sum, Type type, const PrimitiveSet* set, const Node& target) const;
  void record_in_place(Cotangent& cotangent, const RecordedGraph& graph, std::span<const RecordInput> inputs,
                       Placement placement) const;

  const BackwardRequest& request_;
  const ErasedExecutor& host_;
  const BackwardOptions& options_;
  const OperandTable& table_;
  bool knows_types_ = false;    // the executor describes operands
  bool knows_devices_ = false;  // and gives their devices
};

/// Destroys the remaining cotangents, and the cotangents chained to them.
class CotangentGuard {
 public:
  CotangentGuard(const OperandTable& operands, std::span<Cotangent*> guarded)
      : table_(operands), cotangents_(guarded) {}
  CotangentGuard(const CotangentGuard&) = delete;
  CotangentGuard& operator=(const CotangentGuard&) = delete;
  ~CotangentGuard() {
    for (Cotangent* cotangent : cotangents_)
      while (cotangent != nullptr) destroy_cotangent(table_, std::exchange(cotangent, cotangent->next));
  }

 private:
  const OperandTable& table_;
  std::span<Cotangent*> cotangents_;
};

}  // namespace tidu::eager::detail
