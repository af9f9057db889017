// lazy_values.hpp - the values of a LazyTrace: lazy tensors, which operations compute, and leaves, which they
// read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

class LazyTrace;
struct DeferredResult;

/// The storage of a lazy tensor. Functions without another comment need the lock of its trace.
class LazyResult final : public tidu::detail::LazyStorage {
 public:
  /// Watched from the beginning, since unevaluated operations may read it.
  LazyResult(const std::shared_ptr<LazyTrace>& trace, std::uint32_t number) : trace_(trace), number_(number) {
    version.store(watched, std::memory_order_relaxed);
  }
  /// Called without the lock, which evaluation takes.
  void materialize() override;
  void settle() override;
  void discard() noexcept override;

  /// Does it have elements, here or on a device? Needs no lock.
  bool has_elements() const {
    return made.load(std::memory_order_acquire) != nullptr ||
           resident.load(std::memory_order_acquire) != nullptr;
  }
  /// Number of its value in the trace; no_index: the trace has ended, or the result is deferred.
  std::uint32_t number() const { return number_; }
  void set_number(std::uint32_t number) { number_ = number; }
  /// Takes the elements that its operation computed. `tensor`: a tensor with this storage.
  void set_elements(Tensor&& elements, const Tensor& tensor);

  /// Is only a read missing? See Note [Deferred results] in lazy.hpp.
  bool is_deferred() const { return deferred_ != nullptr; }
  const std::shared_ptr<const DeferredResult>& deferred() const { return deferred_; }
  void defer(std::shared_ptr<const DeferredResult> result) {
    number_ = no_index;
    deferred_ = std::move(result);
  }
  /// Takes the elements of a deferred result, which the caller destroys without the lock.
  std::shared_ptr<const DeferredResult> set_deferred_elements(Tensor&& elements);

  /// Moves out the memory of a leaf, which is written to; see Note [Donated memory]. Returns false, without
  /// effect, if something else refers to the memory.
  bool lend(Tensor& to) {
    if (!tensor_.exclusive()) return false;
    to = std::move(tensor_);
    version.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  /// Undoes lend(): nothing was written.
  void take_back(Tensor&& lent) noexcept {
    tensor_ = std::move(lent);
    version.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  void publish();

  std::shared_ptr<LazyTrace> trace_;
  std::uint32_t number_;
  Tensor tensor_;  // after evaluation
  std::shared_ptr<const DeferredResult> deferred_;
};

/// The storage of a lazy tensor without elements that `trace` made; null for other tensors.
inline LazyResult* lazy_result(const Tensor& tensor, const LazyTrace* trace) {
  auto* const pending = tensor.pending();
  return pending != nullptr && pending->producer == trace ? static_cast<LazyResult*>(pending) : nullptr;
}

/// Makes lazy tensors for a trace, on the device of its runner.
struct LazyTensorFactory {
  const LazyTrace* owner = nullptr;
  std::shared_ptr<LazyTrace> trace;  // until the trace ends
  std::uint32_t device = 0;

  Tensor make(Type type, std::uint32_t number) const;
};

/// A value of a trace.
struct LazyValue {
  Tensor tensor;                 // a leaf, or a lazy tensor
  std::uint64_t version = 0;     // of a leaf at the time of recording
  LazyResult* result = nullptr;  // the tensor's storage, for a result
  std::uint32_t op = no_index;   // of a result; no_index: a leaf
  std::uint32_t number = 0;      // in sweep `numbered`
  std::uint32_t numbered = 0;
  std::uint32_t wanted = 0;  // by the sweep of that number

  /// Is it a result without elements?
  bool waits() const { return result != nullptr && !result->has_elements(); }
  /// Is a result referred to from outside? The trace itself holds one reference.
  bool is_referred() const { return result->references.load(std::memory_order_acquire) > 1; }
};

/// Values in order of their numbers. Lazy tensors without references may follow them, each at the position
/// where it becomes the value again when a hot trace is replayed.
class LazyValues {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  LazyValue& operator[](std::size_t i) { return all_[i]; }
  const LazyValue& operator[](std::size_t i) const { return all_[i]; }
  LazyValue* begin() { return all_.data(); }
  LazyValue* end() { return all_.data() + size_; }
  const LazyValue* begin() const { return all_.data(); }
  const LazyValue* end() const { return all_.data() + size_; }
  /// Is one of the values in this storage?
  bool lie_in(const tidu::detail::TensorStorage& storage) const {
    return std::any_of(begin(), end(), [&](const LazyValue& value) { return value.tensor.lies_in(storage); });
  }
  /// Is a result without elements referred to from outside?
  bool are_awaited() const {
    return std::any_of(begin(), end(),
                       [](const LazyValue& value) { return value.waits() && value.is_referred(); });
  }
  /// The results for which that is so.
  std::vector<Tensor> awaited() const {
    std::vector<Tensor> found;
    for (const LazyValue& value : *this)
      if (value.waits() && value.is_referred()) found.push_back(value.tensor);
    return found;
  }
  /// Reserves space for `more` values, so that adding them cannot throw.
  void make_room(std::size_t more) {
    const std::size_t needed = size_ + more;
    if (all_.capacity() < needed) all_.reserve(std::max(2 * all_.capacity(), needed));
  }
  LazyValue& emplace_back(const Tensor& leaf) { return put(leaf, leaf.version(), nullptr, no_index); }
  LazyValue& emplace_back(Tensor&& result, std::uint32_t op) {
    return put(std::move(result), 0, static_cast<LazyResult*>(result.pending()), op);
  }
  /// The kept lazy tensor at the next position, or null.
  LazyValue* kept() {
    LazyValue* const next = end();
    return next != all_.data() + all_.size() && next->result != nullptr ? next : nullptr;
  }
  /// Makes kept() the next value.
  void take_kept() { ++size_; }
  /// Repeats take_kept() while there is a kept lazy tensor and fewer than `count` values.
  void take_kept_until(std::size_t count) {
    const LazyValue* next = end();
    const LazyValue* const last = next + (std::min(std::max(count, size_), all_.size()) - size_);
    for (; next != last && next->result != nullptr; ++next) ++size_;
  }
  /// Turns the last value, a lazy tensor, into a kept one.
  void keep_last() { --size_; }
  /// Drops the values from number `count` on.
  void truncate(std::size_t count) {
    for (std::size_t i = count; i < size_; ++i) all_[i] = LazyValue();
    size_ = count;
  }
  /// Turns all values into kept ones. The caller must have taken everything else out.
  void keep_all() { size_ = 0; }
  /// Drops all kept lazy tensors.
  void drop_kept() { all_.resize(size_); }
  /// Exchanges the values; nothing is kept.
  void swap(std::vector<LazyValue>& other) {
    drop_kept();
    all_.swap(other);
    size_ = all_.size();
  }
  friend void swap(LazyValues& a, LazyValues& b) noexcept {
    a.all_.swap(b.all_);
    std::swap(a.size_, b.size_);
  }

 private:
  template <class T>
  LazyValue& put(T&& tensor, std::uint64_t version, LazyResult* result, std::uint32_t op) {
    if (size_ == all_.size()) all_.emplace_back();
    LazyValue& value = all_[size_++];
    value.tensor = std::forward<T>(tensor);
    value.version = version;
    value.result = result;
    value.op = op;
    return value;
  }

  std::vector<LazyValue> all_;
  std::size_t size_ = 0;
};

}  // namespace tidu::frontend_detail
