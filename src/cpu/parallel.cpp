// parallel.cpp - the helpers of parallel loops: threads that are started at first need and last as long as
// the process.
//
// Invariants: one loop at a time has the helpers; a helper reads a loop only after it has taken one of the
// loop's places; a loop ends only when all its places are withdrawn or were left again, so that its context
// may live on the caller's stack, however it ends. A helper that comes late, or that a fork left behind, is
// not waited for.
#include "cpu/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>

namespace tidu::cpu_detail {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waiting awake, which loops that follow one another closely take for less than the waking of a thread. A
// pause lasts from 40 to 140 cycles, depending on the processor, so it is time that is counted.
constexpr auto awake = std::chrono::microseconds(100);
constexpr int pauses_a_look = 32;

class Helpers {
  using Clock = std::chrono::steady_clock;

 public:
  // Never destroyed: a helper may outlive static destruction.
  static Helpers& get() {
    static Helpers* const helpers = new Helpers;
    return *helpers;
  }

  // False, with nothing done, while another loop has the helpers.
  bool run(int wanted, std::int64_t pieces, void (*body)(void*, std::int64_t), void* context) {
    if (busy_.test_and_set(std::memory_order_acquire)) return false;
    start(wanted);
    body_ = body;
    context_ = context;
    pieces_ = pieces;
    next_.store(0, std::memory_order_relaxed);
    left_.store(0, std::memory_order_relaxed);
    caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
    places_.store(wanted, std::memory_order_release);
    places_.notify_all();
    work();
    const int joined = wanted - places_.exchange(0, std::memory_order_acq_rel);
    for (int spins = 0; left_.load(std::memory_order_acquire) < joined; ++spins) {
      if (spins < 20000) {
        relax();
      } else {
        std::this_thread::yield();
      }
    }
    std::exception_ptr error;
    if (failed_.exchange(false, std::memory_order_relaxed)) error.swap(error_);
    busy_.clear(std::memory_order_release);
    if (error != nullptr) std::rethrow_exception(error);
    return true;
  }

 private:
  void start(int wanted) {
    try {
      for (; started_ < wanted; ++started_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      return;  // no more threads to be had: those that there are do the work
    }
  }

  void work() noexcept {
    const std::int64_t pieces = pieces_;
    try {
      for (std::int64_t piece = next_.fetch_add(1, std::memory_order_relaxed); piece < pieces;
           piece = next_.fetch_add(1, std::memory_order_relaxed)) {
        body_(context_, piece);
      }
    } catch (...) {
      next_.store(pieces, std::memory_order_relaxed);
      if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
    }
  }

  bool join() {
    int places = places_.load(std::memory_order_relaxed);
    while (places > 0) {
      if (places_.compare_exchange_weak(places, places - 1, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // A woken thread starts on the processor of the one that woke it and may share it for long. Helpers leave
  // it, to any other of those they were allowed at their start.
  void leave_caller(const cpu_set_t& allowed) const {
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || here != caller_cpu_.load(std::memory_order_relaxed)) return;
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<std::size_t>(here), &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
  }

  [[noreturn]] void serve() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (;;) {
      leave_caller(allowed);
      Clock::time_point sleep = Clock::now() + awake;
      for (int pauses = 1;; ++pauses) {
        if (join()) {
          work();
          left_.fetch_add(1, std::memory_order_release);
          sleep = Clock::now() + awake;
        }
        relax();
        if (pauses % pauses_a_look == 0 && Clock::now() >= sleep) break;
      }
      places_.wait(0, std::memory_order_relaxed);
    }
  }

  std::atomic_flag busy_;
  int started_ = 0;
  void (*body_)(void*, std::int64_t) = nullptr;
  void* context_ = nullptr;
  std::int64_t pieces_ = 0;
  alignas(64) std::atomic<int> places_{0};
  std::atomic<int> caller_cpu_{-1};
  alignas(64) std::atomic<std::int64_t> next_{0};
  alignas(64) std::atomic<int> left_{0};
  std::atomic<bool> failed_{false};  // somebody's body threw: the one who set it writes `error_`
  std::exception_ptr error_;
};

}  // namespace

void run_pieces(int threads, std::int64_t pieces, void (*body)(void* context, std::int64_t piece),
                void* context) {
  const auto helpers = static_cast<int>(std::min<std::int64_t>(threads - 1, pieces - 1));
  if (helpers > 0 && Helpers::get().run(helpers, pieces, body, context)) return;
  for (std::int64_t piece = 0; piece < pieces; ++piece) body(context, piece);
}

}  // namespace tidu::cpu_detail
