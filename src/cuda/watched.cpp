// watched.cpp - the flags of anomaly mode: made by a small program for each tensor, read together.
#include "cuda/watched.hpp"

#include "cuda/compiled.hpp"
#include "cuda/opener.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace cuda_detail {

void Watched::add(Tensor flag, std::function<void()> report) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(flag), std::move(report)});
}

void Watched::check(Runtime& runtime) {
  std::vector<Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  if (entries.empty()) return;
  const Memory flags = runtime.pinned().acquire(entries.size());
  const Stream stream = current_stream(runtime);
  try {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      DeviceStorage* const flag = runtime.find(entries[i].flag);
      flag->use_on(stream);
      runtime.device().copy_to_host(flags.at + i, flag->address(), 1, stream);
    }
    runtime.device().synchronize(stream);
  } catch (...) {
    runtime.pinned().give_up(flags, stream);
    throw;
  }
  std::vector<const Entry*> due;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (flags.at[i] == std::byte{0}) due.push_back(&entries[i]);
  runtime.pinned().release(flags);
  for (const Entry* const entry : due) entry->report();
}

}  // namespace cuda_detail

bool CudaExecutor::watch_finite(const Tensor& tensor, const std::function<void()>& report) const {
  const DType dtype = tensor.dtype();
  if (!is_floating(dtype) && !is_complex(dtype)) return true;
  GraphBuilder builder("is_finite");
  const Value x = builder.input("x", tensor.type());
  Ints axes;
  for (std::size_t axis = 0; axis < tensor.rank(); ++axis) axes.push_back(static_cast<std::int64_t>(axis));
  const Value finite = ops::is_finite(x);
  const Value all = ops::reduce_and(finite, axes);
  const Tensor* const input = &tensor;
  Tensor flag;
  compile(builder.build(std::span(&all, 1))).run_into(std::span(&input, 1), std::span(&flag, 1));
  watched_->add(std::move(flag), report);
  return true;
}

void CudaExecutor::check_watched() const {
  if (opener_->peek() != nullptr) watched_->check(runtime());
}

}  // namespace tidu
