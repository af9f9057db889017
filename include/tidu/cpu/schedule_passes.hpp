// schedule_passes.hpp - the passes of the CPU executor's scheduler, from an optimized graph to parts of a
// Program: fusion, tiling, rematerialization and the assignment of memory.
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

/// The same function, in which pads of what is computed element by element of slices, and rolls, are computed
/// of whole arrays at a distance, as arrays of one axis, and then selected: see Note [Shifts] in shifts.cpp.
/// Only where element-wise operations read them, and no rows. The graph itself where there is no such move,
/// or its set does not have the primitives that this takes. Linear in the size of the graph.
Graph moves_as_shifts(const Graph& graph);

/// What runs, in order: operations of the graph, and blocked loops in the place of theirs.
struct LoopPlan {
  /// An operation or a loop.
  struct Item {
    bool loop = false;        ///< which of them
    std::uint32_t index = 0;  ///< in the graph, or in `loops`
  };
  std::vector<Item> items;         ///< in order; empty without loops
  std::vector<BlockedLoop> loops;  ///< by index
};
/// Finds the axis along which most memory is spared when operations run block by block, and makes loops over
/// its blocks; no plan where it is not worth it (see ProgramOptions), or where an operation is impure or a
/// barrier. Constants that only loops need, which make them anew, are none any more: `is_constant` is changed
/// accordingly. Linear in the size of the graph.
LoopPlan find_loops(const Graph& graph, const std::vector<ValueId>& roots, const std::vector<ValueId>& splats,
                    const ProgramOptions& options, std::vector<bool>& is_constant);

/// What an operation does where its larger side is taken as rows of `columns` elements.
struct RowStep {
  /// In which way its axes come before or behind each other.
  enum class Kind : std::uint8_t {
    none,          ///< in none of these
    fold_rows,     ///< each row to one element
    fold_columns,  ///< all rows to one
    along_rows,    ///< one element for each row, repeated along it
    rows,          ///< one row, repeated
    each_row,      ///< rows, each repeated `times` times before the next one
    picked         ///< rows of operand 0 that operand 1 names, moved into range: `picked_of` rows
  };
  Kind kind = Kind::none;      ///< which of them
  std::int64_t rows = 0;       ///< how many
  std::int64_t columns = 0;    ///< how many
  std::int64_t picked_of = 0;  ///< how many rows operand 0 has, of kind picked
  std::int64_t times = 1;      ///< of kind each_row
};
/// Of an operation with one operand that has trait folds or repeats, or that picks entries of an axis (see
/// Factors::pick); none for others.
RowStep row_step(const Graph& graph, std::uint32_t operation);

/// An array rolled along an axis: two slices of it, one behind the other.
struct Roll {
  ValueId from = 0;                          ///< the array
  std::size_t axis = 0;                      ///< along which it is rolled
  std::int64_t shift = 0;                    ///< where its first element is then; not 0
  std::array<std::uint32_t, 2> slices = {};  ///< operations
};
/// Of a concatenate that does it; nothing of others.
std::optional<Roll> roll_of(const Graph& graph, std::uint32_t operation);

/// Element-wise operations on as many elements each, 64 or more, are gathered in fused groups, with the folds
/// of their results to one element: an operation joins the last group of its size when all that it needs is
/// ready before it and no barrier lies between. Everything else is one operation after another, in the order
/// of the graph, without constants and views. Repeated elements (see find_splats) that only groups read are
/// neither made nor constants: `is_constant` is changed accordingly. Linear in the size of the graph.
/// Of a plan with loops its items are gathered, in their order.
///
/// Groups of 1024 elements or more whose floating elements are all f32 or all f64 may be rows of a matrix of
/// 16 columns or more: in them are also folds of each row to one element, what is computed of such element by
/// element, what is repeated along each row or along all rows, rows picked of arrays that the group reads,
/// and folds of all rows to one. A group reads what it folds of a row, and leaves what it folds of all rows.
/// What is repeated along all rows, or folds them all, may have the elements of several of the group's rows.
/// The node of such a group has the number of columns for an index.
///
/// With `options.group_products`, products of the same attributes and types that are small, but not tiny, and
/// need nothing that is made behind the first of them stand there in a product group.
Schedule fused_schedule(const Graph& graph, const std::vector<ValueId>& splats,
                        std::vector<bool>& is_constant, LoopPlan plan = {},
                        const ProgramOptions& options = {});

