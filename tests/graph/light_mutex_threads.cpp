// light_mutex_threads.cpp - LightMutex excludes threads mutually, before there are any and while there are
// many.
#include "graph/light_mutex.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace tidu::detail {
namespace {

TEST_CASE("[G5] a light mutex is held by one thread at a time, and no thread waits for ever") {
  LightMutex mutex, other;
  std::uint64_t count = 0, sum = 0;  // guarded by both
  const auto work = [&](bool both) {
    for (int i = 0; i < 20'000; ++i) {
      if (both) {
        const std::scoped_lock lock(mutex, other);
        ++count;
        sum += count;
      } else {
        const std::lock_guard lock(mutex);
        ++count;
        const std::lock_guard inner(other);
        sum += count;
      }
    }
  };
  std::unique_lock held(mutex);
  CHECK_FALSE(mutex.try_lock());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t % 2 == 0);
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // so that they wait
  CHECK(count == 0);
  held.unlock();
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 80'000);
  CHECK(sum == count * (count + 1) / 2);
  CHECK(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace tidu::detail
