// operation_plans.cpp - see operation_plans.hpp.
#include "cpu/operation_plans.hpp"

#include <algorithm>
#include <utility>

#include "cpu/composed.hpp"
#include "cpu/cond.hpp"
#include "cpu/scan.hpp"
#include "cpu/while.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {

OperationPlans::OperationPlans(const Program& program, const CompileOptions& options,
                               const KernelTable& kernels, std::shared_ptr<Arena> arena,
                               const CallSite& call_site)
    : program_(program),
      graph_(program.graph()),
      options_(options),
      kernels_(kernels),
      arena_(std::move(arena)),
      call_site_(call_site) {}

void OperationPlans::find_reads(std::span<const std::byte* const> constant_at) {
  // Kernels of other projects might look at all that there is.
  if (!kernels_.has_custom()) reads_ = cpu_detail::find_reads(graph_, constant_at, call_site_.reads);
}

const std::vector<bool>* OperationPlans::reads_of(std::uint32_t operation) const {
  const OperationRecord& record = graph_.data().operations[operation];
  return reads_.empty() || record.num_outputs != 1 ? nullptr : reads_[record.first_output].get();
}

// A bit for each fixed operand of a matmul: see CallSite::fixed.
std::uint32_t OperationPlans::fixed_of(std::uint32_t operation) const {
  const OperationRecord& record = graph_.data().operations[operation];
  if (call_site_.fixed.empty() || !record.op->primitive->has_trait(Trait::contraction)) return 0;
  std::uint32_t fixed = 0;
  for (std::uint32_t i = 0; i < std::min(record.num_inputs, 32U); ++i) {
    const ValueId id = graph_.data().operands[record.first_input + i];
    const Slot& slot = program_.slot(program_.slot_of(id));
    // One of a single element is where the step reads it, which nothing can be made of.
    if (slot.storage == Storage::input && graph_.type(id).size() != 1 && call_site_.fixed[slot.index] != 0)
      fixed |= 1U << i;
  }
  return fixed;
}

bool OperationPlans::is_general(std::uint32_t operation) const {
  return reads_of(operation) == nullptr && fixed_of(operation) == 0;
}

Plan OperationPlans::make(std::uint32_t operation, bool adding) {
  const Operation of = graph_.operation(operation);
  in_.clear();
  out_.clear();
  for (const ValueId id : of.inputs()) in_.push_back(graph_.type(id));
  for (std::size_t slot = 0; slot < of.num_outputs(); ++slot) out_.push_back(graph_.type(of.output(slot)));
  const Op op = of.op();
  try {
    PlanRequest request{
        op, in_, out_, options_.threads, options_.check_indices, options_.depth, options_.vector_jit};
    request.reads = reads_of(operation);
    request.fixed = fixed_of(operation);
    if (adding) return kernels_.plan_adding(request);
    Plan plan = kernels_.plan(request);
    if (plan) return plan;
    const InnerContext context{program_.options(), options_, kernels_, arena_};
    if (is_scan(of)) return plan_scan(of, context);
    if (is_cond(of)) return plan_cond(of, in_[0], context);
    if (is_while(of)) return plan_while(of, context);
    if (is_composed(of)) return plan_composed(of, in_[0], context);
    return plan;
  } catch (const Error& error) {
    error.with_message(detail::str(error.what(), "\n  ", describe_operation(graph_, operation)))->raise();
    throw;
  }
}

Plan OperationPlans::plan(std::uint32_t operation) {
  Plan plan = make(operation, false);
  if (!plan) no_kernel(graph_, operation);
  return plan;
}

Plan OperationPlans::plan_adding(std::uint32_t operation) { return make(operation, true); }

}  // namespace tidu::cpu_detail
