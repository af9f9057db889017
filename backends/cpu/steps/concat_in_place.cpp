// concat_in_place.cpp - the pass concat_in_place: operands of a concatenation become sub-buffers of its
// result. The concatenation is an output, and its axis is the first with more than one element, so that each
// operand is contiguous in the result. The operand is a result of a fusion, a loop or an operation, has no
// other reader, and has a minimum size and cache-line alignment. The concatenation's kernel skips operands
// that are already in place.
#include <cstddef>
#include <cstdint>

#include "cpu/is_any_of.hpp"
#include "cpu/layout.hpp"
#include "cpu/steps/step_passes.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t min_part_bytes = 256;
constexpr std::size_t part_alignment = 64;  // bytes; stores past the caches write whole lines

class PartFinder {
 public:
  explicit PartFinder(StepGraph& steps)
      : steps_(steps),
        program_(steps.program()),
        graph_(steps.graph()),
        readers_(graph_.num_values(), 0),
        producer_(graph_.num_values(), no_index),
        times_(graph_.num_values(), 0) {
    for (std::uint32_t i = 0; i < steps.steps().size(); ++i) {
      const Step& step = steps.at(i);
      if (step.absorbed) continue;
      for (const ValueId id : step.values.operands) ++readers_[id];
      for (const ValueId id : step.values.results) producer_[id] = i;
    }
    for (const ValueId id : graph_.outputs()) readers_[program_.roots()[id]] += 2;
  }

  void run() {
    steps_.for_each([&](std::size_t i) {
      if (is_whole(i)) add_parts(graph_.operation(steps_.nodes()[i].index));
    });
  }

 private:
  // Is it a concatenation that its own kernel computes, of contiguous operands, into an output?
  bool is_whole(std::size_t position) const {
    const ScheduleNode& node = steps_.nodes()[position];
    if (node.kind != NodeKind::operation || !steps_.is_unchanged(node.index)) return false;
    const Operation operation = graph_.operation(node.index);
    if (!is_any_of(operation, prim::concatenate)) return false;
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
      if (bytes >= min_part_bytes && offset % part_alignment == 0 && times_[root] == 1 &&
          is_alone(root, bytes))
        steps_.sub_buffers.push_back({root, operation.output(), offset});
      offset += bytes;
    }
    for (const ValueId id : operation.inputs()) times_[program_.roots()[id]] = 0;
  }

  // Does one step write all of it, and one step, the concatenation, read it?
  bool is_alone(ValueId root, std::size_t bytes) const {
    const std::uint32_t producer = producer_[root];
    return producer != no_index && readers_[root] == 1 && graph_.type(root).bytes() == bytes &&
           steps_.at(producer).values.changed == no_index;
  }

  StepGraph& steps_;
  const Program& program_;
  const Graph& graph_;
  std::vector<std::uint32_t> readers_;   // by root
  std::vector<std::uint32_t> producer_;  // by value: the position of its step
  std::vector<std::uint32_t> times_;     // by root: how often it is an operand of one concatenation
};

}  // namespace

void concat_in_place(StepGraph& steps) {
  if (steps.program().options().in_place && !steps.empty()) PartFinder(steps).run();
}

}  // namespace tidu::cpu_detail
