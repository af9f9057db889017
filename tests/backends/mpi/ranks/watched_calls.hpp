// watched_calls.hpp - calls of MPI in this test program.
#pragma once

#include <atomic>

namespace tidu::test {

struct WatchedCalls {
  std::atomic<int> duplicated{0}, freed{0};  ///< communicators
  std::atomic<int> inside{0};                ///< threads that are in a call just now
  std::atomic<int> max_inside{0};            ///< at once, since it was set to 0
};
WatchedCalls& watched_calls();

}  // namespace tidu::test
