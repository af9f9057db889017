// parallel.hpp - parallel loops. The ranges depend on the count and the grain alone, and not on the number of
// threads. A body that reduces within its range therefore gives the same bits for any number of threads.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tidu::cpu_detail {

/// Calls body(context, piece) for each piece in [0, pieces), on this thread and at most threads - 1 helpers.
/// If the helpers are busy with another loop, all pieces run on this thread. If bodies throw, the first
/// exception is thrown here after all running bodies have ended; remaining pieces are skipped.
void run_pieces(int threads, std::int64_t pieces, void (*body)(void* context, std::int64_t piece),
                void* context);

/// Is a helper awake? A sleeping helper starts after a short loop has ended.
bool helpers_awake();

/// Are the processors too far apart for short loops, whose communication would take longer than their work?
/// The answer is occasionally false nevertheless, so that a shared loop measures the distance again.
bool too_far_apart();
/// Does this thread run a piece of a loop that it shares with distant processors, in another cache or socket?
/// Shared lines are then best written past the caches. See Note [Apart].
bool is_apart();

/// Calls body(begin, end) for ranges of `grain` elements that cover [0, count); the last range may be
/// shorter. Makes one call if one thread suffices.
template <class Body>
void parallel_for(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  if (threads <= 1 || count < 2 * grain) {
    body(std::int64_t{0}, count);
    return;
  }
  struct Context {
    const Body& body;
    std::int64_t count, grain;
  } context{body, count, grain};
  run_pieces(
      threads, (count + grain - 1) / grain,
      [](void* c, std::int64_t piece) {
        const Context& at = *static_cast<Context*>(c);
        const std::int64_t begin = piece * at.grain;
        at.body(begin, begin + at.grain < at.count ? begin + at.grain : at.count);
      },
      &context);
}

/// As parallel_for, for loops that are too short to wake a helper. Makes one call if no helper is awake or
/// the processors are too far apart.
template <class Body>
void parallel_for_awake(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  const bool gains = threads > 1 && count >= 2 * grain && helpers_awake() && !too_far_apart();
  parallel_for(gains ? threads : 1, count, grain, body);
}

/// The scratch memories of a parallel loop's threads, by number. At most 64 bodies of a loop run at once;
/// each leases a memory for as long as it runs.
class ScratchSlots {
 public:
  class Lease {
   public:
    explicit Lease(ScratchSlots& slots) : slots_(slots) {
      std::uint64_t free = slots_.free_.load(std::memory_order_relaxed);
      while (!slots_.free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) {
      }
      slot_ = static_cast<std::size_t>(std::countr_zero(free));
    }
    ~Lease() { slots_.free_.fetch_or(std::uint64_t{1} << slot_, std::memory_order_release); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    std::size_t slot() const { return slot_; }

   private:
    ScratchSlots& slots_;
    std::size_t slot_;
  };

 private:
  std::atomic<std::uint64_t> free_{~std::uint64_t{0}};  // bit i: memory i is free
};

}  // namespace tidu::cpu_detail
