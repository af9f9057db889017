// row_step.cpp - which folds and repetitions go row by row.
#include "tidu/graph/factors.hpp"
#include "tidu/program/passes.hpp"

namespace tidu::passes {

// Axes that the smaller side lacks are behind all others, or before them. (Only sums name the axes that they
// fold.)
RowStep row_step(const Graph& graph, std::uint32_t operation) {
  const OperationRecord& record = graph.data().operations[operation];
  const Primitive& primitive = *record.op->primitive;
  const bool folds = primitive.has_trait(Trait::folds);
  if (!(folds || primitive.has_trait(Trait::repeats)) || primitive.factors == nullptr ||
      record.num_inputs != 1 || record.num_outputs != 1)
    return {};
  const Type operand = graph.type(graph.data().operands[record.first_input]);
  const Type result = graph.type(record.first_output);
  const Op op = Op::of(record.op);  // which `factors` refers to
  Factors factors;
  factors.begin(op, {&operand, 1}, result);
  primitive.factors(factors);
  const Type large_type = folds ? operand : result;
  std::vector<int> small_axes(large_type.rank(), Factors::none);
  for (std::size_t f = 0; f < factors.size(); ++f) {
    const int large = folds ? factors.axis_of(f, 0) : factors.result_axis(f);
    const int small = folds ? factors.result_axis(f) : factors.axis_of(f, 0);
    if (large == Factors::none) return {};
    small_axes[static_cast<std::size_t>(large)] = small;
  }
  RowStep step{RowStep::Kind::none, 1, 1};
  int changes = 0, last = -1;
  bool any = false, first_lacks = false, lacks = false;
  for (std::size_t axis = 0; axis < small_axes.size(); ++axis) {
    const std::int64_t extent = large_type.dim(axis);
    if (extent == 1) continue;
    const bool here = small_axes[axis] == Factors::none;
    if (!here && small_axes[axis] < last) return {};  // moved
    if (!here) last = small_axes[axis];
    if (!any) first_lacks = here;
    if (any && here != lacks) ++changes;
    any = true;
    lacks = here;
    (changes == 0 ? step.rows : step.columns) *= extent;
  }
  if (changes != 1 || large_type.size() == 0) return {};
  if (folds) {
    step.kind = first_lacks ? RowStep::Kind::fold_columns : RowStep::Kind::fold_rows;
  } else {
    step.kind = first_lacks ? RowStep::Kind::rows : RowStep::Kind::along_rows;
  }
  return step;
}

}  // namespace tidu::passes
