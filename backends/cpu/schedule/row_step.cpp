// row_step.cpp - which reductions, broadcasts and gathers a row fusion can do.
#include <array>

#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/factors.hpp"

namespace tidu::passes {

namespace {

// Entries of the first axis that is longer than 1.
RowStep gathered_rows(const Factors& factors) {
  const Type from = factors.operand(0);
  const auto axis = static_cast<std::size_t>(factors.picked_axis());
  RowStep step{RowStep::Kind::gathered, factors.operand(1).size(), 1, from.dim(axis)};
  for (std::size_t i = 0; i < axis; ++i) {
    if (from.dim(i) != 1) return {};
  }
  for (std::size_t i = axis + 1; i < from.rank(); ++i) step.columns *= from.dim(i);
  return from.size() == 0 || step.rows == 0 ? RowStep() : step;
}

}  // namespace

// The axes that the smaller side lacks are after all others, or before them, or, in a broadcast, between
// them. (Only sums name the axes that they reduce.)
RowStep row_step(const Graph& graph, std::uint32_t operation) {
  const OperationRecord& record = graph.data().operations[operation];
  const Primitive& primitive = *record.op->primitive;
  const bool reduces = primitive.has_trait(Trait::combines);
  const bool one = record.num_inputs == 1 && (reduces || primitive.has_trait(Trait::repeats));
  const bool gathers = record.num_inputs == 2 && primitive.has_trait(Trait::shape_only);
  if (!(one || gathers) || primitive.factors == nullptr || record.num_outputs != 1) return {};
  const ValueId* operands = graph.data().operands.data() + record.first_input;
  const Type types[] = {graph.type(operands[0]), graph.type(operands[gathers ? 1 : 0])}, operand = types[0];
  const Type result = graph.type(record.first_output);
  const Op op = Op::of(record.op);  // which `factors` refers to
  Factors factors;
  factors.begin(op, {types, record.num_inputs}, result);
  primitive.factors(factors);
  if (gathers) return factors.picked_axis() == Factors::none ? RowStep() : gathered_rows(factors);
  const Type large_type = reduces ? operand : result;
  std::vector<int> small_axes(large_type.rank(), Factors::none);
  for (std::size_t f = 0; f < factors.size(); ++f) {
    const int large = reduces ? factors.axis_of(f, 0) : factors.result_axis(f);
    const int small = reduces ? factors.result_axis(f) : factors.axis_of(f, 0);
    if (large == Factors::none) return {};
    small_axes[static_cast<std::size_t>(large)] = small;
  }
  std::array<std::int64_t, 3> extents{1, 1, 1};  // of axes side by side that are there, or are not
  std::size_t changes = 0;
  int last = -1;
  bool any = false, first_lacks = false, lacks = false;
  for (std::size_t axis = 0; axis < small_axes.size(); ++axis) {
    const std::int64_t extent = large_type.dim(axis);
    if (extent == 1) continue;
    const bool here = small_axes[axis] == Factors::none;
    if (!here && small_axes[axis] < last) return {};  // moved
    if (!here) last = small_axes[axis];
    if (!any) first_lacks = here;
    if (any && here != lacks && ++changes == extents.size()) return {};
    any = true;
    lacks = here;
    extents[changes] *= extent;
  }
  if (large_type.size() == 0) return {};
  if (changes == 2 && !reduces && !first_lacks)
    return {RowStep::Kind::each_row, extents[0] * extents[1], extents[2], 0, extents[1]};
  if (changes != 1) return {};
  RowStep step{RowStep::Kind::none, extents[0], extents[1]};
  if (reduces) {
    step.kind = first_lacks ? RowStep::Kind::reduce_columns : RowStep::Kind::reduce_rows;
  } else {
    step.kind = first_lacks ? RowStep::Kind::rows : RowStep::Kind::along_rows;
  }
  return step;
}

}  // namespace tidu::passes
