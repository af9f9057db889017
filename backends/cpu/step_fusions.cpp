// step_fusions.cpp - see step_fusions.hpp.
#include "cpu/step_fusions.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cpu/groups/find_lines.hpp"
#include "cpu/moves.hpp"
#include "cpu/node_memory.hpp"
#include "cpu/products/product_update.hpp"
#include "cpu/scattered.hpp"

namespace tidu::cpu_detail {
namespace {

class StepFusionFinder {
 public:
  StepFusionFinder(const Program& program, OperationPlans& plans, const CompileOptions& options,
                   const KernelTable& kernels, const Surroundings& around, std::size_t max_kept)
      : program_(program),
        graph_(program.graph()),
        nodes_(program.schedule().nodes),
        plans_(plans),
        options_(options),
        has_foreign_(kernels.has_foreign()),
        passes_(program.options().passes),
        around_(around),
        max_kept_(max_kept) {}

  StepFusions find() {
    if (!around_.sums.empty() && runs(CpuPass::accumulate_in_place)) find_sums();
    const bool has_composites = std::any_of(nodes_.begin(), nodes_.end(), [](const ScheduleNode& node) {
      return node.kind != NodeKind::operation;
    });
    if (has_composites) {
      found_.values = passes::node_values(graph_, program_.schedule(), program_.roots(), program_.splats());
      find_prologue_and_epilogue();
    }
    found_.bound = found_.done;
    for (std::size_t k = 0; k < found_.sums_into.size(); ++k) {
      if (found_.bound.empty()) found_.bound.resize(found_.sums_into.size());
      if (found_.sums_into[k] != no_index) found_.bound[k] = true;
    }
    if (has_composites) {
      make_updates_and_moves();
      turn_results();
    }
    if (!has_foreign_ && runs(CpuPass::inplace_updates)) {
      scatter_in_place(program_, plans_, found_.values, found_.bound, found_.plans, found_.done);
    }
    leave_sums();
    for (std::size_t i = 0; !found_.done.empty() && i < nodes_.size(); i += nodes_[i].size) {
      if (nodes_[i].kind == NodeKind::operation && found_.done[nodes_[i].index]) found_.values[i] = {};
    }
    return std::move(found_);
  }

 private:
  bool runs(CpuPass pass) const { return passes_.runs(pass); }
  // By operation: is it a step of its own, in no group and no loop?
  std::vector<bool> find_alone() const {
    std::vector<bool> alone(graph_.num_operations(), false);
    for (std::size_t i = 0; i < nodes_.size(); i += nodes_[i].size) {
      if (nodes_[i].kind == NodeKind::operation) alone[nodes_[i].index] = true;
    }
    return alone;
  }

  // See Surroundings::sums: where such an output is the sum of its input and of what an operation makes for
  // it alone, the operation may add to what is there. Then the addition is none of the steps.
  void find_sums() {
    const GraphData& g = graph_.data();
    found_.sums_into.assign(g.operations.size(), no_index);
    std::vector<std::uint32_t> reads(graph_.num_values(), 0);
    for (const ValueId id : g.operands) ++reads[id];
    for (const ValueId id : graph_.outputs()) ++reads[id];
    const std::vector<bool> alone = find_alone();
    const std::size_t first = first_sum();
    for (std::size_t k = 0; k < around_.sums.size(); ++k) {
      const std::uint32_t i = around_.sums[k];
      const ValueId sum = graph_.outputs()[i];
      const std::uint32_t addition = g.producers[sum];
      if (addition >= g.operations.size() || !alone[addition] || !program_.is_written_directly(i)) continue;
      const OperationRecord& record = g.operations[addition];
      if (record.op->primitive != graph_.primitives().add() || reads[sum] != 1) continue;
      const ValueId so_far = g.operands[record.first_input], term = g.operands[record.first_input + 1];
      const std::uint32_t maker = g.producers[term];
      if (so_far != graph_.inputs()[first + k] || reads[so_far] != 1 || reads[term] != 1 ||
          maker >= g.operations.size() || !alone[maker] || graph_.type(sum).size() == 1)
        continue;
      if (!plans_.plan_adding(maker)) continue;
      found_.sums_into[maker] = addition;
      found_.sums_into[addition] = addition;
    }
  }
  // Who adds to a sum leaves that, where it lies, and no term has a place.
  void leave_sums() {
    const auto adds = [&](std::size_t k) {
      return found_.sums_into[k] != no_index && found_.sums_into[k] != k;
    };
    for (std::size_t i = 0; !found_.sums_into.empty() && i < nodes_.size(); i += nodes_[i].size) {
      if (nodes_[i].kind != NodeKind::operation || !adds(nodes_[i].index)) continue;
      if (found_.values.empty())
        found_.values = passes::node_values(graph_, program_.schedule(), program_.roots(), program_.splats());
      found_.done.resize(graph_.num_operations());
      const Operation addition = graph_.operation(found_.sums_into[nodes_[i].index]);
      found_.done[addition.index()] = true;
      found_.values[i].results = {addition.output()};
      found_.values[i].operands.push_back(program_.roots()[addition.inputs()[0]]);
    }
  }
  // Of the inputs: that of the first of Surroundings::sums.
  std::size_t first_sum() const { return graph_.inputs().size() - around_.sums.size(); }
  // Does it read a sum so far, whose place is an output's?
  bool reads_sum(std::uint32_t operation) const {
    const std::span<const ValueId> inputs = graph_.operation(operation).inputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) {
      const SlotId slot = program_.slot_of(program_.roots()[id]);
      return slot != no_index && program_.slot(slot).storage == Storage::input &&
             program_.slot(slot).index >= first_sum();
    });
  }

