// inplace_updates.cpp - the pass inplace_updates: operations that change some elements of an array write into
// its buffer.
//
// Note [Scattered]: scatter_add, its form with an index for each position, and dynamic_update_slice update
// their operand in place if nothing reads it later. If the result is an output, the operand is computed in
// the output's buffer. If the operand is a splat, such as the initial zeros of a gradient, the operation
// fills its result itself, and the operand is not materialized.
#include <algorithm>
#include <array>
#include <utility>

#include "cpu/is_any_of.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t max_scatter_operands = 8;

// `at` has the positions of the operation's operands among those of the step; operand 0 is the result.
struct FillState {
  Plan fill, scatter;
  std::size_t num_operands;
  std::array<std::uint8_t, max_scatter_operands> at;
};
void fill_and_scatter(const FillState& s, const Call& call) {
  s.fill.run(s.fill.state.get(), Call{nullptr, call.out, call.scratch});
  std::array<const std::byte*, max_scatter_operands> in;
  in[0] = call.out[0];
  for (std::size_t i = 1; i < s.num_operands; ++i) in[i] = call.in[s.at[i]];
  s.scatter.run(s.scatter.state.get(), Call{in.data(), call.out, call.scratch});
}

class InPlaceUpdates {
 public:
  explicit InPlaceUpdates(StepGraph& steps)
      : steps_(steps), program_(steps.program()), graph_(steps.graph()) {}

  void run() {
    std::vector<std::size_t> found;
    steps_.for_each([&](std::size_t i) {
      if (steps_.nodes()[i].kind == NodeKind::operation && changes_array(steps_.nodes()[i].index))
        found.push_back(i);
    });
    if (found.empty()) return;
    steps_.make_steps();
    for (const std::size_t i : found) {
      const std::uint32_t operation = steps_.nodes()[i].index;
      if (steps_.is_unchanged(operation) && !fill(i, operation))
        steps_.at(i).values.changed = program_.roots()[graph_.operation(operation).input(0)];
    }
    if (!filled_.empty()) absorb_unread_splats();
  }

 private:
  // Does it change an array of several elements, which it reads in no other way?
  bool changes_array(std::uint32_t index) const {
    const Operation operation = graph_.operation(index);
    if (!is_any_of(operation, prim::scatter_add, prim::scatter_add_along_axis, prim::dynamic_update_slice))
      return false;
    const std::span<const ValueId> inputs = operation.inputs();
    const ValueId array = program_.roots()[inputs[0]];
    return graph_.type(inputs[0]).size() > 1 &&
           graph_.type(array).bytes() == graph_.type(inputs[0]).bytes() &&
           std::count_if(inputs.begin(), inputs.end(),
                         [&](ValueId id) { return program_.roots()[id] == array; }) == 1;
  }

  // Plans an operation that fills its result itself, if the array is a splat in the workspace.
  bool fill(std::size_t node, std::uint32_t index) {
    const Operation operation = graph_.operation(index);
    const ValueId array = program_.roots()[operation.input(0)];
    const auto producer = graph_.producer(array);
    if (!producer || operation.num_inputs() > max_scatter_operands) return false;
    const Operation made = graph_.operation(*producer);
    const SlotId slot = program_.slot_of(array);
    if (!made.primitive().has_trait(Trait::repeats) || made.num_inputs() != 0 || slot == no_index ||
        program_.slot(slot).storage < Storage::small)
      return false;
    FillState state{steps_.plans().plan(*producer), steps_.plans().plan(index), operation.num_inputs(), {}};
    std::vector<ValueId>& operands = steps_.at(node).values.operands;
    operands.erase(std::find(operands.begin(), operands.end(), array));
    for (std::size_t i = 1; i < state.num_operands; ++i) {
      const auto at = std::find(operands.begin(), operands.end(), program_.roots()[operation.input(i)]);
      state.at[i] = static_cast<std::uint8_t>(at - operands.begin());
    }
    const std::size_t scratch = std::max(state.fill.scratch, state.scatter.scratch);
    steps_.at(node).plan =
        std::make_unique<const Plan>(make_plan<FillState, fill_and_scatter>(std::move(state), scratch));
    filled_.push_back(array);
    return true;
  }

  // Absorbs the operations whose splats no step reads any more.
  void absorb_unread_splats() {
    const std::vector<std::uint32_t> readers = steps_.count_readers();
    steps_.for_each([&](std::size_t i) {
      if (steps_.nodes()[i].kind != NodeKind::operation) return;
      const ValueId made = graph_.operation(steps_.nodes()[i].index).output(0);
      if (readers[made] != 0 || std::find(filled_.begin(), filled_.end(), made) == filled_.end()) return;
      steps_.absorb(steps_.nodes()[i].index);
      steps_.at(i).values = {};
    });
  }

  StepGraph& steps_;
  const Program& program_;
  const Graph& graph_;
  std::vector<ValueId> filled_;  // splats that updates fill themselves
};

}  // namespace

void inplace_updates(StepGraph& steps) {
  if (!steps.custom_kernels()) InPlaceUpdates(steps).run();
}

}  // namespace tidu::cpu_detail
