// schedule_passes.hpp - the passes of the CPU scheduler, in order: from an optimized graph to the parts of a
// Program. They find offset views and tiled loops, fuse, rematerialize, and assign memory. docs/schedule.md
// describes each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

/// Offset views: rewrites pads of slices (with the element-wise work between them) and rolls to operations on
/// whole flat arrays at an offset, followed by a select: see Note [Offset views] in offset_views.cpp. Applies
/// only if element-wise operations read the result, and no row fusion does. Returns the graph itself if there
/// is no such pad or roll, or if its set lacks the primitives. Linear in the size of the graph.
Graph offset_views(const Graph& graph);
/// The former name of offset_views.
[[deprecated("use offset_views")]] inline Graph moves_as_shifts(const Graph& graph) {
  return offset_views(graph);
}

/// The graph's operations with those of each tiled loop replaced by the loop, in order.
struct LoopPlan {
  /// An operation or a loop.
  struct Item {
    bool loop = false;        ///< which of them
    std::uint32_t index = 0;  ///< in the graph, or in `loops`
  };
  std::vector<Item> items;         ///< in order; empty without loops
  std::vector<BlockedLoop> loops;  ///< by index
};
/// Tiling: finds the axis whose tiling saves the most memory traffic, and makes loops over its blocks.
/// Returns no items if tiling does not pay (see ProgramOptions), or if an operation is impure or a barrier.
/// Constants that only loops read are computed in the loops; `is_constant` is false for them afterwards.
/// Linear in the size of the graph.
LoopPlan find_loops(const Graph& graph, const std::vector<ValueId>& roots, const std::vector<ValueId>& splats,
                    const ProgramOptions& options, std::vector<bool>& is_constant);

/// The effect of an operation on rows: its larger side is viewed as a matrix with rows of `columns` elements.
struct RowStep {
  /// How the rows of the operand and the result correspond.
  enum class Kind : std::uint8_t {
    none,            ///< no row operation
    reduce_rows,     ///< reduces each row to one element
    reduce_columns,  ///< reduces all rows to one row
    along_rows,      ///< broadcasts one element per row along the row
    rows,            ///< broadcasts one row to all rows
    each_row,        ///< repeats each row `times` times in succession
    gathered,  ///< gathers the rows of operand 0 that operand 1 selects, with clamped indices; operand 0 has
               ///< `picked_of` rows
    fold_rows [[deprecated("use reduce_rows")]] = reduce_rows,           ///< the former name
    fold_columns [[deprecated("use reduce_columns")]] = reduce_columns,  ///< the former name
    picked [[deprecated("use gathered")]] = gathered                     ///< the former name
  };
  Kind kind = Kind::none;      ///< the kind
  std::int64_t rows = 0;       ///< number of rows
  std::int64_t columns = 0;    ///< number of columns
  std::int64_t picked_of = 0;  ///< number of rows of operand 0, for kind gathered
  std::int64_t times = 1;      ///< for kind each_row
};
/// The row step of an operation with one operand and trait combines or repeats, or of one that gathers
/// entries of an axis (see Factors::pick); kind none for others.
RowStep row_step(const Graph& graph, std::uint32_t operation);

/// A roll along an axis: the concatenation of two slices of one array.
struct Roll {
  ValueId from = 0;                          ///< the array
  std::size_t axis = 0;                      ///< the axis of the roll
  std::int64_t shift = 0;                    ///< the new position of the first element; not 0
  std::array<std::uint32_t, 2> slices = {};  ///< the operations that slice
};
/// The roll that a concatenate performs, or nothing.
std::optional<Roll> roll_of(const Graph& graph, std::uint32_t operation);

