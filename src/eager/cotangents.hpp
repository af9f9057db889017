// cotangents.hpp - Cotangents: what one backward call does with cotangents through the executor: it moves
// them to other devices, adds them, converts and checks them, and records the additions for higher orders.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "eager/anomaly.hpp"
#include "eager/states.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/eager/host.hpp"

namespace tidu::eager::detail {

/// Refers to the request. Its functions touch only the cells that they are given, so threads may call them at
/// the same time. `set` is the primitive set of the program that sends a cotangent, or null; `target` is the
/// node that receives it.
class Cotangents {
 public:
  explicit Cotangents(const BackwardRequest& backward_request);

  /// Waits, on the device and stream of `placement`, until the cotangent is there.
  void move_to(Cell& cell, Placement placement) const;
  /// into + from, on the device of `target`; `from` is consumed in any case. A second 16-bit cotangent may be
  /// chained to `into` first, and a sum of three may be held in f32: see complete_sum().
  void fold(Cell* into, Cell* from, const PrimitiveSet* set, const Node& target) const;
  /// Adds `from` to `into`.
  void add(Cell& into, const Cell& from, const PrimitiveSet* set, Placement placement) const;
  /// Must be called before a sum by fold() is read: adds chained cells, and rounds the sum to `type`.
  void complete_sum(Cell& sum, Type type, const PrimitiveSet* set, const Node& target) const {
    if (sum.next != nullptr || sum.type != type) complete_narrow_sum(sum, type, set, target);
  }
  /// Adds up waiting cotangents, in descending order of (sequence, source, edge) for each slot.
  void fold_waiting(Cell*& waiting, std::span<Cell*> by_slot, const PrimitiveSet* set,
                    const Node& target) const;
  /// Converts the cotangent to another dtype, in place.
  void convert(Cell& cell, DType dtype, const PrimitiveSet& set, const Node& target) const;
  /// Does the set's vocabulary have a conversion?
  static bool can_convert(const PrimitiveSet* set) {
    return set != nullptr && set->vocabulary().convert != nullptr;
  }
  Cell* duplicate(const Cell& cell) const;

  /// Asks the executor what it tells about operands, of which `seed` is one. Returns its type, if the
  /// executor describes it. Must be called before other functions.
  std::optional<Type> learn_from(const Cell& seed);
  /// The type of the operand, if the executor describes operands.
  std::optional<Type> type_of(const Cell& cell) const {
    return knows_types_ ? host_.describe(cell.operand()) : std::nullopt;
  }
  /// Throws Error (type) if the executor describes the cotangent by another type. Messages name `node`, and
  /// the cotangent by `who`, `what` and `index`.
  void check_type(const Cell& cell, Type expected, const Node& node, const char* who, const char* what,
                  std::size_t index) const;
  /// Throws Error (type) if a cotangent that a node returned is on another device than the node.
  void check_device(const Cell& cell, const Node& node, std::size_t input) const;

  const bool creates_graph;
  const bool wide_accumulation;  ///< requested, and supported by the executor
  const Looker looker;           ///< anomaly mode

 private:
  void complete_narrow_sum(Cell& sum, Type type, const PrimitiveSet* set, const Node& target) const;
  void record_in_place(Cell& cell, const RecordedGraph& graph, std::span<const RecordInput> inputs,
                       Placement placement) const;

  const BackwardRequest& request_;
  const ErasedExecutor& host_;
  const BackwardOptions& options_;
  const OperandTable& table_;
  bool knows_types_ = false;    // the executor describes operands
  bool knows_devices_ = false;  // and gives their devices
};

/// Destroys the remaining cells, and the cells chained to them.
class CellGuard {
 public:
  CellGuard(const OperandTable& operands, std::span<Cell*> guarded) : table_(operands), cells_(guarded) {}
  CellGuard(const CellGuard&) = delete;
  CellGuard& operator=(const CellGuard&) = delete;
  ~CellGuard() {
    for (Cell* cell : cells_)
      while (cell != nullptr) destroy_cell(table_, std::exchange(cell, cell->next));
  }

 private:
  const OperandTable& table_;
  std::span<Cell*> cells_;
};

}  // namespace tidu::eager::detail
