// loops.cpp - which operations run block by block.
//
// Note [Axes that go together]: each factor of an operation unites the axes of operands and result that it
// names, so the axes of a graph fall into classes. For example, the axes of the points of a data set are one
// class, whatever is computed for each point. A loop tiles one class. If an operation sums over it, the loop
// accumulates the sum, and readers of the sum run after the loop; a value that is computed for each point
// from such sums needs a second loop. Phases count these loops.
//
// Note [Worth a loop]: values that are made and read within a loop are in memory only block by block. That is
// the gain; sums over the axis cost, since each block reads and writes them.
#include "cpu/schedule/loops.hpp"

#include <algorithm>
#include <optional>

#include "tidu/graph/factors.hpp"

namespace tidu::passes {
namespace {

constexpr std::uint32_t deepest_float = 8;
constexpr std::int64_t few_points = 64;
constexpr std::size_t small_value = std::size_t{1} << 17;

bool can_loop(const OperationRecord& record) {
  const Primitive& primitive = *record.op->primitive;
  return record.num_outputs == 1 && !primitive.has_trait(Trait::impure) &&
         (primitive.factors != nullptr || primitive.has_trait(Trait::elementwise));
}

void elementwise_factors(Factors& f) {
  std::vector<int> axes(f.num_operands());
  for (int axis = 0; axis < static_cast<int>(f.result().rank()); ++axis) {
    for (std::size_t i = 0; i < axes.size(); ++i)
      axes[i] = f.operand(i).rank() == f.result().rank() ? axis : Factors::none;
    f.add(axes, axis);
  }
}

// Axes are kept in a byte.
bool has_few_axes(const Graph& graph, const OperationRecord& record) {
  constexpr std::size_t most = 100;
  bool few = graph.type(record.first_output).rank() <= most;
  for (std::uint32_t k = 0; k < record.num_inputs; ++k)
    few = few && graph.type(graph.data().operands[record.first_input + k]).rank() <= most;
  return few;
}

// Made of nothing, or of one element after another of what is not cut.
bool is_by_element(const Primitive& primitive) {
  return !primitive.has_trait(Trait::contraction) && !primitive.has_trait(Trait::reduction);
}

}  // namespace

AxisClasses::AxisClasses(const Graph& graph) : graph_(graph) {
  const GraphData& g = graph.data();
  std::uint32_t axes = 0;
  axis_base_.reserve(graph.num_values());
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    axis_base_.push_back(axes);
    for (const std::int64_t extent : graph.type(id).shape()) {
      parent_.push_back(axes++);
      extents_.push_back(extent);
    }
  }
  Factors factors;
  std::vector<Type> types;
  for (const OperationRecord& record : g.operations) {
    first_.push_back(static_cast<std::uint32_t>(node_.size()));
    if (!can_loop(record) || record.num_inputs > 64 || !has_few_axes(graph, record)) continue;
    const ValueId* operands = g.operands.data() + record.first_input;
    types.clear();
    for (std::uint32_t i = 0; i < record.num_inputs; ++i) types.push_back(graph.type(operands[i]));
    const Op op = Op::of(record.op);
    factors.begin(op, types, graph.type(record.first_output));
    if (op.primitive().factors != nullptr) {
      op.primitive().factors(factors);
    } else {
      elementwise_factors(factors);
    }
    for (std::size_t f = 0; f < factors.size(); ++f) {
      first_axis_.push_back(static_cast<std::uint32_t>(axes_.size()));
      std::uint32_t node = no_index;
      const auto meet = [&](ValueId id, int axis) {
        axes_.push_back(static_cast<std::int8_t>(axis));
        if (axis == Factors::none) return;
        const std::uint32_t at = axis_base_[id] + static_cast<std::uint32_t>(axis);
        if (node != no_index) unite(node, at);
        node = at;
      };
      for (std::uint32_t i = 0; i < record.num_inputs; ++i) meet(operands[i], factors.axis_of(f, i));
      meet(record.first_output, factors.result_axis(f));
      if (node == no_index) {  // a factor of nothing
        axes_.resize(first_axis_.back());
        first_axis_.pop_back();
        continue;
      }
      node_.push_back(node);
    }
  }
  first_.push_back(static_cast<std::uint32_t>(node_.size()));
}

AxisClasses::Factor AxisClasses::factor(std::uint32_t operation, std::uint32_t i) const {
  return {axes_.data() + first_axis_[first_[operation] + i], graph_.data().operations[operation].num_inputs};
}