/// The schedule in which groups do not leave what other groups, which alone read it, can compute again with a
/// few sums and products from one array of its size and from what is smaller. The operations that make it
/// then stand in several groups, and their values have no memory. `schedule` is one of fused_schedule.
Schedule rematerialize_values(const Graph& graph, Schedule schedule, const std::vector<ValueId>& roots,
                              const std::vector<ValueId>& splats);

/// One operation after another, in the order of the graph, without constants and without views, which need no
/// work.
Schedule sequential_schedule(const Graph& graph, const std::vector<bool>& is_constant, LoopPlan plan = {});

/// What a node reads from memory and what it leaves there, each value once, in the order of first use.
struct NodeValues {
  std::vector<ValueId> operands;  ///< roots; of repeated elements what is repeated, unless it is a literal
  std::vector<ValueId> results;   ///< of a group those that something else reads, or the graph gives out
  std::vector<ValueId> whole{};  ///< operands that are read while results are written, not element by element
  /// An operand of an operation that may write its only result, of as many bytes, where that is; or none.
  ValueId changed = no_index;
};

/// Gives every value of the schedule a slot. Values of the workspace share memory when their lives do not
/// overlap; no two that are alive at once overlap, but where the result of an element-wise operation takes
/// the place of an operand that dies with it. Outputs are in no other value's memory; an output that is an
/// input, a constant or another output's value has no memory of its own and is copied at the end. `schedule`
/// consists of operations, groups and loops; what only one fused group makes and reads has no slot. A group's
/// result may take the place of an operand of as many bytes that dies with the group (of rows: of one that is
/// only read element by element, and no fold of a row): for each element, a group reads all before it writes.
SlotPlan assign_slots(const Graph& graph, const Schedule& schedule, const std::vector<bool>& is_constant,
                      const std::vector<ValueId>& roots, const std::vector<ValueId>& splats, bool in_place);

/// A value that is made where a part of another will be, which an operation then finds there.
struct PlacedPart {
  ValueId part = no_index;   ///< read by nothing but that operation, and no output
  ValueId whole = no_index;  ///< an output with memory of its own
  std::size_t offset = 0;    ///< of the part in the whole, in bytes
};

/// The same where `nodes` says by position what each node reads and leaves, which may be less than the
/// schedule says: nothing, of one whose work another does. What a node changes makes room for its result,
/// which may be an output, if it dies with the node. Inputs, constants and outputs come first, in an order
/// that does not depend on the nodes, and so have the same slots for all. `parts` get no memory of their own;
/// those whose `whole` has none are left out.
SlotPlan assign_slots(const Graph& graph, const Schedule& schedule, const std::vector<bool>& is_constant,
                      const std::vector<ValueId>& roots, const std::vector<NodeValues>& nodes, bool in_place,
                      std::span<const PlacedPart> parts = {});

/// Checks a plan by following who wrote each byte last: no operation, and no output at the end, may read what
/// something else has written since. Throws Error (internal) naming operation and value. Takes as long as
/// there are bytes in all values.
void verify_plan(const Graph& graph, const Schedule& schedule, const SlotPlan& plan);

/// By position in the schedule, for operations and groups that no node contains; empty elsewhere.
std::vector<NodeValues> node_values(const Graph& graph, const Schedule& schedule,
                                    const std::vector<ValueId>& roots, const std::vector<ValueId>& splats);

}  // namespace tidu::passes
