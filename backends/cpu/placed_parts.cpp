// placed_parts.cpp - which operands of concatenates are made in their places.
#include "cpu/placed_parts.hpp"

#include <cstddef>
#include <cstdint>

#include "cpu/is_any_of.hpp"
#include "cpu/layout.hpp"
#include "cpu/node_memory.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t shortest_part = 256;  // bytes
constexpr std::size_t part_alignment = 64;  // bytes; what streams past the caches writes lines

class PartFinder {
 public:
  PartFinder(const Program& program, const StepFusions& step_fusions)
      : program_(program),
        graph_(program.graph()),
        step_fusions_(step_fusions),
        readers_(count_readers(program, step_fusions.values)),
        made_by_(graph_.num_values(), no_index),
        times_(graph_.num_values(), 0) {
    for (std::uint32_t node = 0; node < step_fusions.values.size(); ++node) {
      for (const ValueId id : step_fusions.values[node].results) made_by_[id] = node;
    }
  }

  std::vector<passes::PlacedPart> find() {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    for (std::uint32_t node = 0; node < step_fusions_.values.size(); node += nodes[node].size) {
      if (is_whole(node)) add_parts(graph_.operation(nodes[node].index));
    }
    return std::move(parts_);
  }

 private:
  // A concatenate of stretches that its own kernel makes, and nobody else, into an output.
  bool is_whole(std::uint32_t node) const {
    const ScheduleNode& at = program_.schedule().nodes[node];
    if (at.kind != NodeKind::operation || step_fusions_.values[node].results.size() != 1) return false;
    const Operation operation = graph_.operation(at.index);
    if (!is_any_of(operation, prim::concatenate) || step_fusions_.plans.contains(node)) return false;
    const ValueId result = operation.output();
    const auto axis = static_cast<std::size_t>(operation.op().integer("dimension"));
    const SlotId slot = program_.slot_of(result);
    return program_.slot(slot).storage == Storage::output &&
           AxisShape::of(graph_.type(result), axis).outer == 1;
  }

  void add_parts(const Operation& operation) {
    for (const ValueId id : operation.inputs()) ++times_[program_.roots()[id]];
    std::size_t offset = 0;
    for (const ValueId id : operation.inputs()) {
      const std::size_t bytes = graph_.type(id).bytes();
      const ValueId root = program_.roots()[id];
      if (bytes >= shortest_part && offset % part_alignment == 0 && times_[root] == 1 &&
          is_alone(root, bytes))
        parts_.push_back({root, operation.output(), offset});
      offset += bytes;
    }
    for (const ValueId id : operation.inputs()) times_[program_.roots()[id]] = 0;
  }

  // Made by a node that writes all of it, and read by one node, which is the one that asks.
  bool is_alone(ValueId root, std::size_t bytes) const {
    const std::uint32_t node = made_by_[root];
    return node != no_index && readers_[root] == 1 && graph_.type(root).bytes() == bytes &&
           step_fusions_.values[node].changed == no_index;
  }

  const Program& program_;
  const Graph& graph_;
  const StepFusions& step_fusions_;
  std::vector<std::uint32_t> readers_;  // by root
  std::vector<std::uint32_t> made_by_;  // by value
  std::vector<std::uint32_t> times_;    // by root: an operand of one concatenate
  std::vector<passes::PlacedPart> parts_;
};

}  // namespace

std::vector<passes::PlacedPart> find_placed_parts(const Program& program, const StepFusions& step_fusions) {
  if (!program.options().in_place) return {};
  return PartFinder(program, step_fusions).find();
}

}  // namespace tidu::cpu_detail
