// step_graph.cpp - see step_graph.hpp.
#include "cpu/steps/step_graph.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace tidu::cpu_detail {
namespace {

bool has_composite_nodes(const Program& program) {
  return std::ranges::any_of(program.schedule().nodes,
                             [](const ScheduleNode& node) { return node.kind != NodeKind::operation; });
}

}  // namespace

StepGraph::StepGraph(const Program& program, OperationPlans& plans, const CompileOptions& options,
                     const CallSite& call_site, bool custom_kernels, std::size_t max_kept)
    : program_(program),
      plans_(plans),
      options_(options),
      call_site_(call_site),
      custom_kernels_(custom_kernels),
      has_composites_(has_composite_nodes(program)),
      max_kept_(max_kept) {}

void StepGraph::make_steps() {
  if (!steps_.empty()) return;
  std::vector<passes::NodeValues> values =
      passes::node_values(graph(), program_.schedule(), program_.roots(), program_.splats());
  steps_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) steps_[i].values = std::move(values[i]);
  position_of_.assign(graph().num_operations(), no_index);
  for_each([&](std::size_t i) {
    if (nodes()[i].kind == NodeKind::operation)
      position_of_[nodes()[i].index] = static_cast<std::uint32_t>(i);
  });
}

bool StepGraph::is_unchanged(std::uint32_t operation) const {
  const std::uint32_t position = position_of_[operation];
  if (position == no_index) return false;
  const Step& step = steps_[position];
  return !step.absorbed && step.addition == no_index && step.plan == nullptr;
}

bool StepGraph::reads_accumulator(std::uint32_t operation) const {
  const std::size_t first = graph().inputs().size() - call_site_.sums.size();
  const std::span<const ValueId> inputs = graph().operation(operation).inputs();
  return std::ranges::any_of(inputs, [&](ValueId id) {
    const SlotId slot = program_.slot_of(program_.roots()[id]);
    return slot != no_index && program_.slot(slot).storage == Storage::input &&
           program_.slot(slot).index >= first;
  });
}

std::vector<std::uint32_t> StepGraph::count_readers() const {
  std::vector<std::uint32_t> readers(graph().num_values(), 0);
  for (const Step& step : steps_) {
    for (const ValueId id : step.values.operands) ++readers[id];
  }
  for (const ValueId id : graph().outputs()) readers[program_.roots()[id]] += 2;
  return readers;
}

bool StepGraph::is_as_scheduled() const {
  return sub_buffers.empty() && std::ranges::none_of(steps_, [](const Step& step) {
           return step.absorbed || step.plan || step.around_fusion || step.addition != no_index ||
                  step.values.changed != no_index;
         });
}

Program StepGraph::assign_buffers() {
  for (Step& step : steps_) {
    if (step.absorbed) step.values = {};
  }
  if (is_as_scheduled()) return program_;
  std::vector<bool> is_constant(graph().num_values());
  for (ValueId id = 0; id < is_constant.size(); ++id) {
    const SlotId slot = program_.slot_of(id);
    is_constant[id] =
        program_.roots()[id] == id && slot != no_index && program_.slot(slot).storage == Storage::constant;
  }
  std::vector<passes::NodeValues> values;
  values.reserve(steps_.size());
  for (Step& step : steps_) values.push_back(std::move(step.values));
  SlotPlan plan = passes::assign_slots(graph(), program_.schedule(), is_constant, program_.roots(), values,
                                       program_.options().in_place, sub_buffers);
  for (std::size_t i = 0; i < steps_.size(); ++i) steps_[i].values = std::move(values[i]);
  plan.block_bytes = program_.plan().block_bytes;
  return program_.with_plan(std::move(plan));
}

std::vector<bool> StepGraph::changed_operations() const {
  if (steps_.empty()) return {};
  std::vector<bool> changed(graph().num_operations(), false);
  for_each([&](std::size_t i) {
    if (nodes()[i].kind == NodeKind::operation) changed[nodes()[i].index] = !is_unchanged(nodes()[i].index);
  });
  return changed;
}

}  // namespace tidu::cpu_detail
