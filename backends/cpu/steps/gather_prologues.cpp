// gather_prologues.cpp - the pass gather_prologues: finds the columns that a fusion gathers in its prologue
// and the columns that it interleaves in its epilogue; the fusion absorbs these operations. See Note
// [Columns] in fusion/fused.cpp.
#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cpu/fusion/fused_columns.hpp"
#include "cpu/is_any_of.hpp"
#include "cpu/kernels/short_rows.hpp"
#include "cpu/layout.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

// Minimum number of interleaved columns that only the fusion computes.
constexpr std::ptrdiff_t min_columns = 2;
// Minimum number of operations of a fusion for each column that it gathers; for fewer, short blocks do not
// pay. One is enough if rows are short and contiguous.
constexpr std::size_t operations_for_each = 2;
// Minimum bytes of an output that is written past the caches.
constexpr std::size_t large_output = std::size_t{4} << 20;

bool contains(const std::vector<ValueId>& list, ValueId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}
bool is_words(DType dtype) { return dtype == f32 || dtype == f64 || dtype == i32 || dtype == i64; }

class ColumnFinder {
 public:
  explicit ColumnFinder(StepGraph& steps)
      : steps_(steps), program_(steps.program()), graph_(steps.graph()), readers_(steps.count_readers()) {}

  // The columns of the fusion at position `node`. Changes its values, and absorbs operations.
  Columns find(std::size_t node);

 private:
  void gather(std::size_t node, std::int64_t rows, Columns& columns);
  std::optional<GatheredColumn> follow(ValueId id, std::int64_t rows, std::vector<std::uint32_t>& path) const;
  void absorb(std::vector<std::uint32_t>& operations);
  void interleave(std::size_t node, std::int64_t rows, Columns& columns);
  std::int64_t rows_of(std::size_t node) const;
  bool is_of_columns(std::uint32_t operation, std::int64_t rows) const;
  bool is_given(ValueId root) const;
  bool is_large(ValueId result) const;

  StepGraph& steps_;
  const Program& program_;
  const Graph& graph_;
  std::vector<std::uint32_t> readers_;  // by root: number of steps, and more for outputs
};

Columns ColumnFinder::find(std::size_t node) {
  Columns columns;
  const std::int64_t rows = rows_of(node);
  if (rows < 2) return columns;
  gather(node, rows, columns);
  interleave(node, rows, columns);
  return columns;
}

// The number of elements of every operation of the fusion; 0 if they differ.
std::int64_t ColumnFinder::rows_of(std::size_t node) const {
  const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
  std::int64_t rows = -1;
  for (std::size_t k = node + 1; k < node + nodes[node].size; ++k) {
    const Operation member = graph_.operation(nodes[k].index);
    const std::int64_t size = graph_.type(member.output()).size();
    if (!member.primitive().has_trait(Trait::elementwise) || (rows >= 0 && rows != size)) return 0;
    rows = size;
  }
  return rows;
}

void ColumnFinder::gather(std::size_t node, std::int64_t rows, Columns& columns) {
  passes::NodeValues& fusion = steps_.at(node).values;
  std::vector<std::uint32_t> path, operations;
  for (const ValueId id : fusion.operands) {
    if (graph_.type(id).size() != rows || readers_[id] != 1) continue;
    path.clear();
    const std::optional<GatheredColumn> column = follow(id, rows, path);
    if (!column) continue;
    columns.gathered.push_back(*column);
    operations.insert(operations.end(), path.begin(), path.end());
  }
  const bool is_soon_done = std::all_of(
      columns.gathered.begin(), columns.gathered.end(),
      [](const GatheredColumn& column) { return column.indices == no_index && is_short_row(column.step); });
  const std::size_t least = is_soon_done ? 1 : operations_for_each * columns.gathered.size();
  if (program_.schedule().nodes[node].size <= least) {
    columns.gathered.clear();
    return;
  }
  for (const GatheredColumn& column : columns.gathered) {
    std::erase(fusion.operands, column.column);
    for (const ValueId id : {column.matrix, column.indices}) {
      if (id != no_index && !contains(fusion.operands, id)) fusion.operands.push_back(id);
    }
  }
  absorb(operations);
}

