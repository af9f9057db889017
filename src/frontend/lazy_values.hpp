// lazy_values.hpp - the values of a LazyTrace: promises of what operations will make, and the leaves that
// they read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tidu/graph/value.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

class LazyTrace;
struct DeferredResult;

/// The storage of a tensor that is to be computed.
class LazyResult final : public tidu::detail::LazyStorage {
 public:
  /// Watched from the first: operations that wait may read it.
  LazyResult(const std::shared_ptr<LazyTrace>& trace, std::uint32_t number) : trace_(trace), value_(number) {
    version.store(watched, std::memory_order_relaxed);
  }
  void fulfil() override;
  void settle() override;
  void discard() noexcept override;

 private:
  friend class LazyTrace;
  std::shared_ptr<LazyTrace> trace_;
  std::uint32_t value_;  // in the trace, under its lock; no_index: the trace has ended
  Tensor tensor_;        // once it was made
  // Set, with the lock, where it waits for nothing but somebody who reads it: see Note [Deferred results].
  std::shared_ptr<const DeferredResult> deferred_;
};

/// What a trace knows of a value.
struct LazyValue {
  Tensor tensor;                  // a leaf, or a promise
  std::uint64_t version = 0;      // of a leaf, as it was when it was recorded
  LazyResult* promise = nullptr;  // the tensor's, of a result
  std::uint32_t op = no_index;    // of a result; no_index: a leaf
  std::uint32_t number = 0;       // in sweep `numbered`
  std::uint32_t numbered = 0;
  std::uint32_t wanted = 0;  // by the sweep that was asked for it
};

/// Values in order, by number. Behind them may stand promises that nobody refers to, each in the place where
/// it is the value again when a pattern comes there once more.
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
  /// Makes room for so many more, so that they cannot throw.
  void make_room(std::size_t more) {
    const std::size_t needed = size_ + more;
    if (all_.capacity() < needed) all_.reserve(std::max(2 * all_.capacity(), needed));
  }
  LazyValue& emplace_back(const Tensor& leaf) { return put(leaf, leaf.version(), nullptr, no_index); }
  LazyValue& emplace_back(Tensor&& promise, std::uint32_t op) {
    return put(std::move(promise), 0, static_cast<LazyResult*>(promise.pending()), op);
  }
  /// The promise that is the next value, if one stands there.
  LazyValue* kept() {
    LazyValue* const next = end();
    return next != all_.data() + all_.size() && next->promise != nullptr ? next : nullptr;
  }
  /// What kept() gave is the next value.
  void take_kept() { ++size_; }
  /// The same of all that stand there one behind the other, as long as there are fewer than `count` values.
  void take_kept_until(std::size_t count) {
    const LazyValue* next = end();
    const LazyValue* const last = next + (std::min(std::max(count, size_), all_.size()) - size_);
    for (; next != last && next->promise != nullptr; ++next) ++size_;
  }
  /// Puts the last one, a promise, back behind them.
  void keep_last() { --size_; }
  /// Forgets all from number `count` on.
  void truncate(std::size_t count) {
    for (std::size_t i = count; i < size_; ++i) all_[i] = LazyValue();
    size_ = count;
  }
  /// Forgets that those are values; promises stay where they are, what else there was is for the caller to
  /// take before.
  void keep_all() { size_ = 0; }
  /// Forgets what stands behind them.
  void drop_kept() { all_.resize(size_); }
  /// Exchanges the values; none may stand behind them.
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
  LazyValue& put(T&& tensor, std::uint64_t version, LazyResult* promise, std::uint32_t op) {
    if (size_ == all_.size()) all_.emplace_back();
    LazyValue& value = all_[size_++];
    value.tensor = std::forward<T>(tensor);
    value.version = version;
    value.promise = promise;
    value.op = op;
    return value;
  }

  std::vector<LazyValue> all_;
  std::size_t size_ = 0;
};

}  // namespace tidu::frontend_detail