std::uint32_t AxisClasses::root(std::uint32_t node) {
  while (parent_[node] != node) {
    parent_[node] = parent_[parent_[node]];
    node = parent_[node];
  }
  return node;
}
void AxisClasses::unite(std::uint32_t a, std::uint32_t b) { parent_[root(b)] = root(a); }

std::vector<std::uint32_t> AxisClasses::largest(std::size_t count) {
  std::vector<std::size_t> bytes(parent_.size(), 0);
  for (std::uint32_t i = 0; i + 1 < first_.size(); ++i) {
    if (num_factors(i) == 0) continue;
    const std::size_t size = graph_.type(graph_.data().operations[i].first_output).bytes();
    for (std::uint32_t f = 0; f < num_factors(i); ++f) {
      if (factor(i, f).of_result() != Factors::none) bytes[class_of(i, f)] += size;
    }
  }
  std::vector<std::uint32_t> classes;
  for (std::uint32_t c = 0; c < bytes.size(); ++c) {
    if (bytes[c] > 0) classes.push_back(c);
  }
  const std::size_t kept = std::min(count, classes.size());
  std::partial_sort(
      classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(kept), classes.end(),
      [&](std::uint32_t a, std::uint32_t b) { return bytes[a] != bytes[b] ? bytes[a] > bytes[b] : a < b; });
  classes.resize(kept);
  return classes;
}

Roles assign_roles(const Graph& graph, AxisClasses& classes, std::uint32_t axis_class, bool always) {
  const GraphData& g = graph.data();
  Roles roles;
  roles.extent = classes.extent_of(axis_class);
  roles.of.resize(graph.num_operations());
  const bool can_add = graph.primitives().add() != nullptr;
  std::vector<std::uint8_t> float_depth(graph.num_operations(), 0);
  const auto role_of = [&](ValueId id) -> const Role* {
    const std::uint32_t producer = g.producers[id];
    return producer < graph.num_operations() ? &roles.of[producer] : nullptr;
  };
  const auto in_loop = [](const Role* role) { return role != nullptr && (role->phase & 1U) != 0; };
  // When the whole value is there: an even phase.
  const auto whole_at = [&](ValueId id) {
    const Role* role = role_of(id);
    return role == nullptr ? 0U : (role->phase + 1U) & ~1U;
  };
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const OperationRecord& record = g.operations[i];
    const std::span<const ValueId> operands{g.operands.data() + record.first_input, record.num_inputs};
    const Primitive& primitive = *record.op->primitive;
    Role best;
    for (const ValueId id : operands) best.phase = std::max(best.phase, whole_at(id));
    const std::uint32_t whole_phase = best.phase;
    bool found = false, follows = false;  // does it take what its loop makes?
    std::optional<std::uint32_t> float_at;
    for (std::uint32_t f = 0; f < classes.num_factors(i); ++f) {
      if (classes.class_of(i, f) != axis_class) continue;
      const AxisClasses::Factor factor = classes.factor(i, f);
      if (factor.of_result() == Factors::none &&
          (!can_add || is_half(graph.type(record.first_output).dtype())))
        continue;  // 16-bit sums are rounded once, not after each block
      std::uint32_t phase = 1, depth = 0;
      bool floats = is_by_element(primitive) && factor.of_result() != Factors::none;
      bool outside = true;
      for (std::size_t k = 0; k < operands.size(); ++k) {
        const Role* role = role_of(operands[k]);
        const int axis = factor.of_operand(k);
        if (axis != Factors::none) {
          const bool floating = role != nullptr && role->kind == Role::Kind::floating;
          floats = floats && floating;
          if (floating) depth = std::max<std::uint32_t>(depth, float_depth[g.producers[operands[k]]]);
        }
        if (axis != Factors::none && in_loop(role)) outside = false;
        if (axis != Factors::none && in_loop(role) && role->kind == Role::Kind::cut && role->axis == axis) {
          phase = std::max(phase, role->phase);
        } else {
          phase = std::max(phase, whole_at(operands[k]) + 1);
        }
      }
      if (floats && depth < deepest_float) {
        float_at = std::max(float_at.value_or(0), depth);
        continue;
      }
      // A view of an untiled value is untiled too.
      if (outside && primitive.has_trait(Trait::view)) break;
      // With few points, a small value is made once: each block would take as long for it.
      const bool small =
          !always && roles.extent <= few_points && graph.type(record.first_output).bytes() <= small_value;
      if (outside && small && whole_phase == 0 && factor.of_result() != Factors::none) break;
      if (found && phase >= best.phase) continue;
      found = true;
      follows = !outside;
      best = {factor.of_result() == Factors::none ? Role::Kind::sum : Role::Kind::cut, factor.of_result(), f,
              phase};
    }
    if (float_at && !follows) {
      best = {.kind = Role::Kind::floating, .phase = whole_phase};
      float_depth[i] = static_cast<std::uint8_t>(*float_at + 1);
    }
    roles.of[i] = best;
    roles.num_phases = std::max(roles.num_phases, best.phase + 2);
  }
  return roles;
}

