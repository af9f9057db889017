// schedule.hpp - Schedule and SlotPlan: the tree of nodes that a Program runs, and the buffers of its values.
//
// The tree is stored flat, in pre-order: the children of a node follow it, and `size` counts the node and its
// descendants. Leaves are operations and tiled loops. A fusion runs its operations element by element, and
// a tiled loop (blocked_loop) runs a program of its own for each block of an axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu {

class Program;  // program.hpp

/// The kind of a node.
enum class NodeKind : std::uint8_t {
  operation,  ///< one operation of the graph
  fusion,     ///< element-wise operations with the broadcasts and reductions at their edges; values between
              ///< them have no memory
  blocked_loop,  ///< a tiled loop: operations that run on one block of an axis after another, as programs of
                 ///< the block's size
  fused_group [[deprecated("use fusion")]] = fusion  ///< the former name
};
/// The name of the kind.
constexpr std::string_view to_string(NodeKind kind) {
  constexpr std::string_view names[] = {"operation", "fusion", "blocked loop"};
  return names[static_cast<std::size_t>(kind)];
}

/// One node of the schedule.
struct ScheduleNode {
  NodeKind kind = NodeKind::operation;  ///< its kind
  /// For an operation, its index in the graph. For a tiled loop, its index in Schedule::loops. For a fusion,
  /// the number of columns of its rows (see passes::fused_schedule), or 0.
  std::uint32_t index = 0;
  /// Nodes in the subtree, including this one; 1 for an operation or a tiled loop.
  std::uint32_t size = 1;
};

/// A tiled loop: `extent` points of an axis in blocks of `block` points; the last block may be shorter. A
/// program runs for each block. Its inputs are the operands (whole, or their part in the block), and then an
/// accumulator for each result that is a sum over the axis. Its outputs are the results: the part in the
/// block, or the accumulator plus the block's term.
struct BlockedLoop {
  /// Instead of an axis: the operand is read whole, or the result is a sum.
  static constexpr int none = -1;
  /// An operand or result.
  struct Value {
    ValueId id = 0;   ///< the value
    int axis = none;  ///< the axis that is tiled, or none
  };
  std::int64_t extent = 0;              ///< points of the axis
  std::int64_t block = 0;               ///< points of one block
  std::vector<Value> operands;          ///< values that it reads; a value may be read both whole and in parts
  std::vector<Value> results;           ///< values that it writes
  std::shared_ptr<const Program> body;  ///< for a block
  std::shared_ptr<const Program> rest;  ///< for a shorter last block; null if there is none
  std::uint32_t num_operations = 0;     ///< number of the graph's operations that run in it
};

/// The schedule: a flat tree.
struct Schedule {
  std::vector<ScheduleNode> nodes;  ///< in pre-order
  std::vector<BlockedLoop> loops;   ///< by index of a blocked_loop node
};

/// The memory region of a slot.
enum class Storage : std::uint8_t {
  input,     ///< the caller's tensor; `index` is its position
  constant,  ///< computed once when the program is compiled; `index` is the value of an operation without
             ///< operands
  output,    ///< the returned tensor; `index` is its position
  small,     ///< the workspace's region of small values, at `offset`
  large      ///< the workspace's region of large values, at `offset`
};
/// The name of the enumerator.
constexpr std::string_view to_string(Storage storage) {
  constexpr std::string_view names[] = {"input", "constant", "output", "small", "large"};
  return names[static_cast<std::size_t>(storage)];
}

/// A buffer for values; several values may use it at different times.
struct Slot {
  Storage storage = Storage::small;  ///< memory region
  std::uint32_t index = 0;           ///< see Storage
  std::size_t offset = 0;  ///< bytes from the start of the region, a multiple of 16 (small) or 64 (large);
                           ///< for a part of an output (see SubBuffer) from the start of the output; else 0
  std::size_t bytes = 0;   ///< size in bytes
};

/// Index of a slot.
using SlotId = std::uint32_t;

/// The memory plan: a slot for each value that a node at the top level of the schedule reads or writes.
struct SlotPlan {
  std::vector<Slot> slots;         ///< by SlotId
  std::vector<SlotId> slot_of;     ///< by value; no_index for a value without a slot
  std::size_t small_bytes = 0;     ///< size of the region of small values
  std::size_t large_bytes = 0;     ///< size of the region of large values
  std::size_t constant_bytes = 0;  ///< of constants
  std::size_t output_bytes = 0;    ///< of returned outputs
  std::size_t block_bytes = 0;     ///< of one block of a tiled loop, for each thread that runs blocks
  std::uint32_t in_place = 0;      ///< number of results that take the memory of an operand
};

}  // namespace tidu
