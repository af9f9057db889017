// scattered.cpp - see scattered.hpp.
#include "cpu/scattered.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/node_memory.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t max_scatter_operands = 8;

// Where the operation's operands are among those of the node, operand 0 being the result.
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

class Scatters {
 public:
  Scatters(const Program& program, OperationPlans& plans, std::vector<passes::NodeValues>& values,
           std::vector<bool>& bound, std::unordered_map<std::size_t, Plan>& node_plans,
           std::vector<bool>& done)
      : program_(program),
        graph_(program.graph()),
        plans_(plans),
        values_(values),
        bound_(bound),
        node_plans_(node_plans),
        done_(done) {}

  void find() {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      if (nodes[i].kind == NodeKind::operation && changes_array(nodes[i].index) && node_plans_.count(i) == 0)
        found.push_back(i);
    }
    if (found.empty()) return;
    if (values_.empty())
      values_ = passes::node_values(graph_, program_.schedule(), program_.roots(), program_.splats());
    done_.resize(graph_.num_operations());
    for (const std::size_t i : found) {
      if (!fill(i, nodes[i].index))
        values_[i].changed = program_.roots()[graph_.operation(nodes[i].index).input(0)];
    }
    if (filled_.empty()) return;
    const std::vector<std::uint32_t> readers = count_readers(program_, values_);
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      if (nodes[i].kind != NodeKind::operation) continue;
      const ValueId made = graph_.operation(nodes[i].index).output(0);
      if (readers[made] != 0 || std::find(filled_.begin(), filled_.end(), made) == filled_.end()) continue;
      done_[nodes[i].index] = true;
      bound_.resize(done_.size());
      bound_[nodes[i].index] = true;
      values_[i] = {};
    }
  }

 private:
  // Of more elements than one, which it reads in no other way.
  bool changes_array(std::uint32_t index) const {
    const Operation operation = graph_.operation(index);
    const Primitive& primitive = operation.primitive();
    if (&primitive != &prim::scatter_add && &primitive != &prim::scatter_add_along_axis &&
        &primitive != &prim::dynamic_update_slice)
      return false;
    if ((!done_.empty() && done_[index]) || (!bound_.empty() && bound_[index])) return false;
    const std::span<const ValueId> inputs = operation.inputs();
    const ValueId array = program_.roots()[inputs[0]];
    return graph_.type(inputs[0]).size() > 1 &&
           graph_.type(array).bytes() == graph_.type(inputs[0]).bytes() &&
           std::count_if(inputs.begin(), inputs.end(),
                         [&](ValueId id) { return program_.roots()[id] == array; }) == 1;
  }

  // Fills its result itself, if the array is one number repeated that steps would make.
  bool fill(std::size_t node, std::uint32_t index) {
    const Operation operation = graph_.operation(index);
    const ValueId array = program_.roots()[operation.input(0)];
    const auto maker = graph_.producer(array);
    if (!maker || operation.num_inputs() > max_scatter_operands) return false;
    const Operation made = graph_.operation(*maker);
    const SlotId slot = program_.slot_of(array);
    if (!made.primitive().has_trait(Trait::repeats) || made.num_inputs() != 0 || slot == no_index ||
        program_.slot(slot).storage < Storage::small)
      return false;
    FillState state{plans_.plan(*maker), plans_.plan(index), operation.num_inputs(), {}};
    std::vector<ValueId>& operands = values_[node].operands;
    operands.erase(std::find(operands.begin(), operands.end(), array));
    for (std::size_t i = 1; i < state.num_operands; ++i) {
      const auto at = std::find(operands.begin(), operands.end(), program_.roots()[operation.input(i)]);
      state.at[i] = static_cast<std::uint8_t>(at - operands.begin());
    }
    const std::size_t scratch = std::max(state.fill.scratch, state.scatter.scratch);
    node_plans_.insert_or_assign(node, make_plan<FillState, fill_and_scatter>(std::move(state), scratch));
    filled_.push_back(array);
    return true;
  }

  const Program& program_;
  const Graph& graph_;
  OperationPlans& plans_;
  std::vector<passes::NodeValues>& values_;
  std::vector<bool>& bound_;
  std::unordered_map<std::size_t, Plan>& node_plans_;
  std::vector<bool>& done_;
  std::vector<ValueId> filled_;
};

}  // namespace

void scatter_in_place(const Program& program, OperationPlans& plans, std::vector<passes::NodeValues>& values,
                      std::vector<bool>& bound, std::unordered_map<std::size_t, Plan>& node_plans,
                      std::vector<bool>& done) {
  Scatters(program, plans, values, bound, node_plans, done).find();
}

}  // namespace tidu::cpu_detail