  // Operations that groups do: see Note [Columns] and Note [Lines] in fused.cpp.
  void find_prologue_and_epilogue() {
    if (options_.lanes == nullptr || has_foreign_) return;
    ColumnFinder finder(program_, found_.values, around_.wholes, options_.check_indices);
    for (std::size_t i = 0; runs(CpuPass::gather_prologues) && i < nodes_.size(); i += nodes_[i].size) {
      if (nodes_[i].kind != NodeKind::fused_group || nodes_[i].index != 0) continue;
      Columns columns = finder.find(i);
      if (!columns.empty()) found_.around_fusion[i].columns = std::move(columns);
    }
    std::vector<bool> done(graph_.num_operations()), alone = find_alone();
    for (std::uint32_t k = 0; k < done.size(); ++k) {
      done[k] = finder.is_done(k);
      alone[k] = alone[k] && !reads_sum(k);
    }
    const std::vector<std::uint32_t> readers = count_readers(program_, found_.values);
    const LinesFinder lines_finder(program_, alone, found_.values, readers, done);
    for (std::size_t i = 0; runs(CpuPass::fused_loads) && i < nodes_.size(); i += nodes_[i].size) {
      if (nodes_[i].kind != NodeKind::fused_group || nodes_[i].index != 0) continue;
      std::vector<LinesOperand> lines = lines_finder.find(found_.values[i]);
      if (!lines.empty()) found_.around_fusion[i].lines = std::move(lines);
    }
    for (std::uint32_t k = 0; k < done.size(); ++k) done[k] = done[k] || lines_finder.is_done(k);
    if (!found_.around_fusion.empty()) found_.done = std::move(done);
  }

  // See Note [Updates] and Note [Moves].
  void make_updates_and_moves() {
    if (has_foreign_ || options_.depth > 0) return;
    std::vector<bool> alone = find_alone();
    for (std::uint32_t k = 0; k < alone.size(); ++k) {
      alone[k] = alone[k] && (found_.bound.empty() || !found_.bound[k]) && plans_.reads_of(k) == nullptr &&
                 !reads_sum(k);
    }
    if (runs(CpuPass::matmul_epilogues)) {
      for (const auto& [node, update] : find_updates(program_, found_.values, alone)) {
        if (found_.around_fusion.count(node) == 0) make_update(node, update);
      }
    }
    if (!runs(CpuPass::copy_elision)) return;
    found_.plans.merge(make_moves(program_, found_.values, alone, around_.fixed.empty(), max_kept_,
                                  options_.threads, found_.done));
  }
  void make_update(std::size_t node, const ProductUpdate& update) {
    const Operation product = graph_.operation(update.product);
    const Op op = product.op();
    const std::array in{graph_.type(product.inputs()[0]), graph_.type(product.inputs()[1])};
    const std::array out{graph_.type(product.output())};
    const std::optional<GemmPlan> plan =
        plan_product_update({op, in, out, options_.threads}, options_.repeats > 1);
    if (!plan) return;
    found_.done.resize(graph_.num_operations());
    found_.done[update.product] = true;
    passes::NodeValues& values = found_.values[node];
    std::vector<ValueId>& operands = values.operands;
    operands = {program_.roots()[product.inputs()[0]], program_.roots()[product.inputs()[1]], update.x};
    if (!update.literal) operands.push_back(update.scale);
    values.whole = {operands[0], operands[1]};
    if (update.kept != no_index) values.results.push_back(update.kept);
    found_.plans.emplace(node, plan_update(update, *plan, options_.threads));
  }

  // See Note [Transposed results].
  void turn_results() {
    if (options_.lanes == nullptr || has_foreign_ || options_.depth > 0 ||
        !runs(CpuPass::transpose_epilogues))
      return;
    found_.transposed = find_transposed_results(program_, found_.values, found_.done, options_);
    if (!found_.transposed.empty()) found_.done.resize(graph_.num_operations());
    for (const auto& [node, transposed] : found_.transposed) found_.done[transposed.operation] = true;
  }

  const Program& program_;
  const Graph& graph_;
  const std::vector<ScheduleNode>& nodes_;
  OperationPlans& plans_;
  const CompileOptions& options_;
  const bool has_foreign_;  // they know whole operations alone
  const CpuPasses passes_;
  const Surroundings& around_;
  const std::size_t max_kept_;
  StepFusions found_;
};

}  // namespace

StepFusions find_step_fusions(const Program& program, OperationPlans& plans, const CompileOptions& options,
                              const KernelTable& kernels, const Surroundings& around, std::size_t max_kept) {
  return StepFusionFinder(program, plans, options, kernels, around, max_kept).find();
}

}  // namespace tidu::cpu_detail
