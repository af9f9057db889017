// lazy_runs.cpp - running programs of a trace, and writers that wait for them. See Note [Locking of traces]
// in lazy.hpp.
#include <algorithm>

#include "frontend/lazy_program.hpp"

namespace tidu::frontend_detail {

void LazyTrace::wait_for_readers(const tidu::detail::TensorStorage& storage) {
  Lock lock(mutex_);
  running_.wait(lock, [&](const Run& run) {
    return std::any_of(run.inputs.begin(), run.inputs.end(),
                       [&](const Tensor& input) { return input.lies_in(storage); });
  });
}

void LazyTrace::wait_for_lent(Lock& lock) {
  running_.wait(lock, [](const Run& run) { return !run.lent.empty(); });
}

// With the lock. The leaf's value and the run have a reference each.
void LazyTrace::lend(std::span<const ReusableInputs> reused, std::size_t num_outputs, Run& run) {
  if (runner_.cpu != &cpu() || reused.empty()) return;  // others' kernels may be anything
  run.made.resize(num_outputs);
  std::size_t most = 0;
  for (const ReusableInputs& set : reused) most += set.outputs.size();
  run.lent.reserve(most);
  for (const ReusableInputs& set : reused) {
    auto output = set.outputs.begin();
    for (const std::uint32_t input : set.inputs) {
      if (output == set.outputs.end()) break;
      tidu::detail::LazyStorage* const kept = run.inputs[input].kept();
      if (kept == nullptr || kept->maker != this || kept->references.load(std::memory_order_acquire) != 2)
        continue;
      auto* const promise = static_cast<LazyResult*>(kept);
      if (!promise->tensor_.exclusive()) continue;
      run.made[*output] = std::move(promise->tensor_);
      run.pointers[input] = &run.made[*output];
      promise->version.fetch_add(1, std::memory_order_relaxed);
      run.lent.push_back({*output++, promise});
    }
  }
}

void LazyTrace::take_back(Run& run) noexcept {
  for (const Run::Lent& lent : run.lent) {
    lent.promise->tensor_ = std::move(run.made[lent.output]);
    lent.promise->version.fetch_sub(1, std::memory_order_relaxed);
  }
  run.lent.clear();
}

}  // namespace tidu::frontend_detail
