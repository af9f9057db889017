// hot_paths.hpp - hot paths: a trace cache for eager programs. A program that repeats a sequence of
// operations, forward, backward or both, runs the sequence as compiled programs after a few repetitions, with
// the same results.
//
// While a sequence is replayed, its operations return lazy tensors (see lazy.hpp). They are evaluated
// together when one of them is read, when a tensor that they read is written to, or when the sequence has
// ended. A deviation (another operation, shape or dtype, an early read, an exception) loses the gain but is
// correct: pending operations are evaluated, and run once. A set of operations that is evaluated together
// less than three times is not compiled but run operation by operation.
#pragma once

#include <cstdint>

namespace tidu {

/// Notices and runs hot sequences on this thread. Scopes nest. Off unless one lives.
class HotPaths {
 public:
  /// Enabled until it is destroyed; `enabled` false disables them inside another scope.
  explicit HotPaths(bool enabled = true);
  ~HotPaths();
  HotPaths(const HotPaths&) = delete;
  HotPaths& operator=(const HotPaths&) = delete;

 private:
  bool before_;
};

/// Counters of this thread's trace cache.
struct HotStatistics {
  std::uint64_t sequences = 0;   ///< noticed
  std::uint64_t expected = 0;    ///< operations that matched a trace and returned lazy tensors
  std::uint64_t deviations = 0;  ///< sequences that another operation ended
  std::uint64_t compiled = 0;  ///< operations among the expected ones that ran as part of a compiled program
  std::uint64_t known = 0;  ///< operations among the expected ones that matched by position, without a lookup
  std::uint64_t backwards = 0;   ///< backward calls that were replayed from an earlier one
  std::uint64_t deferred = 0;    ///< results, of 64 KiB or more, that are computed only if they are read
  std::uint64_t recomputed = 0;  ///< the number of these that were read
};
/// The counters as they are now; they only grow.
HotStatistics hot_statistics();

}  // namespace tidu
