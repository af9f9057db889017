// roll.cpp - which concatenates roll an array along an axis.
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/primitives/structural.hpp"

#include "cpu/is_any_of.hpp"

namespace tidu::passes {

std::optional<Roll> roll_of(const Graph& graph, std::uint32_t operation) {
  const Operation concatenate = graph.operation(operation);
  if (!is_any_of(concatenate, prim::concatenate) || concatenate.inputs().size() != 2) return std::nullopt;
  Roll roll;
  roll.axis = static_cast<std::size_t>(concatenate.op().integer("dimension"));
  const Type type = graph.type(concatenate.output());
  for (std::size_t part = 0; part < 2; ++part) {
    const auto producer = graph.producer(concatenate.inputs()[part]);
    if (!producer || !is_any_of(graph.operation(*producer), prim::slice)) return std::nullopt;
    const Operation slice = graph.operation(*producer);
    const ValueId from = slice.inputs()[0];
    if (graph.type(from) != type || (part == 1 && from != roll.from)) return std::nullopt;
    roll.from = from;
    roll.slices[part] = *producer;
    const Ints &starts = slice.op().ints("start_indices"), &limits = slice.op().ints("limit_indices");
    for (const std::int64_t step : slice.op().ints("strides")) {
      if (step != 1) return std::nullopt;
    }
    // The first one is the array's end, as long as the shift, the second one what is before that.
    if (part == 0) roll.shift = limits[roll.axis] - starts[roll.axis];
    for (std::size_t k = 0; k < starts.size(); ++k) {
      const bool along = k == roll.axis;
      const std::int64_t start = along && part == 0 ? type.dim(k) - roll.shift : 0;
      const std::int64_t limit = along && part == 1 ? type.dim(k) - roll.shift : type.dim(k);
      if (starts[k] != start || limits[k] != limit) return std::nullopt;
    }
  }
  return roll.shift > 0 ? std::optional(roll) : std::nullopt;
}

}  // namespace tidu::passes
