// fuse.cpp - the fuser: collects element-wise operations in fusions. For each operation it tries, in this
// order: values of rows of a row fusion, row operations, element-wise operations and full reductions; else
// the operation stands alone.
//
// Note [Fusions]: nodes of the new schedule are numbered in order of creation; a fusion stands at the
// position of its first operation. An operation joins a fusion only if earlier nodes or the fusion itself
// produce all its operands, so nothing is read before it is written. Fusions that are many nodes back are
// closed, so that no result is computed long before its first reader.
//
// Note [Rows]: a fusion with a reduction of rows, or a broadcast along them, is a row fusion. It also accepts
// operations on one element for each row if it produces one of their operands.
//
// Note [Waiting]: broadcasts along rows, broadcasts of rows and gathers of rows wait for their first reader,
// and then join the fusion of that reader. Otherwise they would join an earlier fusion, and their elements
// would pass through memory.
//
// Note [Layout placement]: a fusion may read the result of a layout operation at its source, so a layout
// operation should not separate operations that could be fused. It is scheduled at its position in the graph,
// or before the fusion of its first reader, whichever is earlier; any position after its operand is valid.
#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "cpu/schedule/fuse_node.hpp"
#include "cpu/schedule/fusion_limits.hpp"
#include "cpu/schedule/layout_placement.hpp"
#include "cpu/schedule/loops.hpp"
#include "cpu/schedule/splat.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

// Maximum number of nodes between an operation and the fusion that it joins.
constexpr std::uint32_t farthest = 64;
// Minimum elements of a fusion; for fewer, its overhead exceeds the memory traffic that it saves.
constexpr std::int64_t min_elements = 64;

// Row fusions: minimum elements in all, and range of the elements of a row.
constexpr std::int64_t min_in_rows = 1024;
constexpr std::int64_t min_columns = 16;
constexpr std::int64_t max_columns = 8192;

// The extent of a value within the fusion that produces it.
enum class Extent : std::uint8_t { whole, of_row, of_columns };

std::span<const ValueId> operands_of(const Graph& graph, const OperationRecord& record) {
  return {graph.data().operands.data() + record.first_input, record.num_inputs};
}

// Is it an element-wise operation, with a kernel, on enough elements?
bool can_fuse(const Graph& graph, const OperationRecord& record) {
  const Primitive& primitive = *record.op->primitive;
  if (!primitive.has_trait(Trait::elementwise) || primitive.has_trait(Trait::impure) ||
      primitive.has_trait(Trait::barrier) || record.num_outputs != 1 || record.num_inputs == 0 ||
      record.num_inputs > 3) {
    return false;
  }
  const Type result = graph.type(record.first_output);
  if (result.size() < min_elements || is_half(result.dtype())) return false;
  return std::ranges::all_of(operands_of(graph, record), [&](ValueId id) {
    const Type type = graph.type(id);
    return !is_half(type.dtype()) && (type.size() == 1 || type.size() == result.size());
  });
}

// Is it a reduction of all elements to one?
bool can_reduce(const Graph& graph, const OperationRecord& record) {
  if (!record.op->primitive->has_trait(Trait::combines) || record.num_inputs != 1 || record.num_outputs != 1)
    return false;
  return graph.type(record.first_output).size() == 1 && graph.type(operands_of(graph, record)[0]).size() > 1;
}

class Fuser {
 public:
  Fuser(const Graph& graph, const std::vector<ValueId>& splats, std::vector<bool>& is_constant, LoopPlan plan,
        const ProgramOptions& options)
      : plan_(std::move(plan)),
        fuses_rows_(options.passes.runs(CpuPass::row_fusion)),
        graph_(graph),
        g_(graph.data()),
        roots_(alias_roots(graph)),
        splats_(splats),
        is_constant_(is_constant),
        made_by_(graph.num_values(), 0),
        extent_(graph.num_values(), Extent::whole),
        layouts_(graph, roots_, splats, plan_,
                 [this](const OperationRecord& record) { return can_fuse(graph_, record); }) {}

