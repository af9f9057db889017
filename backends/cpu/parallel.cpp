// parallel.cpp - the helpers of parallel loops: threads that are started at first need and last as long as
// the process.
//
// Invariants: one loop at a time has the helpers; a helper reads a loop only after it has taken one of the
// loop's places; a loop ends only when all its places are withdrawn or were left again, so that its context
// may live on the caller's stack, however it ends. A helper that comes late, or that a fork left behind, is
// not waited for.
//
// Note [Ranges]: each thread begins with a range of pieces side by side of its own, and takes others' pieces
// when those are done. So loops over the same arrays, one after another, find them in the same caches: lines
// that another core has written or read cost several times as much as one's own.
//
// Note [Apart]: processors that share no cache, or not the same one from one second to the next, as virtual
// ones do, pay thirty nanoseconds for each line that they write after the other has read it, whatever they
// prefetch, and a twentieth of that where they write it past the caches. Where they share a cache it is the
// other way round. So now and then a word is sent to a helper and back; who shares writes of a loop asks, and
// short loops stay with one thread. On Intel's processors a word takes as long between any two cores, 300 ns
// there and back on a Xeon of 2024, but a line that the other has read takes 3 ns to be written: nothing is
// gained past the caches, nor by leaving short loops to one thread.
#include "cpu/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
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
constexpr auto stay_awake = std::chrono::microseconds(200);
constexpr int pauses_a_look = 32;
constexpr std::uint32_t loops_a_look = 64, loops_a_look_apart = 8;
constexpr std::uint32_t loops_a_try = 64;

thread_local bool is_apart_ = false;

class Helpers {
  using Clock = std::chrono::steady_clock;

 public:
  // Never destroyed: a helper may outlive static destruction. Not on the heap, which may be full when a loop
  // that cannot fail is the first one.
  static Helpers& get() noexcept {
    alignas(Helpers) static std::byte memory[sizeof(Helpers)];
    static Helpers* const helpers = ::new (memory) Helpers;
    return *helpers;
  }

  // False, with nothing done, while another loop has the helpers.
  bool run(int wanted, std::int64_t pieces, void (*body)(void*, std::int64_t), void* context) {
    if (busy_.test_and_set(std::memory_order_acquire)) return false;
    start(wanted);
    body_ = body;
    context_ = context;
    num_ranges_ = std::min<std::int64_t>(wanted + 1, max_ranges);
    for (std::int64_t i = 0; i < num_ranges_; ++i) {
      ranges_[i].next.store(i * pieces / num_ranges_, std::memory_order_relaxed);
      ranges_[i].end = (i + 1) * pieces / num_ranges_;
    }
    left_.store(0, std::memory_order_relaxed);
    caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
    seats_.store(wanted, std::memory_order_release);
    seats_.notify_all();
    work(0);
    const int joined = wanted - seats_.exchange(0, std::memory_order_acq_rel);
    for (int spins = 0; left_.load(std::memory_order_acquire) < joined; ++spins) {
      if (spins < 20000) {
        relax();
      } else {
        std::this_thread::yield();
      }
    }
    const bool was_apart = apart_.load(std::memory_order_relaxed);
    if (joined > 0 && ++shared_ % (was_apart ? loops_a_look_apart : loops_a_look) == 0) look();
    std::exception_ptr error;
    if (failed_.exchange(false, std::memory_order_relaxed)) error.swap(error_);
    busy_.clear(std::memory_order_release);
    if (error != nullptr) std::rethrow_exception(error);
    return true;
  }
  bool too_far_apart() {
    return apart_.load(std::memory_order_relaxed) &&
           tries_.fetch_add(1, std::memory_order_relaxed) % loops_a_try != 0;
  }
  bool any_awake() const { return awake_.load(std::memory_order_relaxed) > 0; }

 private:
  struct alignas(64) Range {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };
  static constexpr std::int64_t max_ranges = 64;

  void start(int wanted) {
    try {
      for (; started_ < wanted; ++started_) std::thread([this] { serve(); }).detach();
    } catch (...) {  // no more threads to be had, or no memory for one: those that there are do the work
      return;
    }
  }

