// donation.cpp - see donation.hpp.
#include "cpu/steps/donation.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {
namespace {

class DonationFinder {
 public:
  DonationFinder(const Program& program, const StepGraph& steps, const PlanTraits& traits)
      : program_(program),
        graph_(program.graph()),
        nodes_(program.schedule().nodes),
        steps_(steps),
        traits_(traits),
        last_read_(graph_.inputs().size(), 0),
        is_written_(graph_.outputs().size(), false) {
    for (std::uint32_t i = 0; i < graph_.inputs().size(); ++i) position_.emplace(graph_.inputs()[i], i);
    // The elements of an input that is itself an output would be lost.
    for (const ValueId id : graph_.outputs()) position_.erase(program.roots()[id]);
  }

  DonatedInputs find() {
    for (std::size_t i = 0; i < nodes_.size(); i += nodes_[i].size) {
      for (const ValueId id : steps_.at(i).values.operands) {
        if (const auto input = position_.find(id); input != position_.end()) last_read_[input->second] = i;
      }
    }
    found_.changed.assign(graph_.outputs().size(), no_index);
    std::size_t num_unsafe = 0;  // sets after which a step may fail
    for (std::size_t i = 0; i < nodes_.size(); i += nodes_[i].size) {
      visit(i);
      if (!cannot_fail(i)) num_unsafe = found_.sets.size();
    }
    for (std::size_t k = num_unsafe; k < found_.sets.size(); ++k) found_.sets[k].safe = true;
    if (std::ranges::all_of(found_.changed, [](std::uint32_t input) { return input == no_index; }))
      found_.changed.clear();
    return std::move(found_);
  }

 private:
  void visit(std::size_t node) {
    const passes::NodeValues& values = steps_.at(node).values;
    std::vector<std::uint32_t> outputs;
    for (const ValueId id : values.results) {
      const SlotId slot = program_.slot_of(id);
      if (slot == no_index || program_.slot(slot).storage != Storage::output) continue;
      const std::uint32_t output = program_.slot(slot).index;
      // The first writer of the output has to be the last reader of the input.
      if (is_written_[output]) continue;
      is_written_[output] = true;
      // The second result of an update is the matmul, which is written before the operand is read.
      if (id != values.results[0] && steps_.at(node).plan) continue;
      if (program_.is_written_directly(output) && graph_.type(id).size() == output_type(output).size())
        outputs.push_back(output);
    }
    if (outputs.empty()) return;
    if (values.changed != no_index) {
      if (values.results.size() != 1 || !dies_at(values.changed, node) ||
          graph_.type(values.changed) != output_type(outputs[0]))
        return;
      found_.changed[outputs[0]] = position_.at(values.changed);
      add_sets(outputs, {position_.at(values.changed)});
    } else if (reads_first(node)) {
      std::vector<std::uint32_t> inputs;
      for (const ValueId id : values.operands) {
        if (dies_at(id, node) && std::ranges::find(values.whole, id) == values.whole.end())
          inputs.push_back(position_.at(id));
      }
      add_sets(outputs, inputs);
    }
  }
  // One for each type.
  void add_sets(const std::vector<std::uint32_t>& outputs, const std::vector<std::uint32_t>& inputs) {
    std::unordered_map<const void*, ReusableInputs> by_type;
    for (const std::uint32_t output : outputs) {
      if (output_type(output).bytes() >= min_donated)
        by_type[output_type(output).identity()].outputs.push_back(output);
    }
    for (const std::uint32_t input : inputs) {
      const auto set = by_type.find(graph_.type(graph_.inputs()[input]).identity());
      if (set != by_type.end()) set->second.inputs.push_back(input);
    }
    for (const std::uint32_t output : outputs) {  // in their order
      const auto set = by_type.find(output_type(output).identity());
      if (set == by_type.end() || set->second.inputs.empty()) continue;
      found_.sets.push_back(std::move(set->second));
      by_type.erase(set);
    }
  }
  Type output_type(std::uint32_t output) const { return graph_.type(graph_.outputs()[output]); }
  // Is it an input, and not read any more?
  bool dies_at(ValueId id, std::size_t node) const {
    const auto input = position_.find(id);
    return input != position_.end() && last_read_[input->second] == node;
  }
  bool is_elementwise(std::size_t node) const {
    return nodes_[node].kind == NodeKind::operation && !steps_.custom_kernels() && !steps_.at(node).plan &&
           graph_.operation(nodes_[node].index).primitive().has_trait(Trait::elementwise);
  }
  // Does it read of each operand, but those that are said to be read whole, the element of which it writes
  // the result, before that?
  bool reads_first(std::size_t node) const {
    return traits_.in_one_pass.count(node) != 0 ||
           (is_elementwise(node) && steps_.at(node).values.results.size() == 1);
  }
  bool cannot_fail(std::size_t node) const {
    return traits_.cannot_fail.count(node) != 0 || is_elementwise(node) || steps_.at(node).absorbed;
  }

  const Program& program_;
  const Graph& graph_;
  const std::vector<ScheduleNode>& nodes_;
  const StepGraph& steps_;
  const PlanTraits& traits_;
  std::unordered_map<ValueId, std::uint32_t> position_;  // of inputs that are no outputs
  std::vector<std::size_t> last_read_;                   // by input: the node
  std::vector<bool> is_written_;                         // by output
  DonatedInputs found_;
};

bool is_large(const Graph& graph, std::span<const ValueId> values) {
  return std::ranges::any_of(values, [&](ValueId id) { return graph.type(id).bytes() >= min_donated; });
}

}  // namespace

DonatedInputs find_donated_inputs(const Program& program, StepGraph& steps, const PlanTraits& traits) {
  const Graph& graph = program.graph();
  const auto changes = [](const Step& step) { return step.values.changed != no_index; };
  if (!(is_large(graph, graph.inputs()) && is_large(graph, graph.outputs())) &&
      std::ranges::none_of(steps.steps(), changes))
    return {};
  steps.make_steps();
  return DonationFinder(program, steps, traits).find();
}

}  // namespace tidu::cpu_detail
