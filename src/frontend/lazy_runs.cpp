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
      auto* const promise = static_cast<LazyResult*>(kept);
      if (!promise->lend(made[*output])) continue;
      pointers[input] = &made[*output];
      lent.push_back({*output++, promise});
    }
  }
}

void LazyRun::take_back() noexcept {
  for (const Lent& each : lent) each.promise->take_back(std::move(made[each.output]));
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
    for (std::size_t i = 0; i < output_ids.size(); ++i) promised.push_back(output(i));
    return;
  }
  for (const std::uint32_t i : deferral->kept) promised.push_back(output(i));
  for (std::size_t k = 0; k < deferral->results.size(); ++k) {
    auto result = std::make_shared<DeferredResult>(DeferredResult{program, use, k, {}});
    result->operands.resize(deferral->results[k].operands.size());
    put_off.push_back({output(deferral->results[k].output), std::move(result), Tensor()});
  }
}

// With deferred results there are further arrays after the results: their operands.
void LazyRun::run(const LazyProgram& program, const LazyRunner& runner) {
  if (!defers()) return program.run(runner, pointers, made);
  program.run_deferring(pointers, made);
  for (const PutOff& each : put_off) {
    const std::vector<std::uint32_t>& operands = program.deferral->results[each.result->which].operands;
    for (std::size_t k = 0; k < operands.size(); ++k) each.result->operands[k] = made[operands[k]];
  }
}

namespace {

void keep_result(const Tensor& promised, Tensor&& made, LazyValues& values) {
  auto* const result = static_cast<LazyResult*>(promised.pending());
  if (result == nullptr) return;  // another thread was there before
  result->set_elements(std::move(made), promised);
  if (result->number() != no_index) values[result->number()].version = promised.version();
}

}  // namespace

void LazyRun::keep_results(LazyValues& values) {
  for (std::size_t i = 0; i < promised.size(); ++i) keep_result(promised[i], std::move(made[i]), values);
}

std::uint64_t LazyRun::keep_put_off(LazyValues& values) {
  std::uint64_t deferred = 0;
  for (PutOff& each : put_off) {
    auto* const result = static_cast<LazyResult*>(each.promised.pending());
    if (result == nullptr) continue;
    if (each.made.type() == each.promised.type()) {
      keep_result(each.promised, std::move(each.made), values);
    } else {
      result->defer(std::move(each.result));
      ++deferred;
    }
  }
  return deferred;
}

void LazyRun::make_put_off() {
  for (PutOff& each : put_off) each.made = each.result->make();
}

}  // namespace tidu::frontend_detail
