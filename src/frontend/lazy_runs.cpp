// lazy_runs.cpp - LazyRun: donated memory, and deferred results. See Note [Donated memory] and Note [Deferred
// results] in lazy.hpp.
#include "frontend/lazy_runs.hpp"

namespace tidu::frontend_detail {

// The leaf's value and the run have a reference each.
void LazyRun::lend(std::span<const ReusableInputs> reused, std::size_t num_outputs, const LazyTrace* trace) {
  if (reused.empty()) return;
  made.resize(num_outputs);
  std::size_t most = 0;
  for (const ReusableInputs& set : reused) most += set.outputs.size();
  lent.reserve(most);
  for (const ReusableInputs& set : reused) {
    auto output = set.outputs.begin();
    for (const std::uint32_t input : set.inputs) {
      if (output == set.outputs.end()) break;
      tidu::detail::LazyStorage* const kept = inputs[input].kept();
      if (kept == nullptr || kept->producer != trace || kept->references.load(std::memory_order_acquire) != 2)
        continue;
      auto* const leaf = static_cast<LazyResult*>(kept);
      if (!leaf->lend(made[*output])) continue;
      pointers[input] = &made[*output];
      lent.push_back({*output++, leaf});
    }
  }
}

void LazyRun::take_back() noexcept {
  for (const Lent& each : lent) each.leaf->take_back(std::move(made[each.output]));
  lent.clear();
}

void LazyRun::list(const std::shared_ptr<const LazyProgram>& program, const std::shared_ptr<DeferralUse>& use,
                   const LazyValues& values, std::span<const std::uint32_t> input_ids,
                   std::span<const std::uint32_t> output_ids) {
  const auto output = [&](std::size_t i) { return values[output_ids[i]].tensor; };
  for (const std::uint32_t id : input_ids) inputs.push_back(values[id].tensor);
  for (const Tensor& input : inputs) pointers.push_back(&input);
  const Deferral* const deferral = program->deferral.get();
  if (deferral == nullptr || !use->is_worth()) {
    for (std::size_t i = 0; i < output_ids.size(); ++i) results.push_back(output(i));
    return;
  }
  for (const std::uint32_t i : deferral->kept) results.push_back(output(i));
  for (std::size_t k = 0; k < deferral->results.size(); ++k) {
    auto result = std::make_shared<DeferredResult>(DeferredResult{program, use, k, {}});
    result->operands.resize(deferral->results[k].operands.size());
    deferred.push_back({output(deferral->results[k].output), std::move(result), Tensor()});
  }
}

// With deferred results there are further arrays after the results: their operands.
void LazyRun::run(const LazyProgram& program, const LazyRunner& runner) {
  if (!defers()) return program.run(runner, pointers, made);
  program.run_deferring(pointers, made);
  for (const DeferredOutput& each : deferred) {
    const std::vector<std::uint32_t>& operands = program.deferral->results[each.result->which].operands;
    for (std::size_t k = 0; k < operands.size(); ++k) each.result->operands[k] = made[operands[k]];
  }
}

namespace {

void keep_result(const Tensor& tensor, Tensor&& made, LazyValues& values) {
  auto* const result = static_cast<LazyResult*>(tensor.pending());
  if (result == nullptr) return;  // another thread was there before
  result->set_elements(std::move(made), tensor);
  if (result->number() != no_index) values[result->number()].version = tensor.version();
}

}  // namespace

void LazyRun::keep_results(LazyValues& values) {
  for (std::size_t i = 0; i < results.size(); ++i) keep_result(results[i], std::move(made[i]), values);
}

std::uint64_t LazyRun::keep_deferred(LazyValues& values) {
  std::uint64_t count = 0;
  for (DeferredOutput& each : deferred) {
    auto* const result = static_cast<LazyResult*>(each.tensor.pending());
    if (result == nullptr) continue;
    if (each.made.type() == each.tensor.type()) {
      keep_result(each.tensor, std::move(each.made), values);
    } else {
      result->defer(std::move(each.result));
      ++count;
    }
  }
  return count;
}

void LazyRun::compute_deferred() {
  for (DeferredOutput& each : deferred) each.made = each.result->make();
}

}  // namespace tidu::frontend_detail
