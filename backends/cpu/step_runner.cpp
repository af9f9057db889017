// step_runner.cpp - see step_runner.hpp.
#include "cpu/step_runner.hpp"

#include <algorithm>

namespace tidu::cpu_detail {
namespace {

std::shared_ptr<const Compiled> compile_step(const ScanBody& body, std::size_t num_consts,
                                             std::size_t num_carry, std::int64_t steps,
                                             const InnerContext& context) {
  constexpr std::int64_t max_repeats = std::int64_t{1} << 30;
  constexpr std::int64_t min_fixed_steps = 4;  // from which on packing consts for matmuls pays
  CompileOptions options = context.options;
  const std::int64_t max_steps = max_repeats / std::max<std::int64_t>(options.repeats, 1);
  options.repeats *= std::clamp<std::int64_t>(steps, 1, std::max<std::int64_t>(max_steps, 1));
  std::vector<std::uint8_t> fixed(body.step.inputs().size(), 0);
  if (steps >= min_fixed_steps) std::fill_n(fixed.begin(), num_consts + body.num_made, std::uint8_t{1});
  CallSite call_site;
  call_site.fixed = fixed;
  call_site.sums = body.sums;
  call_site.num_carry = num_carry;
  return compile_inner(body.step, {context.program, options, context.kernels, context.arena}, call_site);
}

}  // namespace

StepRunner::StepRunner(const ScanBody& body, std::size_t num_consts, std::size_t num_carry,
                       std::int64_t steps, const InnerContext& context, ScratchLayout& scratch,
                       std::size_t more)
    : step_(compile_step(body, num_consts, num_carry, steps, context)),
      num_consts_(num_consts),
      positions_(body.positions) {
  if (body.num_made != 0) before_ = compile_inner(body.before, context);
  for (const Preparation& what : step_->preparations())
    prepared_.push_back({what, scratch.reserve(what.bytes)});
  for (const ValueId id : body.before.outputs())
    made_.push_back(scratch.reserve(body.before.type(id).bytes()));
  inputs_ = scratch.reserve((positions_.size() + prepared_.size()) * sizeof(std::byte*));
  outputs_ = scratch.reserve(std::max(body.step.outputs().size(), made_.size()) * sizeof(std::byte*));
  const std::size_t before = before_ != nullptr ? before_->inner_bytes() : 0;
  memory_ = scratch.reserve(std::max({more, before, step_->inner_bytes()}));
}

void StepRunner::begin(std::byte* scratch) const {
  const std::byte** const in = inputs(scratch);
  if (before_ != nullptr) {
    std::byte** const out = outputs(scratch);
    for (std::size_t i = 0; i < made_.size(); ++i) out[i] = scratch + made_[i];
    before_->prepare_inner(memory(scratch));
    before_->run_inner(memory(scratch), in, out);
    for (std::size_t i = 0; i < made_.size(); ++i) in[positions_[num_consts_ + i]] = out[i];
  }
  for (std::size_t i = 0; i < prepared_.size(); ++i) {
    const Preparation& what = prepared_[i].what;
    std::byte* const to = scratch + prepared_[i].offset;
    what.run(what.state.get(), Call{&in[what.input], &to, nullptr});
    in[positions_.size() + i] = to;
  }
  step_->prepare_inner(memory(scratch));
}

}  // namespace tidu::cpu_detail