namespace {

// By value: does an operation outside of its loop read it?
std::vector<bool> find_escapes(const Graph& graph, const Roles& roles, const std::vector<ValueId>& roots) {
  std::vector<bool> escapes(graph.num_values(), false);
  const GraphData& g = graph.data();
  for (const ValueId id : graph.outputs()) escapes[roots[id]] = true;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const OperationRecord& record = g.operations[i];
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
      const ValueId id = roots[g.operands[record.first_input + k]];
      const std::uint32_t producer = g.producers[id];
      if (producer >= graph.num_operations()) continue;
      if (roles.of[producer].phase != roles.of[i].phase || (roles.of[i].phase & 1U) == 0) escapes[id] = true;
    }
  }
  return escapes;
}

std::vector<std::vector<std::uint32_t>> operations_by_phase(const Roles& roles) {
  std::vector<std::vector<std::uint32_t>> by_phase(roles.num_phases + 1);
  for (std::uint32_t i = 0; i < roles.of.size(); ++i) by_phase[roles.of[i].phase].push_back(i);
  return by_phase;
}

}  // namespace

LoopPlan find_loops(const Graph& graph, const std::vector<ValueId>& roots, const std::vector<ValueId>& splats,
                    const ProgramOptions& options, std::vector<bool>& is_constant) {
  LoopPlan plan;
  const GraphData& g = graph.data();
  std::size_t largest = 0;
  for (const OperationRecord& record : g.operations) {
    if (record.op->impure || record.op->primitive->has_trait(Trait::barrier)) return plan;
    if (record.num_outputs > 0 && record.num_inputs > 0)
      largest = std::max(largest, graph.type(record.first_output).bytes());
  }
  if (largest < large_value && options.loop_bytes > 0) return plan;

  AxisClasses classes(graph);
  Roles best;
  double most = 0;
  constexpr std::size_t candidates = 4;
  for (const std::uint32_t axis_class : classes.largest(candidates)) {
    Roles roles = assign_roles(graph, classes, axis_class, options.loop_bytes == 0);
    const std::vector<bool> escapes = find_escapes(graph, roles, roots);
    const auto by_phase = operations_by_phase(roles);
    double gain = 0;
    for (std::uint32_t phase = 1; phase < by_phase.size(); phase += 2)
      gain += loop_gain({graph, classes, roles, roots, splats, escapes, options, phase}, by_phase[phase]);
    if (gain <= most) continue;
    most = gain;
    best = std::move(roles);
  }
  if (most == 0) return plan;

  const std::vector<bool> escapes = find_escapes(graph, best, roots);
  const auto by_phase = operations_by_phase(best);
  std::vector<bool> needed(graph.num_values(), false);
  for (const ValueId id : graph.outputs()) needed[id] = true;
  std::vector<ValueId> unwanted;
  // From the last phase to the first: a rematerializable operation runs outside only if it is needed there.
  for (std::size_t phase = by_phase.size(); phase-- > 0;) {
    const std::vector<std::uint32_t>& operations = by_phase[phase];
    if (operations.empty()) continue;
    BlockedLoop loop;
    if ((phase & 1U) != 0)
      loop = make_loop(
          {graph, classes, best, roots, splats, escapes, options, static_cast<std::uint32_t>(phase)},
          operations);
    if (loop.body != nullptr) {
      for (const BlockedLoop::Value& operand : loop.operands) needed[operand.id] = true;
      plan.items.push_back({true, static_cast<std::uint32_t>(plan.loops.size())});
      plan.loops.push_back(std::move(loop));
      continue;
    }
    for (std::size_t k = operations.size(); k-- > 0;) {
      const OperationRecord& record = g.operations[operations[k]];
      bool wanted = false;
      for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
        wanted = wanted || needed[record.first_output + slot];
      if (!wanted) {
        for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
          unwanted.push_back(record.first_output + slot);
        continue;
      }
      for (std::uint32_t at = 0; at < record.num_inputs; ++at)
        needed[g.operands[record.first_input + at]] = true;
      plan.items.push_back({false, operations[k]});
    }
  }
  if (plan.loops.empty()) return {};
  for (const ValueId id : unwanted) is_constant[id] = false;
  std::reverse(plan.items.begin(), plan.items.end());
  return plan;
}

}  // namespace tidu::passes
