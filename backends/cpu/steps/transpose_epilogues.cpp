// transpose_epilogues.cpp - the pass transpose_epilogues: a row fusion absorbs the transpose right after it,
// if nothing else reads the transpose's operand.
#include <algorithm>
#include <optional>
#include <utility>

#include "cpu/is_any_of.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

// Results with fewer bytes stay in the caches, where writing them twice costs little.
constexpr std::size_t min_transposed = std::size_t{1} << 16;

// The transposing copy of the result of a fusion with this plan; nothing unless it is computed row by row.
std::optional<TransposingCopy> transposing_copy(const Graph& graph, const Operation& transpose,
                                                const RowsPlan& plan) {
  const Type type = graph.type(transpose.inputs()[0]);
  if (!plan.folds.empty() || plan.period != 1 || type.size() != plan.rows * plan.code.columns)
    return std::nullopt;
  return TransposingCopy::make(type, transpose.op().ints("permutation"), plan.code.columns);
}

// The transpose at the position after a row fusion; no_index if there is none that may be absorbed.
std::size_t transpose_after(const StepGraph& steps, std::size_t fusion) {
  const ScheduleNode& node = steps.nodes()[fusion];
  const std::size_t next = fusion + node.size;
  if (node.kind != NodeKind::fused_group || node.index == 0 || next >= steps.nodes().size() ||
      steps.nodes()[next].kind != NodeKind::operation || steps.at(next).absorbed)
    return no_index;
  const Operation operation = steps.graph().operation(steps.nodes()[next].index);
  if (!is_any_of(operation, prim::transpose)) return no_index;
  // Copy elision may have given it other operands.
  const ValueId value = steps.program().roots()[operation.inputs()[0]];
  return steps.at(next).values.operands == std::vector{value} ? next : no_index;
}

}  // namespace

void transpose_epilogues(StepGraph& steps) {
  const CompileOptions& options = steps.options();
  if (!steps.has_composites() || options.lanes == nullptr || steps.custom_kernels() || options.depth > 0)
    return;
  const Graph& graph = steps.graph();
  std::vector<std::uint32_t> readers;
  steps.for_each([&](std::size_t fusion) {
    const std::size_t next = transpose_after(steps, fusion);
    if (next == no_index) return;
    const Operation operation = graph.operation(steps.nodes()[next].index);
    const ValueId value = steps.at(next).values.operands[0], result = operation.output();
    passes::NodeValues& values = steps.at(fusion).values;
    const auto at = std::ranges::find(values.results, value);
    if (graph.type(result).bytes() < min_transposed || at == values.results.end()) return;
    if (readers.empty()) readers = steps.count_readers();
    if (readers[value] != 1) return;
    std::optional<RowsPlan> plan =
        plan_rows_code(steps.program(), fusion, values, options.repeats, options.num_carry);
    if (!plan || (options.check_indices && plan->code.has_indices())) return;  // code checks no indices
    std::optional<TransposingCopy> copy = transposing_copy(graph, operation, *plan);
    if (!copy) return;
    *at = result;
    values.whole = values.operands;
    steps.at(fusion).transposed = std::make_unique<const TransposedResult>(
        TransposedResult{value, result, *std::move(plan), *std::move(copy)});
    steps.absorb(steps.nodes()[next].index);
  });
}

}  // namespace tidu::cpu_detail