/// Fusion. Element-wise operations with the same number of elements, 64 or more, are collected in fusions,
/// together with reductions of their results to one element. An operation joins the last fusion of its size
/// if all its operands are available before that fusion and no barrier lies between. All other operations
/// follow one another in the order of the graph; constants and views need no node. Splats (see find_splats)
/// that only fusions read are not materialized; `is_constant` is false for them afterwards. Linear in the
/// size of the graph. Items of `plan`, if it has any, are fused in their order.
///
/// Row fusion: a fusion of 1024 elements or more whose floating-point elements are all f32 or all f64 may be
/// a matrix with rows of 16 columns or more. It may then also contain reductions of each row, element-wise
/// operations on their results, broadcasts along each row or along all rows, gathers of rows of arrays in
/// memory, and reductions of all rows to one. The fusion itself may read the results of row reductions; it
/// only writes the results of reductions of all rows. Broadcasts along all rows, and reductions of all rows,
/// may have rows that span several rows of the fusion. The `index` of such a node is the number of columns.
Schedule fused_schedule(const Graph& graph, const std::vector<ValueId>& splats,
                        std::vector<bool>& is_constant, LoopPlan plan = {},
                        const ProgramOptions& options = {});

/// Rematerialization: a fusion does not write a result if all its readers are fusions that can compute it
/// again, with a few cheap operations from one array of its size and from smaller values. The operations then
/// occur in several fusions, and their values have no memory. `schedule` is a result of fused_schedule.
Schedule rematerialize_values(const Graph& graph, Schedule schedule, const std::vector<ValueId>& roots,
                              const std::vector<ValueId>& splats);

/// The schedule without fusion: one operation after another, in the order of the graph. Constants and views
/// need no node.
Schedule sequential_schedule(const Graph& graph, const std::vector<bool>& is_constant, LoopPlan plan = {});

/// The values that a node reads from memory and writes there, each once, in the order of first use.
struct NodeValues {
  std::vector<ValueId> operands;  ///< roots; for a splat its source, unless that is a literal
  std::vector<ValueId> results;   ///< of a fusion: the results that have other readers or are outputs
  std::vector<ValueId> whole{};   ///< operands read while results are written, not element by element
  /// The operand that the operation updates in place if nothing reads it later (its only result then has that
  /// memory); or no_index.
  ValueId changed = no_index;
};

/// Buffer assignment: gives each value of the schedule a slot. Values of the workspace share memory only if
/// their lives do not overlap, except that the result of an element-wise operation may take the memory of an
/// operand that dies there. An output shares memory with no other value; an output that is also an input, a
/// constant or another output has no memory of its own and is copied at the end. `schedule` consists of
/// operations, fusions and loops; values within one fusion have no slot. A fusion reads all operands of an
/// element before it writes the element, so its result may take the memory of an operand of the same size
/// that dies there. In a row fusion, this operand must be read element by element and by no row reduction.
SlotPlan assign_slots(const Graph& graph, const Schedule& schedule, const std::vector<bool>& is_constant,
                      const std::vector<ValueId>& roots, const std::vector<ValueId>& splats, bool in_place);

/// A value that is computed within a larger value, whose operation finds it there.
struct SubBuffer {
  ValueId part = no_index;   ///< has no other reader and is no output
  ValueId whole = no_index;  ///< an output with memory of its own
  std::size_t offset = 0;    ///< of the part in the whole, in bytes
};
/// The former name.
using PlacedPart [[deprecated("use SubBuffer")]] = SubBuffer;

/// As above, for nodes that read and write `nodes`, indexed by position in the schedule. After step fusion
/// these may be fewer values than those of the schedule: none for a node whose work another node does. If
/// NodeValues::changed dies in its node, the result takes its memory, even if the result is an output.
/// Inputs, constants and outputs come first, in an order that does not depend on `nodes`, so they have the
/// same slots for all `nodes`. `parts` get no memory of their own; a part is ignored if its `whole` has none.
SlotPlan assign_slots(const Graph& graph, const Schedule& schedule, const std::vector<bool>& is_constant,
                      const std::vector<ValueId>& roots, const std::vector<NodeValues>& nodes, bool in_place,
                      std::span<const SubBuffer> parts = {});

/// Verifies a plan: follows the last writer of each byte, and checks that no operation and no output reads a
/// byte that another value has overwritten. Throws Error (internal) with operation and value. Takes time in
/// proportion to the bytes of all values.
void verify_plan(const Graph& graph, const Schedule& schedule, const SlotPlan& plan);

/// The values of operations and fusions at the top level, by position in the schedule; empty for other nodes.
std::vector<NodeValues> node_values(const Graph& graph, const Schedule& schedule,
                                    const std::vector<ValueId>& roots, const std::vector<ValueId>& splats);

}  // namespace tidu::passes
