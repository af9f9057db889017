// light_mutex.hpp - LightMutex: a lock of one word for short critical sections with little contention.
// Without contention, locking and unlocking take one atomic operation each, and none in a process of one
// thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "tidu/graph/counter.hpp"

namespace tidu::detail {

/// As std::mutex, for std::lock_guard, std::unique_lock and std::scoped_lock.
class LightMutex {
 public:
  LightMutex() = default;
  LightMutex(const LightMutex&) = delete;
  LightMutex& operator=(const LightMutex&) = delete;

  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  bool try_lock() noexcept {
    std::uint32_t expected = free;
    if (TIDU_SINGLE_THREADED) {
      if (state_.load(std::memory_order_relaxed) != free) return false;
      state_.store(held, std::memory_order_relaxed);
      return true;
    }
    return state_.compare_exchange_strong(expected, held, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (TIDU_SINGLE_THREADED) {
      state_.store(free, std::memory_order_relaxed);
      return;
    }
    if (state_.exchange(free, std::memory_order_release) == wanted) [[unlikely]]
      state_.notify_one();
  }

 private:
  // A thread that has waited cannot know whether others wait, so it leaves the lock marked as contended.
  void wait() noexcept {
    while (state_.exchange(wanted, std::memory_order_acquire) != free)
      state_.wait(wanted, std::memory_order_relaxed);
  }
  static constexpr std::uint32_t free = 0, held = 1, wanted = 2;
  std::atomic<std::uint32_t> state_{free};
};

}  // namespace tidu::detail
