// hot_paths.hpp - hot paths: an eager program that repeats a sequence of operations, forward, backward or
// both, runs it as compiled programs after a few repetitions, with the same results.
//
// While a sequence goes as expected its operations make promises (see lazy.hpp), and are evaluated together
// when one of them is read, when a tensor that they read is written to, or when the sequence has ended.
// Whatever deviates (another operation, shape or dtype, an early read, an exception) costs the gain and
// nothing else: what is pending is evaluated, and runs once. What goes together less than three times is not
// compiled but run operation by operation.
#pragma once

#include <cstdint>

namespace tidu {

/// Notices and runs hot sequences on this thread. Scopes nest. Off unless one lives.
class HotPaths {
 public:
  /// Until it is destroyed; `enabled` false turns them off inside another scope.
  explicit HotPaths(bool enabled = true);
  ~HotPaths();
  HotPaths(const HotPaths&) = delete;
  HotPaths& operator=(const HotPaths&) = delete;

 private:
  bool before_;
};

/// What the detector of this thread saw.
struct HotStatistics {
  std::uint64_t sequences = 0;   ///< noticed
  std::uint64_t expected = 0;    ///< operations that came as expected, and were promises for a while
  std::uint64_t deviations = 0;  ///< sequences that another operation ended
  std::uint64_t compiled = 0;  ///< operations among the expected ones that ran as part of a compiled program
  std::uint64_t known =
      0;  ///< operations among the expected ones that were told by their places: not looked up
  std::uint64_t backwards = 0;   ///< backward calls that did again what one did before, without being run
  std::uint64_t deferred = 0;    ///< results, of 64 KiB or more, that were left until somebody reads them
  std::uint64_t recomputed = 0;  ///< of those the ones that somebody has read
};
/// The counters as they are now; they only grow.
HotStatistics hot_statistics();

}  // namespace tidu
