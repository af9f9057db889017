// schedule.hpp - the tree of what a Program runs, and the places where its values live.
//
// The tree lies flat, in pre-order: a node's children follow it, and `size` counts the node and all below it.
// Leaves are operations and blocked loops; a fused group runs its operations element by element, a product
// group its products side by side, a blocked loop a program of its own once for each block of an axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu {

class Program;  // program.hpp

/// What a node of the schedule is.
enum class NodeKind : std::uint8_t {
  operation,    ///< one operation of the graph
  fused_group,  ///< element-wise operations with the broadcasts and reductions at their edges, without memory
                ///< between them
  blocked_loop,  ///< operations that run on one block of an axis after another, as programs of a block's size
  product_group  ///< equal small products of which none needs another, in any order or at once
};
/// The name in words.
constexpr std::string_view to_string(NodeKind kind) {
  constexpr std::string_view names[] = {"operation", "fused group", "blocked loop", "product group"};
  return names[static_cast<std::size_t>(kind)];
}

/// One node of the schedule.
struct ScheduleNode {
  NodeKind kind = NodeKind::operation;  ///< what it is
  /// Of an operation: its index in the graph. Of a blocked loop: its index in Schedule::loops. Of a fused
  /// group: the elements of a row (see passes::fused_schedule), or 0. Of a product group: 0.
  std::uint32_t index = 0;
  /// Nodes in the subtree, this one included; 1 for an operation or a blocked loop.
  std::uint32_t size = 1;
};

/// A blocked loop: `extent` points of an axis in blocks of `block`, the last one perhaps shorter. For each
/// block a program runs. Its inputs are the operands, whole or the block's part of them, and then, for each
/// result that is a sum over the axis, the sum so far; its outputs are the results: the block's part, or the
/// sum so far with the block's term.
struct BlockedLoop {
  /// In the place of an axis: the operand is read whole; the result is a sum.
  static constexpr int none = -1;
  /// An operand or result.
  struct Value {
    ValueId id = 0;   ///< the value
    int axis = none;  ///< which axis of it is cut, or none
  };
  std::int64_t extent = 0;              ///< points of the axis
  std::int64_t block = 0;               ///< points of one block
  std::vector<Value> operands;          ///< what it reads; a value may be read whole and in parts
  std::vector<Value> results;           ///< what it leaves
  std::shared_ptr<const Program> body;  ///< for a block
  std::shared_ptr<const Program> rest;  ///< for the last one; null where all are of one length
  std::uint32_t num_operations = 0;     ///< of the graph, that run in it
};

/// The tree, flat.
struct Schedule {
  std::vector<ScheduleNode> nodes;  ///< in pre-order
  std::vector<BlockedLoop> loops;   ///< by index of a blocked_loop node
};

/// Where a slot's bytes are.
enum class Storage : std::uint8_t {
  input,     ///< the caller's tensor; `index` is its position
  constant,  ///< made once when the program is compiled; `index` is the value that an operation without
             ///< operands makes
  output,    ///< the tensor that is handed back; `index` is its position
  small,     ///< the workspace's region of small values, at `offset`
  large      ///< the workspace's region of large values, at `offset`
};
/// The name of the enumerator.
constexpr std::string_view to_string(Storage storage) {
  constexpr std::string_view names[] = {"input", "constant", "output", "small", "large"};
  return names[static_cast<std::size_t>(storage)];
}

/// A place for values; several values may use it one after another.
struct Slot {
  Storage storage = Storage::small;  ///< where the bytes are
  std::uint32_t index = 0;           ///< see Storage
  std::size_t offset = 0;  ///< bytes from the start of the region, a multiple of 16 (small) or 64 (large); of
                           ///< an output's part (see PlacedPart) from the start of that; 0 elsewhere
  std::size_t bytes = 0;   ///< how many
};

/// Index of a slot.
using SlotId = std::uint32_t;

/// The memory plan: a slot for each value that a node of the schedule's first level makes or reads.
struct SlotPlan {
  std::vector<Slot> slots;         ///< by SlotId
  std::vector<SlotId> slot_of;     ///< by value; no_index where there is none
  std::size_t small_bytes = 0;     ///< of the region of small values
  std::size_t large_bytes = 0;     ///< of the region of large values
  std::size_t constant_bytes = 0;  ///< of constants
  std::size_t output_bytes = 0;    ///< of outputs that are handed back
  std::size_t block_bytes = 0;     ///< of one block of a blocked loop, for each thread that runs blocks
  std::uint32_t in_place = 0;      ///< results that took the place of an operand
};

}  // namespace tidu