  Schedule run() {
    find_needed();
    for (const LoopPlan::Item& item : plan_.items) {
      if (item.loop) {
        add_loop(item.index);
        continue;
      }
      const std::uint32_t i = item.index;
      const OperationRecord& record = g_.operations[i];
      if (record.op->primitive->has_trait(Trait::barrier)) first_open_ = nodes_.size();
      if (record.op->primitive->has_trait(Trait::view)) continue;
      schedule_operands(record);
      const ValueId result = record.num_outputs > 0 ? record.first_output : no_index;
      if (result != no_index && is_repeated(result) && !needed_[result]) {
        is_constant_[result] = false;
        continue;
      }
      if (result != no_index && is_constant_[result]) continue;
      if (can_wait(i)) {
        waits_[result] = i;
        continue;
      }
      if (layouts_.contains(i)) {
        add_layout(i);
        continue;
      }
      if (join_row_values(i) || join_rows(i, 0)) continue;
      std::uint32_t node = can_fuse(graph_, record) ? find_fusion(record) : find_fusion_of_reduction(record);
      if (node == 0) node = new_node(can_fuse(graph_, record) ? graph_.type(result).size() : 0);
      join(node, i);
    }
    for (const ValueId id : graph_.outputs()) schedule_waiting(roots_[id], 0);
    return schedule();
  }

 private:
  // Equal elements, more than one.
  bool is_repeated(ValueId value) const {
    return splats_[value] != no_index && graph_.type(value).size() > 1;
  }

  // Marks the repeated elements that something outside of fusions reads. Goes from the last operation to the
  // first: a producer of repeated elements reads its operands only if its result is needed.
  void find_needed() {
    needed_.assign(graph_.num_values(), false);
    for (const ValueId id : graph_.outputs()) needed_[roots_[id]] = true;
    for (std::size_t at = plan_.items.size(); at-- > 0;) {
      if (plan_.items[at].loop) {
        for (const BlockedLoop::Value& operand : plan_.loops[plan_.items[at].index].operands)
          needed_[roots_[operand.id]] = true;
        continue;
      }
      const OperationRecord& record = g_.operations[plan_.items[at].index];
      if (record.op->primitive->has_trait(Trait::view)) continue;
      if (record.num_outputs == 1 && is_repeated(record.first_output) && !needed_[record.first_output])
        continue;
      const bool fused = can_fuse(graph_, record);  // reads what is repeated, not the repetition
      for (const ValueId id : operands_of(graph_, record)) {
        if (!fused || splats_[id] == no_index) needed_[roots_[id]] = true;
      }
    }
  }

  // The value whose bytes stand for the operand; no_index for a literal.
  ValueId read(ValueId operand) const { return memory_of(graph_, roots_, splats_, operand); }

  void add_loop(std::uint32_t loop) {
    for (const BlockedLoop::Value& operand : plan_.loops[loop].operands)
      schedule_waiting(roots_[operand.id], 0);
    const auto node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
    nodes_[node].loop = loop;
    for (const BlockedLoop::Value& result : plan_.loops[loop].results) made_by_[result.id] = node;
  }

  // See Note [Layout placement]: the result can be read wherever the operands can.
  void add_layout(std::uint32_t operation) {
    const OperationRecord& record = g_.operations[operation];
    made_by_[record.first_output] = last_producer(record);
    layouts_.add(operation, static_cast<std::uint32_t>(nodes_.size()));
  }
  // Does that node compute the value?
  bool makes(std::uint32_t node, ValueId id) const { return made_by_[id] == node && !layouts_.made(id); }

