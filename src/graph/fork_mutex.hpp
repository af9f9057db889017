// fork_mutex.hpp - ForkMutex: a lock of one object among many, which need not be taken before fork().
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace tidu::detail {

/// How often this process came out of a fork, counted from the first watch() on.
class Forks {
 public:
  static std::uint32_t count() noexcept { return count_.load(std::memory_order_relaxed); }
  static void watch() noexcept {
    if (watched_.load(std::memory_order_relaxed) || watched_.exchange(true)) return;
    ::pthread_atfork(nullptr, nullptr, [] { count_.fetch_add(1, std::memory_order_relaxed); });
  }

 private:
  static inline constinit std::atomic<std::uint32_t> count_{0};
  static inline constinit std::atomic<bool> watched_{false};
};

/// A mutex that detects that its holder does not exist in this process, a child that was forked meanwhile.
/// The guarded data then stays inconsistent for ever, and callers have to do without it.
class ForkMutex {
 public:
  ForkMutex() noexcept { Forks::watch(); }

  /// Holds the mutex where it can.
  class Lock {
   public:
    explicit Lock(ForkMutex& mutex) noexcept : mutex_(mutex), held_(mutex.lock()) {}
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
      if (held_) mutex_.mutex_.unlock();
    }
    explicit operator bool() const noexcept { return held_; }

   private:
    ForkMutex& mutex_;
    const bool held_;
  };

 private:
  bool lock() noexcept {
    if (Forks::count() == 0) {
      mutex_.lock();
    } else {
      // A thread that has just taken it and not stored the time yet counts as one of before: one caller then
      // does without the data, once.
      for (; !mutex_.try_lock(); std::this_thread::yield())
        if (taken_after_.load(std::memory_order_relaxed) != Forks::count()) return false;
    }
    taken_after_.store(Forks::count(), std::memory_order_relaxed);
    return true;
  }

  std::mutex mutex_;
  std::atomic<std::uint32_t> taken_after_{0};  // so many forks
};

}  // namespace tidu::detail
