// copy_elision.cpp - the pass copy_elision: transposes, slices and concatenations are not materialized if
// their readers can access the original elements. Readers are other layout operations and matmuls; a matmul
// may also write its result in the layout of a later layout operation.
//
// Note [Copy elision]: the result of a layout operation is elided if all its readers are layout operations or
// matmuls, and the layout operations copy each element at most once. Their contiguous runs must have a
// minimum length, and be as long as those of the elided copy; lengths beyond a limit count as equal. Runs are
// along the last axis, or along all axes that continue it; either measure suffices. Elision is refused if it
// keeps alive much more memory than it saves. Example: the heads of attention are slices of a transpose, and
// their gradients are a transpose of a concatenation.
//
// Note [Results in place]: a matmul reads elided operands through strided views. If matmuls alone produce the
// operands of a layout operation, they write into its result themselves: the first of them creates the
// result, and the others take it as an operand. A fusion between them that only adds 0.0 is elided too; the
// matmuls add 0.0 themselves, which changes -0.0 to 0.0.
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cpu/is_any_of.hpp"
#include "cpu/layout.hpp"
#include "cpu/matmul/strided_matmul.hpp"
#include "cpu/schedule/splat.hpp"
#include "cpu/steps/concat_map.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t max_readers = 64;  // looked at for one value

// A copy or matmul with other operands or results than its node, or a fusion that has nothing left to do.
struct LayoutStep {
  std::size_t node = 0;           // its position in the schedule
  std::vector<ValueId> operands;  // roots
  std::vector<ValueId> results;
  Plan plan;  // without `run` if nothing is left to do
};
struct ElidedCopies {
  std::vector<std::uint32_t> elided;  // operations whose results are elided, or written by matmuls
  std::vector<LayoutStep> steps;
};

class CopyElider {
 public:
  explicit CopyElider(const StepGraph& steps)
      : steps_(steps),
        program_(steps.program()),
        graph_(steps.graph()),
        unmade_(program_),
        matmuls_(steps.call_site().fixed.empty()) {}

