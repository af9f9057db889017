// fused_loads.cpp - the pass fused_loads: slices, pads, broadcasts, iotas and rolls are not materialized if
// all their readers are element-wise fusions, which read the elements at the source, or further operations of
// this kind, whose access maps are composed.
//
// Note [Chains of fused loads]: from the last operation to the first, a layout operation whose readers can
// all do without its result is not a reader of its operand either. From the first to the last, these become
// maps of values in memory. One that cannot become a map is materialized, and so are all its operands. Maps
// that were found earlier stay.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cpu/access_map.hpp"
#include "cpu/is_any_of.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

// Minimum bytes of a value that is read through a map of several axes: a smaller one stays in the nearest
// cache.
constexpr std::size_t min_gathered = std::size_t{1} << 16;

bool is_layout(const Graph& graph, std::uint32_t operation) {
  return is_any_of(graph.operation(operation), prim::slice, prim::pad, prim::broadcast_in_dim, prim::iota) ||
         passes::roll_of(graph, operation);
}

class LoadFinder {
 public:
  explicit LoadFinder(StepGraph& steps);

  /// The fused loads of a fusion. Replaces their values in `fusion` by the sources.
  std::vector<FusedLoad> find(passes::NodeValues& fusion) const;
  /// Is the operation elided?
  bool elides(std::uint32_t operation) const {
    const OperationRecord& record = graph_.data().operations[operation];
    return record.num_outputs == 1 && unmade_.find(record.first_output) != unmade_.end();
  }

 private:
  struct Unmade {
    ValueId from = no_index;       // the source, a root; no_index for an iota
    std::optional<AccessMap> map;  // with the axes of the value; nothing if only other maps are made of it
  };
  void add(std::uint32_t operation);
  Unmade unmade(std::uint32_t operation) const;
  bool can_read(ValueId id, const Unmade& value) const;
  void materialize(ValueId id);

  const Program& program_;
  const Graph& graph_;
  std::vector<std::uint32_t> by_fusions_;  // by value: number of fusions that read it
  std::unordered_map<ValueId, Unmade> unmade_;
};

LoadFinder::LoadFinder(StepGraph& steps)
    : program_(steps.program()), graph_(steps.graph()), by_fusions_(graph_.num_values()) {
  const std::vector<std::uint32_t> readers = steps.count_readers();
  std::vector<std::uint32_t> reading(graph_.num_values(), 0);  // readers that can do without the value
  std::vector<std::uint32_t> layouts;
  steps.for_each([&](std::size_t i) {
    if (!steps.is_loop_fusion(i)) return;
    for (const ValueId id : steps.at(i).values.operands) {
      ++by_fusions_[id];
      ++reading[id];
    }
  });
  for (auto k = static_cast<std::uint32_t>(graph_.num_operations()); k-- > 0;) {
    if (!steps.is_unchanged(k) || steps.reads_accumulator(k)) continue;
    const OperationRecord& record = graph_.data().operations[k];
    if (record.num_outputs != 1 || reading[record.first_output] == 0 ||
        reading[record.first_output] != readers[record.first_output] || !is_layout(graph_, k))
      continue;
    layouts.push_back(k);
    for (const ValueId id : steps.at(steps.position_of(k)).values.operands) ++reading[id];
  }
  for (std::size_t i = layouts.size(); i-- > 0;) add(layouts[i]);
}

void LoadFinder::add(std::uint32_t operation) {
  const Operation layout = graph_.operation(operation);
  const ValueId made = layout.output();
  Unmade value = unmade(operation);
  // A value that no fusion reads itself needs no map that can be read, such as a slice of a roll.
  const bool fits = by_fusions_[made] > 0 ? can_read(made, value) : value.map || layout.num_inputs() > 0;
  if (fits) {
    unmade_.emplace(made, std::move(value));
  } else {
    for (const ValueId id : layout.inputs()) materialize(id);
  }
}

LoadFinder::Unmade LoadFinder::unmade(std::uint32_t operation) const {
  const Operation layout = graph_.operation(operation);
  if (layout.num_inputs() == 0) return {no_index, compose(graph_, operation, {})};
  const std::optional<passes::Roll> roll = passes::roll_of(graph_, operation);
  const ValueId operand = roll ? roll->from : layout.inputs()[0];
  const ValueId root = program_.roots()[operand];
  const auto found = unmade_.find(root);
  if (found == unmade_.end())
    return {root, compose(graph_, operation, AccessMap::dense(root, graph_.type(operand)))};
  const bool known = found->second.map && graph_.type(operand) == graph_.type(root);
  return {found->second.from, known ? compose(graph_, operation, *found->second.map) : std::nullopt};
}

bool LoadFinder::can_read(ValueId id, const Unmade& value) const {
  if (!value.map) return false;
  const std::optional<AccessMap> map = with_merged_axes(*value.map);
  if (!map || (map->axes.size() > 1 && graph_.type(id).bytes() < min_gathered)) return false;
  if (value.from == no_index) return true;
  // The source lives until the fusions have run. It may be twice as large as the value, or a quarter larger
  // if the last of several fusions may run much later.
  const SlotId slot = program_.slot_of(value.from);
  if (slot == no_index) return false;
  const Storage storage = program_.slot(slot).storage;
  const std::size_t bytes = graph_.type(id).bytes(),
                    max_bytes = by_fusions_[id] > 1 ? bytes + bytes / 4 : 2 * bytes;
  return storage == Storage::input || storage == Storage::constant ||
         graph_.type(value.from).bytes() <= max_bytes;
}

// Materializes a value after all, and the operands of its operation.
void LoadFinder::materialize(ValueId id) {
  std::vector<ValueId> values = {program_.roots()[id]};
  while (!values.empty()) {
    const ValueId value = values.back();
    values.pop_back();
    if (unmade_.erase(value) == 0) continue;
    for (const ValueId operand : graph_.operation(*graph_.producer(value)).inputs())
      values.push_back(program_.roots()[operand]);
  }
}

std::vector<FusedLoad> LoadFinder::find(passes::NodeValues& fusion) const {
  std::vector<FusedLoad> found;
  for (const ValueId id : fusion.operands) {
    const auto value = unmade_.find(id);
    if (value != unmade_.end()) found.push_back({id, *with_merged_axes(*value->second.map)});
  }
  const auto is_read = [&](ValueId id) {
    return std::find(fusion.operands.begin(), fusion.operands.end(), id) != fusion.operands.end();
  };
  for (const FusedLoad& operand : found) {
    std::erase(fusion.operands, operand.value);
    const ValueId source = operand.map.source;
    if (source == no_index) continue;
    if (!is_read(source)) fusion.operands.push_back(source);
    fusion.whole.push_back(source);
  }
  return found;
}

}  // namespace

void fused_loads(StepGraph& steps) {
  if (!steps.has_composites() || steps.options().vector_jit == nullptr || steps.custom_kernels()) return;
  const LoadFinder finder(steps);
  steps.for_each([&](std::size_t i) {
    if (!steps.is_loop_fusion(i)) return;
    std::vector<FusedLoad> loads = finder.find(steps.at(i).values);
    if (!loads.empty()) steps.prologue_and_epilogue(i).loads = std::move(loads);
  });
  for (std::uint32_t k = 0; k < steps.graph().num_operations(); ++k) {
    if (finder.elides(k)) steps.absorb(k);
  }
}

}  // namespace tidu::cpu_detail
