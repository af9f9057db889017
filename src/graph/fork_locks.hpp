// fork_locks.hpp - the locks of tables that a process has one of. fork() takes them all first, in one order,
// so that the child, which has none of the other threads, finds them free and the tables whole.
#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace tidu::detail {

/// In the order in which they are taken: who holds one may take those behind it.
enum class ForkRank : unsigned char { templates, compiled, ops, types, memory, pool };

class ForkLocks {
 public:
  /// From now on, for a mutex that is never destroyed. `in_child` is called there before it is unlocked.
  static void add(ForkRank rank, std::mutex& mutex, void (*in_child)() = nullptr) {
    const std::lock_guard lock(mutex_);
    held_[static_cast<std::size_t>(rank)] = {&mutex, in_child};
    if (!has_handlers_) has_handlers_ = ::pthread_atfork(lock_all, unlock_all, unlock_in_child) == 0;
  }

 private:
  struct Held {
    std::mutex* mutex;
    void (*in_child)();
  };
  static void lock_all() {
    mutex_.lock();
    for (const Held& held : held_)
      if (held.mutex != nullptr) held.mutex->lock();
  }
  static void unlock(bool in_child) {
    for (std::size_t i = held_.size(); i-- > 0;) {
      if (held_[i].mutex == nullptr) continue;
      if (in_child && held_[i].in_child != nullptr) held_[i].in_child();
      held_[i].mutex->unlock();
    }
    mutex_.unlock();
  }
  static void unlock_all() { unlock(false); }
  static void unlock_in_child() { unlock(true); }

  static inline constinit std::mutex mutex_;
  static inline constinit std::array<Held, 6> held_{};
  static inline constinit bool has_handlers_ = false;
};

}  // namespace tidu::detail