  ElidedCopies find() {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    std::vector<std::size_t> layouts, matmuls;  // positions
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      if (nodes[i].kind != NodeKind::operation) continue;
      if (is_layout(nodes[i].index)) layouts.push_back(i);
      if (is_matmul(nodes[i].index)) matmuls.push_back(i);
    }
    if (layouts.empty() || layouts.size() + matmuls.size() < 2) return {};
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      for (const ValueId id : steps_.at(i).values.operands) readers_[id].push_back(i);
    }
    for (const ValueId id : graph_.outputs()) readers_.erase(program_.roots()[id]);
    node_of_.assign(graph_.num_operations(), nodes.size());
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      for (std::size_t k = nodes[i].size > 1 ? i + 1 : i; k < i + nodes[i].size; ++k) {
        if (nodes[k].kind == NodeKind::operation) node_of_[nodes[k].index] = i;
      }
    }
    find_copied(layouts);
    ElidedCopies copies;
    for (const std::size_t i : layouts) {
      const std::uint32_t index = nodes[i].index;
      std::optional<ConcatMap> parts = unmade_.result_of(index);
      if (!parts) continue;
      unmade_.add(graph_.operation(index).output(), std::move(*parts));
      if (can_leave_out(index)) {
        copies.elided.push_back(index);
      } else {
        unmade_.remove(graph_.operation(index).output());
      }
    }
    for (const std::size_t i : layouts) {
      const std::uint32_t index = nodes[i].index;
      if (unmade_.contains(graph_.operation(index).output())) continue;
      if (make_in_place(i, copies)) {
        copies.elided.push_back(index);
      } else if (reads_left_out(index)) {
        copies.steps.push_back(step_of(i));
      }
    }
    for (const std::size_t i : matmuls) {
      if (reads_left_out(nodes[i].index) || targets_.count(i) != 0) copies.steps.push_back(matmul_step(i));
    }
    return copies;
  }

 private:
  bool is_layout(std::uint32_t index) const {
    return has_concat_map(graph_, index) && steps_.can_replan(index);
  }
  bool is_matmul(std::uint32_t index) const {
    return matmuls_ && is_any_of(graph_.operation(index), prim::dot_general) && steps_.can_replan(index);
  }
  // Finds how many bytes layout operations copy for readers of other kinds, by source.
  void find_copied(const std::vector<std::size_t>& layouts) {
    if (!matmuls_) return;
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    const auto copies = [&](std::size_t node) {
      return nodes[node].kind == NodeKind::operation && is_layout(nodes[node].index);
    };
    for (const std::size_t i : layouts) {
      const ValueId made = graph_.operation(nodes[i].index).output();
      std::optional<ConcatMap> parts = unmade_.result_of(nodes[i].index);
      if (!parts) continue;
      const auto readers = readers_.find(made);
      if (readers != readers_.end() && std::any_of(readers->second.begin(), readers->second.end(), copies)) {
        unmade_.add(made, std::move(*parts));
      } else if (parts->size() == 1) {
        copied_[(*parts)[0].map.source] += graph_.type(made).bytes();
      }
    }
    unmade_.clear();
  }
  // See Note [Copy elision]. Requires the access map of the result.
  bool can_leave_out(std::uint32_t index) const {
    const ValueId made = graph_.operation(index).output();
    const auto readers = readers_.find(made);
    if (readers == readers_.end() || readers->second.empty()) return false;
    // The source may have to live until the result is read: at most twice the bytes of the result.
    const Type type_made = graph_.type(made);
    const RunLengths lines = RunLengths::of(unmade_.at(made), type_made);
    std::size_t kept = 0;
    for (const ConcatPiece& part : unmade_.at(made)) {
      const Storage storage = program_.slot(program_.slot_of(part.map.source)).storage;
      if (storage != Storage::input && storage != Storage::constant)
        kept += graph_.type(part.map.source).bytes();
    }
    std::size_t max_kept = type_made.bytes();
    if (unmade_.at(made).size() == 1) {
      const auto copied = copied_.find(unmade_.at(made)[0].map.source);
      if (copied != copied_.end() && kept <= steps_.max_kept()) max_kept = std::max(max_kept, copied->second);
    }
    if (kept > 2 * max_kept) return false;
    std::int64_t copied = 0;
    for (const std::size_t node : readers->second) {
      const ScheduleNode& at = program_.schedule().nodes[node];
      if (at.kind == NodeKind::operation && is_matmul(at.index)) {
        if (!plan_matmul(node, {})) return false;
        continue;
      }
      if (at.kind != NodeKind::operation || !is_layout(at.index)) return false;
      const Operation reader = graph_.operation(at.index);
      const Type type = graph_.type(reader.output());
      const std::optional<ConcatMap> parts = unmade_.result_of(at.index);
      if (!parts || !RunLengths::of(*parts, type).are_as_long_as(lines)) return false;
      for (const ValueId id : reader.inputs()) {
        if (program_.roots()[id] != made) continue;
        if (id != made) return false;  // in another shape
        copied += reader.num_inputs() == 1 ? type.size() : type_made.size();
      }
    }
    return copied <= type_made.size();
  }
  bool reads_left_out(std::uint32_t index) const {
    const std::span<const ValueId> inputs = graph_.operation(index).inputs();
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](ValueId id) { return unmade_.contains(program_.roots()[id]); });
  }

  // The destination of a matmul's result.
  struct Target {
    ValueId made = no_index;  // the result of the layout operation
    bool first = false;       // is it the first matmul that writes to it?
    AccessMap view;
    bool add_zero = false;
  };
  std::optional<LayoutStep> plan_matmul(std::size_t node, const Target& target) const {
    const Operation operation = graph_.operation(program_.schedule().nodes[node].index);
    const Op op = operation.op();
    const std::array in{graph_.type(operation.inputs()[0]), graph_.type(operation.inputs()[1])};
    const std::array out{graph_.type(operation.output())};
    MatmulOperands views;
    LayoutStep step{node, {}, steps_.at(node).values.results, {}};
    for (std::size_t i = 0; i < 2; ++i) {
      std::optional<AccessMap> view = unmade_.view_of(operation.inputs()[i]);
      if (!view) return std::nullopt;
      step.operands.push_back(view->source);
      views.operands[i] = *std::move(view);
    }
    views.result = AccessMap::dense(operation.output(), out[0]);
    if (target.made != no_index) {
      views.result = target.view;
      views.add_zero = target.add_zero;
      views.into_operand = !target.first;
      step.results.clear();
      (target.first ? step.results : step.operands).push_back(target.made);
    }
    step.plan = plan_strided_matmul({op, in, out, steps_.options().threads}, views);
    if (!step.plan) return std::nullopt;
    return step;
  }
  LayoutStep matmul_step(std::size_t node) const {
    const auto target = targets_.find(node);
    return *plan_matmul(node, target == targets_.end() ? Target{} : target->second);
  }

  // Is that layout operation the only reader of the value, directly or through elided results?
  bool is_read_by(std::size_t layout, ValueId id) const {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    std::vector<ValueId> values = {id};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto readers = readers_.find(values[i]);
      if (readers == readers_.end() || values.size() + readers->second.size() > max_readers) return false;
      for (const std::size_t node : readers->second) {
        if (node == layout) continue;
        if (nodes[node].kind != NodeKind::operation || !is_layout(nodes[node].index)) return false;
        const ValueId made = graph_.operation(nodes[node].index).output();
        if (!unmade_.contains(made)) return false;
        values.push_back(made);
      }
    }
    return true;
  }
  // The node that makes the value, or no node.
  std::size_t node_of(ValueId root) const {
    const std::uint32_t producer = graph_.data().producers[root];
    return producer < node_of_.size() ? node_of_[producer] : program_.schedule().nodes.size();
  }
  // If the fusion only adds 0.0 to values: the value to which it does for that result.
  std::optional<ValueId> with_zero_added(std::size_t node, ValueId result) const {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    if (nodes[node].kind != NodeKind::fusion || nodes[node].index != 0) return std::nullopt;
    std::optional<ValueId> found;
    for (std::size_t k = node + 1; k < node + nodes[node].size; ++k) {
      const Operation sum = graph_.operation(nodes[k].index);
      if (!is_any_of(sum, prim::add) || !is_zero(sum.inputs()[1])) return std::nullopt;
      if (sum.output() == result) found = program_.roots()[sum.inputs()[0]];
    }
    return found;
  }
  // 0.0 in all elements, no -0.0?
  bool is_zero(ValueId id) const {
    const ValueId source = program_.splats()[id];
    const auto producer = source == no_index ? std::nullopt : graph_.producer(source);
    if (!producer || !is_any_of(graph_.operation(*producer), prim::full)) return false;
    const Literal* literal = passes::literal_of(graph_, source);
    return literal != nullptr && std::all_of(literal->bytes(), literal->bytes() + literal->type().bytes(),
                                             [](std::byte b) { return b == std::byte{0}; });
  }
  // See Note [Results in place].
  bool make_in_place(std::size_t layout, ElidedCopies& copies) {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    const std::uint32_t index = nodes[layout].index;
    const ValueId made = graph_.operation(index).output();
    const std::optional<ConcatMap> parts = matmuls_ ? unmade_.result_of(index) : std::nullopt;
    if (!parts || parts->size() > max_pieces || graph_.type(made).bytes() > steps_.max_kept()) return false;
    const std::vector<std::int64_t> to = strides_of(graph_.type(made));
    std::vector<std::pair<std::size_t, Target>> targets;
    std::vector<std::size_t> fusions;
    for (const ConcatPiece& part : *parts) {
      ValueId from = part.map.source;
      std::size_t node = node_of(from);
      if (node == nodes.size() || !is_read_by(layout, from)) return false;
      bool add_zero = false;
      if (const std::optional<ValueId> summand = with_zero_added(node, from)) {
        const auto readers = readers_.find(*summand);
        if (readers == readers_.end() || readers->second != std::vector{node}) return false;
        if (std::find(fusions.begin(), fusions.end(), node) == fusions.end()) fusions.push_back(node);
        add_zero = true;
        from = *summand;
        node = node_of(from);
      }
      if (node == nodes.size() || nodes[node].kind != NodeKind::operation || !is_matmul(nodes[node].index) ||
          targets_.count(node) != 0)
        return false;
      Target target{made, false, {}, add_zero};
      const Type type = graph_.type(from);
      const std::vector<std::int64_t> strides = strides_of(type);
      target.view = AccessMap::dense(made, type);
      for (AccessAxis& axis : target.view.axes) axis.stride = 0;
      std::int64_t size = 1;
      for (std::size_t k = 0; k < part.begin.size(); ++k) {
        const AccessAxis& axis = part.map.axes[k];
        target.view.offset += part.begin[k] * to[k];
        if (axis.extent == 1) continue;
        std::size_t own = 0;
        while (own < type.rank() && (type.dim(own) != axis.extent || strides[own] != axis.stride)) ++own;
        if (own == type.rank()) return false;
        target.view.axes[own].stride = to[k];
        size *= axis.extent;
      }
      if (part.map.offset != 0 || size != type.size()) return false;
      targets.emplace_back(node, std::move(target));
    }
    std::size_t summed = 0;
    for (const std::size_t fusion : fusions) summed += nodes[fusion].size - 1;
    const bool add_zero = targets[0].second.add_zero;
    if (add_zero != !fusions.empty() || (add_zero && summed != targets.size())) return false;
    std::sort(targets.begin(), targets.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    targets[0].second.first = true;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (i > 0 && targets[i].first == targets[i - 1].first) return false;
      if (targets[i].second.add_zero != add_zero || !plan_matmul(targets[i].first, targets[i].second))
        return false;
    }
    targets_.insert(targets.begin(), targets.end());
    for (const std::size_t fusion : fusions) copies.steps.push_back({fusion, {}, {}, {}});
    return true;
  }
  LayoutStep step_of(std::size_t node) const {
    const std::uint32_t index = program_.schedule().nodes[node].index;
    LayoutStep step{node, {}, steps_.at(node).values.results, {}};
    step.plan = plan_concat_copy(*unmade_.result_of(index), graph_.type(graph_.operation(index).output()),
                                 steps_.options().threads, step.operands);
    return step;
  }

  const StepGraph& steps_;
  const Program& program_;
  const Graph& graph_;
  ElidedValues unmade_;               // values that are elided
  const bool matmuls_;                // may matmuls take part? Not those that prepare fixed operands
  std::vector<std::size_t> node_of_;  // by operation
  std::unordered_map<ValueId, std::vector<std::size_t>> readers_;  // of no outputs
  std::unordered_map<ValueId, std::size_t> copied_;                // see find_copied
  std::unordered_map<std::size_t, Target> targets_;                // by node: of matmuls
};

}  // namespace

void copy_elision(StepGraph& steps) {
  if (!steps.has_composites() || steps.custom_kernels() || steps.options().depth > 0) return;
  ElidedCopies copies = CopyElider(steps).find();
  for (const std::uint32_t index : copies.elided) steps.absorb(index);
  for (LayoutStep& changed : copies.steps) {
    Step& step = steps.at(changed.node);
    step.values.operands = std::move(changed.operands);
    step.values.results = std::move(changed.results);
    if (changed.plan) {
      step.plan = std::make_unique<const Plan>(std::move(changed.plan));
    } else {
      step.absorbed = true;
    }
  }
}

}  // namespace tidu::cpu_detail
