// matmul_epilogues.cpp - the pass matmul_epilogues: a fusion x + c AB or x - c AB absorbs the matmul AB and
// becomes its epilogue. The fusion must be the only reader of AB, unless AB is an output of the program.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cpu/is_any_of.hpp"
#include "cpu/matmul/matmul_epilogue.hpp"
#include "cpu/schedule/splat.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

// A smaller matmul stays in the caches, where writing and reading it costs little.
constexpr std::size_t min_matmul = std::size_t{1} << 16;

class EpilogueFinder {
 public:
  explicit EpilogueFinder(const StepGraph& steps)
      : steps_(steps),
        program_(steps.program()),
        graph_(steps.graph()),
        readers_(steps.count_readers()),
        outputs_(graph_.num_values(), 0) {
    for (const ValueId id : graph_.outputs()) ++outputs_[program_.roots()[id]];
  }

  // The update that a fusion of two operations computes; the last operation is the sum.
  std::optional<MatmulEpilogue> find(std::size_t node) const {
    const std::vector<ScheduleNode>& nodes = steps_.nodes();
    const std::vector<ValueId>& results = steps_.at(node).values.results;
    if (nodes[node].size != 3 || results.size() != 1) return std::nullopt;
    const Operation scaled = graph_.operation(nodes[node + 1].index);
    const Operation sum = graph_.operation(nodes[node + 2].index);
    const DType dtype = graph_.type(sum.output()).dtype();
    if (!is_any_of(scaled, prim::mul) || !is_any_of(sum, prim::add, prim::sub) ||
        (dtype != f32 && dtype != f64) || results[0] != sum.output())
      return std::nullopt;
    MatmulEpilogue update;
    update.subtract = is_any_of(sum, prim::sub);
    const bool is_second = sum.inputs()[1] == scaled.output();
    if (!is_second && (update.subtract || sum.inputs()[0] != scaled.output())) return std::nullopt;
    update.x = program_.roots()[sum.inputs()[is_second ? 0 : 1]];
    const bool scale_is_first = program_.splats()[scaled.inputs()[0]] != no_index;
    if (!take_scale(scaled.inputs()[scale_is_first ? 0 : 1], update) ||
        !take_matmul(scaled.inputs()[scale_is_first ? 1 : 0], sum, node, update))
      return std::nullopt;
    return update;
  }

 private:
  bool take_scale(ValueId id, MatmulEpilogue& update) const {
    const ValueId source = program_.splats()[id];
    if (source == no_index) return false;
    if (graph_.type(source).size() == 1) {
      update.scale = program_.roots()[source];
      return true;
    }
    if (const Literal* literal = passes::literal_of(graph_, source)) update.literal = *literal;
    return update.literal.has_value();
  }
  bool take_matmul(ValueId id, const Operation& sum, std::size_t node, MatmulEpilogue& update) const {
    id = program_.roots()[id];
    const std::uint32_t producer = graph_.data().producers[id];
    if (producer >= graph_.num_operations() || !steps_.can_replan(producer) || update.x == id) return false;
    // See StepGraph::count_readers.
    if (readers_[id] != 1 + 2 * outputs_[id]) return false;
    if (outputs_[id] != 0) update.kept = id;
    const Type type = graph_.type(id), x = graph_.type(update.x);
    const auto is_operand = [&](ValueId operand) {
      const std::vector<ValueId>& operands = steps_.at(node).values.operands;
      return std::find(operands.begin(), operands.end(), operand) != operands.end();
    };
    update.matmul = producer;
    return type.bytes() >= min_matmul && type.size() == graph_.type(sum.output()).size() &&
           x.size() == type.size() && x.dtype() == type.dtype() && is_operand(id) && is_operand(update.x);
  }

  const StepGraph& steps_;
  const Program& program_;
  const Graph& graph_;
  std::vector<std::uint32_t> readers_;  // by root: steps, and more for outputs
  std::vector<std::uint32_t> outputs_;  // by root: the number of outputs that it is
};

// Makes the fusion one step with its matmul, if that has a plan with an epilogue.
void add_epilogue(StepGraph& steps, std::size_t fusion, const MatmulEpilogue& update) {
  const CompileOptions& options = steps.options();
  const Graph& graph = steps.graph();
  const std::vector<ValueId>& roots = steps.program().roots();
  const Operation matmul = graph.operation(update.matmul);
  const Op op = matmul.op();
  const std::array in{graph.type(matmul.inputs()[0]), graph.type(matmul.inputs()[1])};
  const std::array out{graph.type(matmul.output())};
  const std::optional<GemmPlan> plan =
      plan_matmul_for_epilogue({op, in, out, options.threads}, options.repeats > 1);
  if (!plan) return;
  steps.absorb(update.matmul);
  passes::NodeValues& values = steps.at(fusion).values;
  values.operands = {roots[matmul.inputs()[0]], roots[matmul.inputs()[1]], update.x};
  if (!update.literal) values.operands.push_back(update.scale);
  values.whole = {values.operands[0], values.operands[1]};
  if (update.kept != no_index) values.results.push_back(update.kept);
  steps.at(fusion).plan = std::make_unique<const Plan>(plan_matmul_epilogue(update, *plan, options.threads));
}

}  // namespace

void matmul_epilogues(StepGraph& steps) {
  if (!steps.has_composites() || steps.custom_kernels() || steps.options().depth > 0) return;
  const EpilogueFinder finder(steps);
  std::vector<std::pair<std::size_t, MatmulEpilogue>> updates;
  steps.for_each([&](std::size_t i) {
    if (!steps.is_loop_fusion(i) || steps.at(i).around_fusion) return;
    if (std::optional<MatmulEpilogue> update = finder.find(i)) updates.emplace_back(i, *std::move(update));
  });
  for (const auto& [fusion, update] : updates) add_epilogue(steps, fusion, update);
}

}  // namespace tidu::cpu_detail
