// parallel.hpp - a loop cut over threads. The cuts depend on the count and the grain alone, not on the number
// of threads, so a body that combines within its range gives the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tidu::cpu_detail {

/// Calls body(context, piece) for every piece in [0, pieces), on this thread and at most threads - 1 helpers.
/// When the helpers are busy with someone else's loop, all of it runs here. What a body throws, the first of
/// them, is thrown here when no body runs any more; pieces that were not begun are left out then.
void run_pieces(int threads, std::int64_t pieces, void (*body)(void* context, std::int64_t piece),
                void* context);

/// Is a helper awake? One that sleeps starts later than a short loop ends.
bool helpers_awake();

/// Are processors too far from one another for short loops, which would take longer for what they send? Now
/// and then the answer is no all the same, and the loop that is shared finds out whether they still are.
bool too_far_apart();
/// Runs this thread a piece of a loop that it shares with processors that are far from its own, in another
/// cache or socket, so that lines which both use are best written past the caches? See Note [Apart].
bool is_apart();

/// Calls body(begin, end) for ranges of `grain` (the last one shorter) that cover [0, count); one call where
/// one thread is enough.
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

/// The same for loops that are too short to wake a helper: one call where none is awake, or where processors
/// are too far apart.
template <class Body>
void parallel_for_awake(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  const bool gains = threads > 1 && count >= 2 * grain && helpers_awake() && !too_far_apart();
  parallel_for(gains ? threads : 1, count, grain, body);
}

}  // namespace tidu::cpu_detail
