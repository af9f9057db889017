// accumulate_in_place.cpp - the pass accumulate_in_place. An accumulator of a loop is an output that starts
// with the value of an input and shares its memory. If such an output is the sum of that input and of a term
// that one operation computes for it alone, and the operation's kernel can add to its result, then the
// operation absorbs the addition. The term has no memory.
#include "cpu/steps/step_passes.hpp"

namespace tidu::cpu_detail {
namespace {

// The addition that an accumulator consists of, and the operation that computes its term; no_index if it is
// none that can be absorbed. `reads` has the number of uses of each value.
struct Accumulation {
  std::uint32_t addition = no_index, producer = no_index;
};
Accumulation accumulation_of(const StepGraph& steps, std::size_t k, const std::vector<std::uint32_t>& reads) {
  const Graph& graph = steps.graph();
  const GraphData& g = graph.data();
  const std::uint32_t output = steps.call_site().sums[k];
  const ValueId sum = graph.outputs()[output];
  const ValueId accumulator = graph.inputs()[graph.inputs().size() - steps.call_site().sums.size() + k];
  const auto is_standalone = [&](std::uint32_t operation) {
    return operation < g.operations.size() && steps.position_of(operation) != no_index;
  };
  const std::uint32_t addition = g.producers[sum];
  if (!is_standalone(addition) || !steps.program().is_written_directly(output)) return {};
  const OperationRecord& record = g.operations[addition];
  if (record.op->primitive != graph.primitives().add() || reads[sum] != 1) return {};
  const ValueId so_far = g.operands[record.first_input], term = g.operands[record.first_input + 1];
  const std::uint32_t producer = g.producers[term];
  if (so_far != accumulator || reads[so_far] != 1 || reads[term] != 1 || !is_standalone(producer) ||
      graph.type(sum).size() == 1)
    return {};
  return {addition, producer};
}

}  // namespace

void accumulate_in_place(StepGraph& steps) {
  if (steps.call_site().sums.empty()) return;
  steps.make_steps();
  const Graph& graph = steps.graph();
  std::vector<std::uint32_t> reads(graph.num_values(), 0);
  for (const ValueId id : graph.data().operands) ++reads[id];
  for (const ValueId id : graph.outputs()) ++reads[id];
  for (std::size_t k = 0; k < steps.call_site().sums.size(); ++k) {
    const Accumulation found = accumulation_of(steps, k, reads);
    if (found.addition == no_index || !steps.plans().plan_adding(found.producer)) continue;
    const Operation addition = graph.operation(found.addition);
    Step& step = steps.at(steps.position_of(found.producer));
    step.addition = found.addition;
    step.values.results = {addition.output()};
    step.values.operands.push_back(steps.program().roots()[addition.inputs()[0]]);
    steps.absorb(found.addition);
    steps.at(steps.position_of(found.addition)).values = {};
  }
}

}  // namespace tidu::cpu_detail