  // The last node that makes something of what it reads, or makes it readable.
  std::uint32_t last_producer(const OperationRecord& record) const {
    std::uint32_t last = 0;
    for (const ValueId id : operands_of(graph_, record)) last = std::max(last, made_by_[roots_[id]]);
    return last;
  }
  // A fusion of that many elements; if it is 0, another node.
  std::uint32_t new_node(std::int64_t elements) {
    const auto node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
    nodes_[node].fusion = elements > 0;
    if (elements > 0) last_fusion_[elements] = node;
    return node;
  }
  // 0 where there is none.
  std::uint32_t find_fusion(const OperationRecord& record) {
    const auto it = last_fusion_.find(graph_.type(record.first_output).size());
    if (it == last_fusion_.end()) return 0;
    const std::uint32_t node = it->second;
    if (!can_join(node, record, Extent::whole)) return 0;
    return nodes_[node].columns == 0 || dtype_with(nodes_[node], record) ? node : 0;
  }
  // Are all operands available at the node, and do those that it computes itself have that extent?
  bool can_join(std::uint32_t node, const OperationRecord& record, Extent extent) const {
    if (!is_open(node)) return false;
    std::size_t fresh = 0;
    for (const ValueId operand : operands_of(graph_, record)) {
      const ValueId id = read(operand);
      if (id == no_index) continue;
      const bool own = makes(node, id);
      if (own ? graph_.type(id).size() == 1 || extent_[id] != extent : made_by_[id] >= node) return false;
      if (!own) ++fresh;
    }
    return nodes_[node].operands.size() + fresh <= max_operands;
  }
  std::uint32_t find_fusion_of_reduction(const OperationRecord& record) {
    if (!can_reduce(graph_, record)) return 0;
    const ValueId id = roots_[operands_of(graph_, record)[0]];
    const std::uint32_t node = made_by_[id];
    if (!makes(node, id) || !nodes_[node].fusion || !is_open(node) || nodes_[node].columns > 0 ||
        extent_[id] != Extent::whole)
      return 0;
    nodes_[node].can_have_rows = false;
    return node;
  }
  // Does operand `i` select rows? Of the operations of two operands that fusions accept, only gathers of rows
  // are not element-wise.
  bool names_rows(const OperationRecord& record, std::size_t i) const {
    const auto is_index = [](DType dtype) { return dtype == i32 || dtype == i64; };
    return record.num_inputs == 2 && i == 1 && !record.op->primitive->has_trait(Trait::elementwise) &&
           is_index(graph_.type(operands_of(graph_, record)[1]).dtype());
  }
  // The dtype of the floating-point elements of the fusion and the operation; nothing if they differ.
  std::optional<DType> dtype_with(const FuseNode& node, const OperationRecord& record) const {
    DType dtype = node.dtype;
    const auto add = [&](DType other) {
      if (other == bool_) return true;
      if ((other != f32 && other != f64) || (dtype != bool_ && dtype != other)) return false;
      dtype = other;
      return true;
    };
    bool fits = add(graph_.type(record.first_output).dtype());
    for (std::size_t i = 0; i < record.num_inputs; ++i)
      fits = fits && (names_rows(record, i) || add(graph_.type(operands_of(graph_, record)[i]).dtype()));
    if (!fits) return std::nullopt;
    return dtype;
  }

  // The row step of an operation, if row fusions may accept it; else one of kind none.
  RowStep step_of(std::uint32_t operation) const {
    if (!fuses_rows_) return {};
    const OperationRecord& record = g_.operations[operation];
    for (const ValueId id : operands_of(graph_, record)) {
      if (splats_[id] != no_index) return {};
    }
    const RowStep step = row_step(graph_, operation);
    const bool all_rows = takes_shorter_rows(step);
    if (step.rows < 2 || step.rows * step.columns < min_in_rows || step.columns < min_columns ||
        step.columns > (all_rows ? max_in_period : max_columns) ||
        graph_.type(record.first_output).dtype() == bool_ || !dtype_with({}, record))
      return {};
    return step;
  }

  // See Note [Waiting].
  bool can_wait(std::uint32_t operation) const {
    const RowStep::Kind kind = step_of(operation).kind;
    return kind == RowStep::Kind::along_rows || reads_rows(kind);
  }
  // See Note [Periods] in fuse_node.hpp.
  static bool takes_shorter_rows(const RowStep& step) {
    return step.kind == RowStep::Kind::rows || step.kind == RowStep::Kind::each_row ||
           step.kind == RowStep::Kind::reduce_columns;
  }
  // Adds the operands that wait for a reader (an operation, a loop or an output) to fusions that are no
  // earlier than node `least`.
  void schedule_operands(const OperationRecord& record) {
    const std::uint32_t least = last_producer(record);
    for (const ValueId id : operands_of(graph_, record)) schedule_waiting(roots_[id], least);
  }
  void schedule_waiting(ValueId value, std::uint32_t least) {
    const auto it = waits_.find(value);
    if (it == waits_.end()) return;
    join_rows(it->second, least);
    waits_.erase(it);
  }

