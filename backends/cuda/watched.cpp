// watched.cpp - the flags of anomaly mode: made by a small program for each tensor, read together.
#include "cuda/watched.hpp"

#include "cuda/compiled.hpp"
#include "cuda/opener.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace cuda_detail {

Watched::~Watched() {
  if (runtime_ != nullptr) drop(*runtime_, entries_);
}

// Copies that nobody asks for may still be under way.
void Watched::drop(Runtime& runtime, const std::vector<Entry>& entries) noexcept {
  for (const Entry& entry : entries) runtime.pinned().release_after(entry.flag, entry.copied);
}

void Watched::add(const Tensor& flag, std::function<void()> report) {
  const auto* const there = static_cast<const DeviceStorage*>(flag.resident());
  Runtime& runtime = there->runtime();
  Entry entry{runtime.pinned().acquire(1), {}, std::move(report)};
  try {
    entry.copied = runtime.events().acquire();
    runtime.device().copy_to_host(entry.flag.at, there->address(), 1, there->home());
    runtime.device().record(entry.copied, there->home());
    const std::lock_guard lock(mutex_);
    runtime_ = runtime.shared_from_this();
    entries_.push_back(entry);
  } catch (...) {
    if (entry.copied.handle != nullptr) runtime.events().release(entry.copied);
    runtime.pinned().give_up(entry.flag, there->home());
    throw;
  }
}

void Watched::check(Runtime& runtime) {
  const std::lock_guard asks(asked_);
  std::vector<Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  if (entries.empty()) return;
  const Stream stream = current_stream(runtime);
  try {
    for (const Entry& entry : entries) runtime.device().wait(stream, entry.copied);
    runtime.device().synchronize(stream);
  } catch (...) {
    drop(runtime, entries);
    throw;
  }
  std::vector<const Entry*> due;
  due.reserve(entries.size());
  for (const Entry& entry : entries)
    if (entry.flag.at[0] == std::byte{0}) due.push_back(&entry);
  for (const Entry& entry : entries) {
    runtime.events().release(entry.copied);
    runtime.pinned().release(entry.flag);
  }
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
  Value finite = ops::is_finite(is_complex(dtype) ? ops::real(x) : x);
  if (is_complex(dtype)) finite = ops::logical_and(finite, ops::is_finite(ops::imag(x)));
  const Value all = ops::reduce_and(finite, axes);
  const Tensor* const input = &tensor;
  Tensor flag;
  compile(builder.build(std::span(&all, 1))).run_into(std::span(&input, 1), std::span(&flag, 1));
  watched_->add(flag, report);
  return true;
}

void CudaExecutor::check_watched() const {
  if (opener_->peek() != nullptr) watched_->check(runtime());
}

}  // namespace tidu
