// fork_locks.hpp - the locks of process-wide tables. fork() takes them all first, in one order, so that the
// child, which has none of the other threads, finds them unlocked and the tables consistent.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <mutex>

namespace tidu::detail {

/// In the order of acquisition: the holder of one may take later ones.
enum class ForkRank : unsigned char {
  traces,
  devices,
  cached_graphs,
  compiled,
  lanes_avx2,
  lanes_avx512,
  ops,
  types,
  memory,
  pool,
  count
};

class ForkLocks {
 public:
  /// Registers a mutex that is never destroyed. `in_child` is called in the child before it is unlocked.
  /// `more` locks, and unlocks, further state of the forking thread. Does not block: the caller may hold a
  /// lock that a fork in another thread has taken or waits for.
  static void add(ForkRank rank, std::mutex& mutex, void (*in_child)() = nullptr,
                  void (*more)(bool locks) = nullptr) {
    const auto i = static_cast<std::size_t>(rank);
    in_child_[i].store(in_child, std::memory_order_relaxed);
    more_[i].store(more, std::memory_order_relaxed);
    added_[i].store(&mutex, std::memory_order_release);
    if (!has_handlers_.exchange(true)) ::pthread_atfork(lock_all, unlock_all, unlock_in_child);
  }

 private:
  static constexpr auto num_ranks = static_cast<std::size_t>(ForkRank::count);

  static void lock_all() {
    forking_.lock();
    for (std::size_t i = 0; i < num_ranks; ++i) {
      taken_[i] = added_[i].load(std::memory_order_acquire);
      if (taken_[i] == nullptr) continue;
      taken_[i]->lock();
      if (const auto more = more_[i].load(std::memory_order_relaxed); more != nullptr) more(true);
    }
  }
  static void unlock(bool in_child) {
    for (std::size_t i = num_ranks; i-- > 0;) {
      if (taken_[i] == nullptr) continue;
      const auto call = in_child_[i].load(std::memory_order_relaxed);
      if (in_child && call != nullptr) call();
      if (const auto more = more_[i].load(std::memory_order_relaxed); more != nullptr) more(false);
      taken_[i]->unlock();
    }
    forking_.unlock();
  }
  static void unlock_all() { unlock(false); }
  static void unlock_in_child() { unlock(true); }

  static inline constinit std::atomic<std::mutex*> added_[num_ranks] = {};
  static inline constinit std::atomic<void (*)()> in_child_[num_ranks] = {};
  static inline constinit std::atomic<void (*)(bool)> more_[num_ranks] = {};
  static inline constinit std::atomic<bool> has_handlers_{false};
  static inline constinit std::mutex forking_;
  static inline constinit std::mutex* taken_[num_ranks] = {};  // by the fork that holds forking_
};

}  // namespace tidu::detail