  // Adds a reduction, broadcast or gather of rows to a row fusion no earlier than node `least`, or begins
  // one.
  bool join_rows(std::uint32_t operation, std::uint32_t least) {
    const RowStep step = step_of(operation);
    if (step.kind == RowStep::Kind::none) return false;
    const OperationRecord& record = g_.operations[operation];
    const std::int64_t elements = step.rows * step.columns;
    const bool reduces =
        step.kind == RowStep::Kind::reduce_rows || step.kind == RowStep::Kind::reduce_columns;
    const ValueId id = roots_[operands_of(graph_, record)[0]];
    const auto fits = [&](std::uint32_t node) {
      const FuseNode& at = nodes_[node];
      if (node < least || !at.fusion || !at.can_have_rows || !at.rows_with(step) || !dtype_with(at, record))
        return false;
      // A fusion cannot itself compute the rows that it repeats, or the array whose rows it gathers.
      for (const ValueId operand : operands_of(graph_, record)) {
        if (reads_rows(step.kind) && made_by_[roots_[operand]] == node) return false;
      }
      return can_join(node, record, reduces ? Extent::whole : Extent::of_row);
    };
    std::uint32_t node = made_by_[id];
    if (node == 0 || !fits(node)) {
      const auto it = last_fusion_.find(elements);
      node = it != last_fusion_.end() && fits(it->second) ? it->second : new_node(elements);
    }
    FuseNode& joined = nodes_[node];
    std::tie(joined.columns, joined.period) = *joined.rows_with(step);
    joined.needs_rows = joined.needs_rows || !takes_shorter_rows(step);
    joined.reads_each_row = joined.reads_each_row || step.kind == RowStep::Kind::each_row;
    joined.reduces_columns = joined.reduces_columns || step.kind == RowStep::Kind::reduce_columns;
    join(node, operation);
    if (reduces) {
      extent_[record.first_output] =
          step.kind == RowStep::Kind::reduce_rows ? Extent::of_row : Extent::of_columns;
    }
    return true;
  }
  // Adds an operation on one element for each row to the fusion that computes one of its operands.
  bool join_row_values(std::uint32_t operation) {
    const OperationRecord& record = g_.operations[operation];
    const Primitive& primitive = *record.op->primitive;
    if (!primitive.has_trait(Trait::elementwise) || primitive.has_trait(Trait::impure) ||
        primitive.has_trait(Trait::barrier) || record.num_outputs != 1 || record.num_inputs == 0 ||
        record.num_inputs > 3)
      return false;
    const std::int64_t rows = graph_.type(record.first_output).size();
    for (const ValueId operand : operands_of(graph_, record)) {
      const std::int64_t size = graph_.type(operand).size();
      if (size != 1 && size != rows) return false;
    }
    for (const ValueId operand : operands_of(graph_, record)) {
      const ValueId id = read(operand);
      if (id == no_index || extent_[id] != Extent::of_row) continue;
      const std::uint32_t node = made_by_[id];
      if (!dtype_with(nodes_[node], record) || !can_join(node, record, Extent::of_row)) continue;
      join(node, operation);
      extent_[record.first_output] = Extent::of_row;
      return true;
    }
    return false;
  }
  bool is_open(std::uint32_t node) const {
    return node >= first_open_ && nodes_.size() - node <= farthest &&
           nodes_[node].operations.size() < max_in_fusion;
  }
  void join(std::uint32_t node, std::uint32_t operation) {
    const OperationRecord& record = g_.operations[operation];
    FuseNode& at = nodes_[node];
    at.operations.push_back(operation);
    for (std::uint32_t i = 0; i < record.num_outputs; ++i) made_by_[record.first_output + i] = node;
    for (const ValueId operand : operands_of(graph_, record)) {
      const ValueId id = at.fusion ? read(operand) : roots_[operand];
      if (id != no_index) layouts_.read(id, node);
    }
    if (!at.fusion) return;
    const std::optional<DType> dtype = dtype_with(at, record);
    if (dtype) at.dtype = *dtype;
    at.can_have_rows = at.can_have_rows && dtype.has_value();
    for (const ValueId operand : operands_of(graph_, record)) {
      const ValueId id = read(operand);
      if (id == no_index || made_by_[id] == node) continue;
      if (std::find(at.operands.begin(), at.operands.end(), id) == at.operands.end())
        at.operands.push_back(id);
    }
  }