// Follows a slice that is one line of a matrix to the matrix, which is in memory for the whole run, through
// transposes and a take of rows or columns. `path` gets the operations.
std::optional<GatheredColumn> ColumnFinder::follow(ValueId id, std::int64_t rows,
                                                   std::vector<std::uint32_t>& path) const {
  const GraphData& g = graph_.data();
  const auto producer = [&](ValueId value) {
    const std::uint32_t operation = g.producers[value];
    const bool usable = operation < g.operations.size() && steps_.position_of(operation) != no_index;
    if (usable) path.push_back(operation);
    return usable ? operation : no_index;
  };
  const std::uint32_t slice = producer(id);
  if (slice == no_index || !is_any_of(graph_.operation(slice), prim::slice) ||
      !is_words(graph_.type(id).dtype()))
    return std::nullopt;
  const Op op = graph_.operation(slice).op();
  ValueId matrix = graph_.operation(slice).inputs()[0];
  const Ints &starts = op.ints("start_indices"), &steps = op.ints("strides");
  const Type type = graph_.type(matrix), line = graph_.type(graph_.operation(slice).output());
  if (type.rank() != 2 ||
      std::any_of(steps.begin(), steps.end(), [](std::int64_t step) { return step != 1; }))
    return std::nullopt;
  std::size_t along = line.dim(0) == 1 ? 1 : 0;  // the axis that the line runs along
  const std::int64_t at = starts[1 - along];     // and where, on the other
  if (line.dim(1 - along) != 1 || line.dim(along) != rows || type.dim(along) != rows) return std::nullopt;

  GatheredColumn column;
  column.column = id;
  while (!is_given(program_.roots()[matrix])) {
    const ValueId root = program_.roots()[matrix];
    const std::uint32_t index = graph_.type(root) == graph_.type(matrix) ? producer(root) : no_index;
    if (index == no_index) return std::nullopt;
    const Operation operation = graph_.operation(index);
    const ValueId from = operation.inputs()[0];
    if (graph_.type(from).rank() != 2) return std::nullopt;
    if (is_any_of(operation, prim::transpose)) {
      if (operation.op().ints("permutation")[0] == 1) along = 1 - along;
    } else if (is_any_of(operation, prim::take)) {
      const ValueId indices = operation.inputs()[1];
      if (column.indices != no_index || steps_.options().check_indices ||
          operation.op().string("mode") != "clip" ||
          operation.op().integer("axis") != static_cast<std::int64_t>(along) ||
          !is_given(program_.roots()[indices]) || graph_.type(indices).size() != rows ||
          graph_.type(from).dim(along) == 0)
        return std::nullopt;
      column.indices = program_.roots()[indices];
      column.extent = graph_.type(from).dim(along);
    } else {
      return std::nullopt;
    }
    matrix = from;
  }
  column.matrix = program_.roots()[matrix];
  const std::int64_t width = graph_.type(matrix).dim(1);
  column.start = along == 1 ? at * width : at;
  column.step = along == 1 ? 1 : width;
  if (column.indices == no_index && column.step == 1) return std::nullopt;  // contiguous: a mere copy
  return column;
}

// An input or a constant of several elements: nothing else is ever written there.
bool ColumnFinder::is_given(ValueId root) const {
  const SlotId slot = program_.slot_of(root);
  if (slot == no_index || graph_.type(root).size() < 2) return false;
  const Storage storage = program_.slot(slot).storage;
  return storage == Storage::input || storage == Storage::constant;
}

// Absorbs the operations that make columns, if nothing else reads their results.
void ColumnFinder::absorb(std::vector<std::uint32_t>& operations) {
  std::sort(operations.begin(), operations.end(), std::greater<>());
  operations.erase(std::unique(operations.begin(), operations.end()), operations.end());
  std::unordered_map<ValueId, std::uint32_t> reads;  // by those that are done
  for (const std::uint32_t index : operations) {
    const Operation operation = graph_.operation(index);
    const bool is_column = is_any_of(operation, prim::slice);
    if (!is_column && reads[operation.output()] != readers_[operation.output()]) continue;
    steps_.absorb(index);
    for (const ValueId id : operation.inputs()) ++reads[program_.roots()[id]];
  }
}

void ColumnFinder::interleave(std::size_t node, std::int64_t rows, Columns& columns) {
  const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
  const std::size_t next = node + nodes[node].size;
  if (next >= nodes.size() || nodes[next].kind != NodeKind::operation ||
      !is_of_columns(nodes[next].index, rows))
    return;
  const Operation operation = graph_.operation(nodes[next].index);
  passes::NodeValues& fusion = steps_.at(node).values;
  const ValueId result = operation.output();
  std::vector<ValueId> of;
  for (const ValueId id : operation.inputs()) of.push_back(program_.roots()[id]);

  const std::unordered_set<ValueId> parts(of.begin(), of.end());
  const auto absorbed = [&](ValueId id) { return readers_[id] == 1 && parts.count(id) != 0; };
  if (std::count_if(fusion.results.begin(), fusion.results.end(), absorbed) < min_columns) return;
  passes::NodeValues with;
  with.operands = fusion.operands;
  std::unordered_set<ValueId> there(fusion.results.begin(), fusion.results.end());
  there.insert(with.operands.begin(), with.operands.end());
  for (const ValueId id : of) {
    if (there.insert(id).second) with.operands.push_back(id);
  }
  for (const ValueId id : fusion.results) {
    if (!absorbed(id)) with.results.push_back(id);
  }
  // They are read once more when the fusion has written a block.
  with.whole = of;
  with.results.push_back(result);
  fusion = std::move(with);
  steps_.absorb(nodes[next].index);
  columns.of = std::move(of);
  columns.result = result;
  columns.past_caches = is_large(result);
}

// A concatenate with one element of each operand in a row?
bool ColumnFinder::is_of_columns(std::uint32_t index, std::int64_t rows) const {
  const Operation operation = graph_.operation(index);
  if (!is_any_of(operation, prim::concatenate)) return false;
  const Type type = graph_.type(operation.output());
  const auto along = static_cast<std::size_t>(operation.op().integer("dimension"));
  return AxisShape::of(type, along).outer == rows && is_words(type.dtype()) &&
         std::all_of(operation.inputs().begin(), operation.inputs().end(),
                     [&](ValueId id) { return graph_.type(id).size() == rows; });
}

bool ColumnFinder::is_large(ValueId result) const {
  const Slot& slot = program_.slot(program_.slot_of(result));
  if (slot.storage != Storage::output) return false;
  const std::size_t bytes =
      steps_.call_site().wholes.empty() ? graph_.type(result).bytes() : steps_.call_site().wholes[slot.index];
  return bytes >= large_output;
}

}  // namespace

void gather_prologues(StepGraph& steps) {
  if (!steps.has_composites() || steps.options().vector_jit == nullptr || steps.custom_kernels()) return;
  ColumnFinder finder(steps);
  steps.for_each([&](std::size_t i) {
    if (!steps.is_loop_fusion(i)) return;
    Columns columns = finder.find(i);
    if (!columns.empty()) steps.prologue_and_epilogue(i).columns = std::move(columns);
  });
}

}  // namespace tidu::cpu_detail