  // See Note [Apart]. Gives up where no helper answers at once.
  void look() {
    constexpr int trips = 8;
    constexpr std::chrono::nanoseconds far(230), near(190), too_long(20000);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < trips; ++i) {
      const std::uint32_t word = ping_.load(std::memory_order_relaxed) + 1;
      ping_.store(word, std::memory_order_relaxed);
      for (int spins = 1; pong_.load(std::memory_order_relaxed) != word; ++spins) {
        if (spins % 64 == 0 && Clock::now() - start > too_long) return;
      }
    }
    const auto trip = (Clock::now() - start) / trips;
    if (trip > far) apart_.store(true, std::memory_order_relaxed);
    if (trip < near) apart_.store(false, std::memory_order_relaxed);
  }

  // See Note [Ranges].
  void work(std::int64_t own) noexcept {
    is_apart_ = apart_.load(std::memory_order_relaxed);
    try {
      for (std::int64_t i = 0; i < num_ranges_; ++i) {
        Range& range = ranges_[(own + i) % num_ranges_];
        if (range.next.load(std::memory_order_relaxed) >= range.end) continue;
        for (std::int64_t piece = range.next.fetch_add(1, std::memory_order_relaxed); piece < range.end;
             piece = range.next.fetch_add(1, std::memory_order_relaxed)) {
          body_(context_, piece);
        }
      }
    } catch (...) {
      for (std::int64_t i = 0; i < num_ranges_; ++i)
        ranges_[i].next.store(ranges_[i].end, std::memory_order_relaxed);
      if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
    }
    is_apart_ = false;
  }

  // The number of the place, from 1 on; 0 where there is none.
  int join() {
    int seats = seats_.load(std::memory_order_relaxed);
    while (seats > 0) {
      if (seats_.compare_exchange_weak(seats, seats - 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return seats;
      }
    }
    return 0;
  }

  // A woken thread starts on the processor of the one that woke it and may share it for long. Helpers leave
  // it, to any other of those they are allowed. They may come back: who stays tied to the processor to which
  // the caller moves later would wait there, for ever where the caller has the priority of a real-time
  // thread.
  void leave_caller() const {
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || here != caller_cpu_.load(std::memory_order_relaxed)) return;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<std::size_t>(here), &others);
    if (CPU_COUNT(&others) == 0) return;
    sched_setaffinity(0, sizeof others, &others);
    sched_setaffinity(0, sizeof allowed, &allowed);
  }

  [[noreturn]] void serve() {
    for (;;) {
      awake_.fetch_add(1, std::memory_order_relaxed);
      leave_caller();
      Clock::time_point sleep = Clock::now() + stay_awake;
      for (int pauses = 1;; ++pauses) {
        if (const int seat = join(); seat > 0) {
          work(seat);
          left_.fetch_add(1, std::memory_order_release);
          sleep = Clock::now() + stay_awake;
        }
        const std::uint32_t word = ping_.load(std::memory_order_relaxed);
        if (word != pong_.load(std::memory_order_relaxed)) pong_.store(word, std::memory_order_relaxed);
        relax();
        if (pauses % pauses_a_look == 0 && Clock::now() >= sleep) break;
      }
      awake_.fetch_sub(1, std::memory_order_relaxed);
      seats_.wait(0, std::memory_order_relaxed);
    }
  }

  std::atomic_flag busy_;
  int started_ = 0;
  void (*body_)(void*, std::int64_t) = nullptr;
  void* context_ = nullptr;
  std::int64_t num_ranges_ = 0;
  alignas(64) std::atomic<int> seats_{0};
  std::atomic<int> caller_cpu_{-1};
  std::atomic<std::uint32_t> ping_{0};  // a word to the helpers: see Note [Apart]
  std::atomic<int> awake_{0};
  Range ranges_[max_ranges];
  alignas(64) std::atomic<int> left_{0};
  std::atomic<std::uint32_t> pong_{0};  // and back
  std::uint32_t shared_ = 0;            // loops
  std::atomic<bool> apart_{false};
  std::atomic<std::uint32_t> tries_{0};  // short loops that asked while processors were apart
  std::atomic<bool> failed_{false};      // somebody's body threw: the one who set it writes `error_`
  std::exception_ptr error_;
};

// Does a word that takes long mean that written lines do, too? See Note [Apart].
bool writes_take_long() {
#if defined(__x86_64__)
  static const bool is_intel = __builtin_cpu_is("intel") != 0;
  return !is_intel;
#else
  return true;
#endif
}

}  // namespace

bool is_apart() { return is_apart_ && writes_take_long(); }

bool too_far_apart() { return writes_take_long() && Helpers::get().too_far_apart(); }

bool helpers_awake() { return Helpers::get().any_awake(); }

void run_pieces(int threads, std::int64_t pieces, void (*body)(void* context, std::int64_t piece),
                void* context) {
  const auto helpers = static_cast<int>(std::min<std::int64_t>(threads - 1, pieces - 1));
  if (helpers > 0 && Helpers::get().run(helpers, pieces, body, context)) return;
  for (std::int64_t piece = 0; piece < pieces; ++piece) body(context, piece);
}

}  // namespace tidu::cpu_detail
