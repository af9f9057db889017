// collective_rules.cpp - collectives by a communicator that is bound to their axis's name. Libraries gather
// and scatter along a leading axis; where the op's is another, the array is put into that order before or
// after.
#include <utility>

#include "cuda/rules/compose.hpp"
#include "cuda/rules/library_rules.hpp"

namespace tidu::cuda_detail {
namespace {

CollectiveStep step_of(const PlanRequest& request, CollectiveStep::Kind kind, std::int64_t count) {
  CollectiveStep step;
  step.kind = kind;
  step.dtype = request.in[0].dtype();
  step.axis_name = request.op.string("axis_name");
  step.ranks = static_cast<std::int32_t>(request.op.integer("axis_size"));
  step.count = count;
  step.in = operand(0);
  step.out = result();
  return step;
}

// Adds a sum whose operand is at step.in. The library adds in the dtype that it is given: 16-bit numbers are
// widened before and rounded once behind.
void append_sum(Plan& plan, CollectiveStep step, std::int64_t operand_count, std::int64_t result_count,
                const PlanRequest& request) {
  const DType dtype = step.dtype;
  const bool narrow = (dtype == DType::f16 || dtype == DType::bf16) && step.ranks > 1;
  if (!narrow) {
    plan.steps.emplace_back(std::move(step));
    return;
  }
  const auto scratch = [&plan](std::int64_t count) {
    return take_scratch(plan, static_cast<std::size_t>(count) * size_of(DType::f32));
  };
  const BufferRef wide = scratch(operand_count), sum = scratch(result_count);
  append_converted(plan, dtype, DType::f32, operand_count, step.in, wide, request);
  step.dtype = DType::f32;
  step.in = wide;
  step.out = sum;
  plan.steps.emplace_back(std::move(step));
  append_converted(plan, DType::f32, dtype, result_count, sum, result(), request);
}

Plan psum(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  const std::int64_t count = request.in[0].size();
  append_sum(plan, step_of(request, CollectiveStep::Kind::sum, count), count, count, request);
  return plan;
}

// Elements of `type` before the dimension, and from it on.
std::pair<std::int64_t, std::int64_t> around(Type type, std::int64_t dimension) {
  std::int64_t outer = 1;
  for (std::size_t k = 0; k < static_cast<std::size_t>(dimension); ++k) outer *= type.dim(k);
  return {outer, type.size() / outer};
}

Plan all_gather(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  CollectiveStep step = step_of(request, CollectiveStep::Kind::gather, request.in[0].size());
  const auto [outer, inner] = around(request.in[0], request.op.integer("all_gather_dimension"));
  if (outer != 1) step.out = take_scratch(plan, request.out[0].bytes());
  plan.steps.emplace_back(step);
  if (outer != 1)
    append_transposed(plan, Type(step.dtype, {step.ranks, outer, inner}), {1, 0, 2}, step.out, result(),
                      request);
  return plan;
}

Plan reduce_scatter(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  CollectiveStep step = step_of(request, CollectiveStep::Kind::scatter_sum, request.out[0].size());
  const auto [outer, inner] = around(request.out[0], request.op.integer("scatter_dimension"));
  if (outer != 1) {
    step.in = take_scratch(plan, request.in[0].bytes());
    append_transposed(plan, Type(step.dtype, {outer, step.ranks, inner}), {1, 0, 2}, operand(0), step.in,
                      request);
  }
  append_sum(plan, std::move(step), request.in[0].size(), request.out[0].size(), request);
  return plan;
}

Plan ppermute(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  CollectiveStep step = step_of(request, CollectiveStep::Kind::permute, request.in[0].size());
  for (const Ints& pair : request.op.lists("perm"))
    step.pairs.emplace_back(static_cast<std::int32_t>(pair[0]), static_cast<std::int32_t>(pair[1]));
  plan.steps.emplace_back(step);
  return plan;
}

constexpr DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
constexpr RuleEntry entries[] = {{"psum", psum, numbers},
                                 {"all_gather", all_gather, dtypes::all},
                                 {"reduce_scatter", reduce_scatter, numbers},
                                 {"ppermute", ppermute, dtypes::all}};

}  // namespace

RuleTable collective_rules() { return entries; }

}  // namespace tidu::cuda_detail
