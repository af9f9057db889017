// The pool between threads: one takes blocks and another gives them back, without bound and without growth.
#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "support/support.hpp"
#include "tidu/graph/pool.hpp"

namespace {

using tidu::detail::pool_allocate;
using tidu::detail::pool_deallocate;
using tidu::detail::pool_statistics;

// Bundles of blocks on their way from one thread to another, at most `most` of them.
class Pipe {
 public:
  explicit Pipe(std::size_t most) : most_(most) {}
  void put(std::vector<void*> bundle) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return bundles_.size() < most_; });
    bundles_.push_back(std::move(bundle));
    changed_.notify_all();
  }
  std::vector<void*> get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !bundles_.empty(); });
    std::vector<void*> bundle = std::move(bundles_.front());
    bundles_.pop_front();
    changed_.notify_all();
    return bundle;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<void*>> bundles_;
  std::size_t most_;
};

constexpr std::size_t block_bytes = 256;
constexpr std::size_t bundle_size = 100;

// Returns the number of blocks whose content was changed.
std::size_t pass_bundles(std::size_t count) {
  Pipe pipe(8);
  std::size_t broken = 0;
  std::thread producer([&] {
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<void*> bundle(bundle_size);
      for (void*& block : bundle) {
        block = pool_allocate(block_bytes);
        std::memcpy(block, &i, sizeof(i));
      }
      pipe.put(std::move(bundle));
    }
  });
  std::thread consumer([&] {
    for (std::size_t i = 0; i < count; ++i) {
      for (void* block : pipe.get()) {
        broken += std::memcmp(block, &i, sizeof(i)) == 0 ? 0 : 1;
        pool_deallocate(block, block_bytes);
      }
    }
  });
  producer.join();
  consumer.join();
  return broken;
}

}  // namespace

TEST_CASE("a thread that only takes and one that only gives back do not make the pool grow") {
  const std::size_t in_use = pool_statistics().blocks_in_use;
  CHECK(pass_bundles(50) == 0);
  const std::size_t reserved = pool_statistics().reserved_bytes;
  const std::size_t rounds = tidu::test::scaled(3000);  // 300,000 blocks, 77 MB
  CHECK(pass_bundles(rounds) == 0);
  // On their way are at most ten bundles, and each thread keeps at most two batches.
  CHECK(pool_statistics().reserved_bytes <= reserved + 14 * bundle_size * block_bytes);
  CHECK(pool_statistics().blocks_in_use == in_use);
}

TEST_CASE("threads that take and give back each other's blocks at once") {
  const std::size_t in_use = pool_statistics().blocks_in_use;
  constexpr std::size_t places = 512;
  std::vector<std::atomic<void*>> shared(places);
  std::atomic<int> broken = 0;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::size_t at = thread;
      for (std::size_t i = 0; i < tidu::test::scaled(100000); ++i) {
        at = (at * 5 + 2 * thread + 1) % places;
        const std::size_t bytes = 32 + 16 * (at % 8);
        auto* const made = static_cast<std::size_t*>(pool_allocate(bytes));
        made[0] = at;
        made[bytes / sizeof(std::size_t) - 1] = ~at;
        auto* const other = static_cast<std::size_t*>(shared[at].exchange(made));
        if (other == nullptr) continue;
        if (other[0] != at || other[bytes / sizeof(std::size_t) - 1] != ~at) ++broken;
        pool_deallocate(other, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t at = 0; at < places; ++at) {
    if (void* block = shared[at].exchange(nullptr)) pool_deallocate(block, 32 + 16 * (at % 8));
  }
  CHECK(broken == 0);
  CHECK(pool_statistics().blocks_in_use == in_use);
}
