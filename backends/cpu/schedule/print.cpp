// print.cpp - the text of a program.
#include <sstream>

#include "tidu/cpu/program.hpp"

namespace tidu {
namespace {

class Printer {
 public:
  Printer(const Graph& graph, const SlotPlan& plan) : graph_(graph), plan_(plan) {}

  void line(std::string_view what, ValueId id) {
    out_ << "  " << what << ' ' << slot_text(id) << ' ' << graph_.type(id) << " %" << id;
    if (!graph_.label(id).empty()) out_ << ':' << detail::printable(graph_.label(id));
    out_ << '\n';
  }
  void operation(std::uint32_t index, std::size_t depth) {
    const Operation operation = graph_.operation(index);
    out_ << std::string(2 * depth + 2, ' ');
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      const ValueId id = operation.output(slot);
      out_ << (slot == 0 ? "" : ", ") << slot_text(id) << ' ' << graph_.type(id);
    }
    out_ << " = " << operation.op();
    bool in_place = false;
    for (const ValueId id : operation.inputs()) {
      out_ << ' ' << slot_text(id);
      in_place = in_place ||
                 (plan_.slot_of[id] != no_index && plan_.slot_of[id] == plan_.slot_of[operation.output()]);
    }
    if (in_place) out_ << "  # in place";
    out_ << '\n';
  }
  void node(const Schedule& schedule, const ScheduleNode& node, std::size_t depth) {
    if (node.kind == NodeKind::operation) return operation(node.index, depth);
    const bool of_rows = node.kind == NodeKind::fusion && node.index != 0;
    out_ << std::string(2 * depth + 2, ' ') << (of_rows ? "row " : "") << to_string(node.kind);
    if (node.kind == NodeKind::blocked_loop) {
      loop(schedule.loops[node.index], depth);
    } else {
      if (of_rows) out_ << " over rows of " << node.index;
      out_ << '\n';
    }
  }
  void loop(const BlockedLoop& loop, std::size_t depth) {
    out_ << " over " << loop.extent << " by " << loop.block << ", " << loop.num_operations << " operations\n";
    for (const BlockedLoop::Value& operand : loop.operands) end("reads", operand, depth);
    for (const BlockedLoop::Value& result : loop.results)
      end(result.axis == BlockedLoop::none ? "sums" : "writes", result, depth);
    if (loop.body == nullptr) return;
    std::istringstream body(to_text(*loop.body));
    for (std::string text; std::getline(body, text);) out_ << std::string(2 * depth + 4, ' ') << text << '\n';
  }
  void end(std::string_view what, const BlockedLoop::Value& value, std::size_t depth) {
    out_ << std::string(2 * depth + 4, ' ') << what << ' ' << slot_text(value.id) << ' '
         << graph_.type(value.id);
    if (value.axis != BlockedLoop::none) out_ << " along axis " << value.axis;
    out_ << '\n';
  }
  std::string slot_text(ValueId id) const {
    return plan_.slot_of[id] == no_index ? detail::str('%', id) : detail::str('@', plan_.slot_of[id]);
  }
  std::ostringstream& out() { return out_; }

 private:
  const Graph& graph_;
  const SlotPlan& plan_;
  std::ostringstream out_;
};

}  // namespace

std::string to_text(const Graph& graph, const Schedule& schedule, const SlotPlan& plan) {
  Printer printer(graph, plan);
  printer.out() << "program " << detail::in_quotes(graph.name()) << '\n';
  for (const ValueId id : graph.inputs()) printer.line("input", id);
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (operation.num_outputs() == 0) continue;
    const SlotId slot = plan.slot_of[operation.output()];
    if (slot == no_index || plan.slots[slot].storage != Storage::constant || operation.num_inputs() != 0)
      continue;
    printer.out() << "  constant";
    printer.operation(static_cast<std::uint32_t>(i), 0);
  }
  // Depth of a node: how many subtrees are still open where it stands.
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < schedule.nodes.size(); ++i) {
    while (!ends.empty() && ends.back() <= i) ends.pop_back();
    printer.node(schedule, schedule.nodes[i], ends.size());
    if (schedule.nodes[i].size > 1) ends.push_back(i + schedule.nodes[i].size);
  }
  printer.out() << "  output";
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const SlotId slot = plan.slot_of[graph.outputs()[i]];
    const bool direct = plan.slots[slot].storage == Storage::output && plan.slots[slot].index == i;
    printer.out() << ' ' << printer.slot_text(graph.outputs()[i]) << (direct ? "" : "(copied)");
  }
  printer.out() << "\n  memory: " << plan.slots.size() << " slots, workspace "
                << plan.small_bytes + plan.large_bytes + plan.block_bytes << " bytes (small "
                << plan.small_bytes << "), constants " << plan.constant_bytes << ", outputs "
                << plan.output_bytes << ", peak "
                << plan.small_bytes + plan.large_bytes + plan.block_bytes + plan.constant_bytes +
                       plan.output_bytes
                << ", " << plan.in_place << " results in place\n";
  return std::move(printer.out()).str();
}

std::string to_text(const Program& program) {
  return to_text(program.graph(), program.schedule(), program.plan());
}

}  // namespace tidu