  // Is it a large result of a layout operation? Executors may compute its elements as they are read.
  bool is_layout_result(ValueId id) const {
    constexpr std::int64_t many = 4096;
    const std::uint32_t producer = g_.producers[id];
    return producer < g_.operations.size() && graph_.type(id).size() >= many && layouts_.contains(producer);
  }
  // Is it one operation that needs no fusion? It needs one to read repeated elements, or elements at the
  // source of a layout operation.
  bool is_alone(const FuseNode& node) const {
    if (node.operations.size() != 1) return false;
    for (const ValueId id : operands_of(graph_, g_.operations[node.operations[0]])) {
      if ((is_repeated(id) && !needed_[roots_[id]]) || (node.columns == 0 && is_layout_result(roots_[id])))
        return false;
    }
    return true;
  }
  // Does it only gather rows? That is a copy, which needs no fusion.
  bool only_gathers(const FuseNode& node) const {
    return std::all_of(node.operations.begin(), node.operations.end(),
                       [&](std::uint32_t operation) { return names_rows(g_.operations[operation], 1); });
  }
  Schedule schedule() {
    Schedule schedule;
    schedule.loops = std::move(plan_.loops);
    const std::vector<LayoutPlacement::Reordered> layouts = layouts_.in_order();
    auto next = layouts.begin();
    const auto add_layouts = [&](std::size_t node) {
      for (; next != layouts.end() && next->before <= node; ++next)
        schedule.nodes.push_back({NodeKind::operation, next->operation, 1});
    };
    for (std::size_t n = 1; n < nodes_.size(); ++n) {
      const FuseNode& node = nodes_[n];
      add_layouts(n);
      if (node.loop != no_index) schedule.nodes.push_back({NodeKind::blocked_loop, node.loop, 1});
      if (node.fusion && !is_alone(node) && !only_gathers(node)) {
        schedule.nodes.push_back({NodeKind::fusion, static_cast<std::uint32_t>(node.columns),
                                  static_cast<std::uint32_t>(node.operations.size() + 1)});
      }
      for (const std::uint32_t operation : node.operations)
        schedule.nodes.push_back({NodeKind::operation, operation, 1});
    }
    add_layouts(nodes_.size());
    return schedule;
  }

  LoopPlan plan_;
  const bool fuses_rows_;
  const Graph& graph_;
  const GraphData& g_;
  const std::vector<ValueId> roots_;
  const std::vector<ValueId>& splats_;
  std::vector<bool>& is_constant_;
  std::vector<bool> needed_;
  std::vector<std::uint32_t> made_by_;  // by value: a node; 0 for what is there before all nodes
  std::vector<Extent> extent_;          // by value that a fusion makes
  std::vector<FuseNode> nodes_ = std::vector<FuseNode>(1);
  std::unordered_map<ValueId, std::uint32_t> waits_;             // by result: the operation
  std::size_t first_open_ = 1;                                   // earlier nodes precede a barrier
  std::unordered_map<std::int64_t, std::uint32_t> last_fusion_;  // by number of elements
  LayoutPlacement layouts_;
};

}  // namespace

Schedule fused_schedule(const Graph& graph, const std::vector<ValueId>& splats,
                        std::vector<bool>& is_constant, LoopPlan plan, const ProgramOptions& options) {
  if (plan.items.empty()) {
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) plan.items.push_back({false, i});
  }
  return Fuser(graph, splats, is_constant, std::move(plan), options).run();
}

}  // namespace tidu::passes
