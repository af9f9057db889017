// thread_kept.hpp - thread-local objects, such as a small cache, which destructors may still use. Destructors
// of the thread's other objects, and on the main thread those of statics, may access the object when it is
// destroyed already: then it is made once more.
#pragma once

#include <utility>

namespace tidu::detail {

/// A T for each thread: that of get().
template <class T>
class ThreadKept {
 public:
  static T& get() {
    if (held == nullptr) [[unlikely]]
      make();
    return *held;
  }

 private:
  // Destroys the thread's object when the thread ends. Each instance runs once in a thread, so a T that is
  // made again needs another one.
  template <int Time>
  struct End {
    End() = default;
    End(const End&) = delete;
    End& operator=(const End&) = delete;
    ~End() { delete std::exchange(held, nullptr); }
  };
  template <int Time>
  static void end_with_thread() {
    static thread_local End<Time> end;
    static_cast<void>(&end);
  }
  static void make() {
    held = new T;
    switch (times++) {
      case 0: return end_with_thread<0>();
      case 1: return end_with_thread<1>();
      default: return;  // after the thread's destructors; that of a static, say: the process ends
    }
  }

  static inline constinit thread_local T* held = nullptr;
  static inline constinit thread_local int times = 0;
};

}  // namespace tidu::detail
