// The pool of small blocks: alignment, blocks that do not overlap, reuse, and use while threads and statics
// end.
#include "tidu/graph/pool.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

using tidu::detail::pool_allocate;
using tidu::detail::pool_deallocate;
using tidu::detail::pool_statistics;

struct Block {
  unsigned char* at;
  std::size_t bytes;
  unsigned char mark;
};

bool is_whole(const Block& block) {
  for (std::size_t i = 0; i < block.bytes; ++i) {
    if (block.at[i] != block.mark) return false;
  }
  return true;
}

// Freed when the program ends, after the main thread's lists have gone.
struct FreedLate {
  std::vector<void*> blocks;
  ~FreedLate() {
    for (void* block : blocks) pool_deallocate(block, 48);
    for (int i = 0; i < 200; ++i) pool_deallocate(pool_allocate(48), 48);
  }
};
FreedLate freed_late;  // NOLINT(cert-err58-cpp)

}  // namespace

TEST_CASE("blocks of the pool are aligned to 16 bytes and keep their content") {
  std::mt19937 random(1);
  std::vector<Block> live;
  int broken = 0, misaligned = 0;
  for (int round = 0; round < 40000; ++round) {
    // Phases of growing and of shrinking, so that batches go to the store and come back.
    const bool grow = (round / 4000) % 2 == 0 ? random() % 4 != 0 : random() % 4 == 0;
    if (grow || live.empty()) {
      const std::size_t bytes = random() % 600;
      const Block block{static_cast<unsigned char*>(pool_allocate(bytes)), bytes,
                        static_cast<unsigned char>(random())};
      if (reinterpret_cast<std::uintptr_t>(block.at) % 16 != 0) ++misaligned;
      std::memset(block.at, block.mark, bytes);
      live.push_back(block);
    } else {
      std::swap(live[random() % live.size()], live.back());
      if (!is_whole(live.back())) ++broken;
      pool_deallocate(live.back().at, live.back().bytes);
      live.pop_back();
    }
  }
  for (const Block& block : live) {
    if (!is_whole(block)) ++broken;
    pool_deallocate(block.at, block.bytes);
  }
  CHECK(broken == 0);
  CHECK(misaligned == 0);
}

TEST_CASE("a block that was given back is the next one of its size") {
  if (!pool_statistics().pooled) return;
  void* const first = pool_allocate(100);
  pool_deallocate(first, 100);
  void* const second = pool_allocate(97);  // 97 and 100 bytes are one size
  CHECK(second == first);
  pool_deallocate(second, 97);
}

TEST_CASE("taking and giving back any number of times reserves no more") {
  const std::size_t in_use = pool_statistics().blocks_in_use;
  std::vector<void*> blocks(10000);
  std::size_t reserved = 0;
  for (int round = 0; round < 20; ++round) {
    for (void*& block : blocks) block = pool_allocate(64);
    if (pool_statistics().pooled) CHECK(pool_statistics().blocks_in_use == in_use + blocks.size());
    for (void* block : blocks) pool_deallocate(block, 64);
    if (round == 0) reserved = pool_statistics().reserved_bytes;
  }
  CHECK(pool_statistics().reserved_bytes == reserved);
  CHECK(pool_statistics().blocks_in_use == in_use);
}

TEST_CASE("the blocks of a thread go to all when it has ended") {
  const auto use = [] {
    std::vector<void*> blocks(3000);
    for (void*& block : blocks) block = pool_allocate(400);
    for (void* block : blocks) pool_deallocate(block, 400);
  };
  const std::size_t in_use = pool_statistics().blocks_in_use;
  std::thread(use).join();
  const std::size_t reserved = pool_statistics().reserved_bytes;
  for (int i = 0; i < 50; ++i) std::thread(use).join();
  CHECK(pool_statistics().reserved_bytes == reserved);
  CHECK(pool_statistics().blocks_in_use == in_use);
}

TEST_CASE("blocks are given back while a thread's own things end, and while statics do") {
  struct InThread {
    std::vector<void*> blocks;
    ~InThread() {
      for (void* block : blocks) pool_deallocate(block, 32);
      for (int i = 0; i < 300; ++i) blocks[static_cast<std::size_t>(i)] = pool_allocate(32);
      for (int i = 0; i < 300; ++i) pool_deallocate(blocks[static_cast<std::size_t>(i)], 32);
    }
  };
  const std::size_t in_use = pool_statistics().blocks_in_use;
  std::thread([] {
    static thread_local InThread made;  // before the thread's first use of the pool: it ends after the lists
    made.blocks.resize(300);
    for (void*& block : made.blocks) block = pool_allocate(32);
  }).join();
  CHECK(pool_statistics().blocks_in_use == in_use);
  for (int i = 0; i < 500; ++i) freed_late.blocks.push_back(pool_allocate(48));
}

#if defined(__unix__)
TEST_CASE("a child process goes on with the pool") {
  void* const before = pool_allocate(80);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    pool_deallocate(before, 80);
    std::vector<void*> blocks(2000);
    for (void*& block : blocks) block = pool_allocate(80);
    for (void* block : blocks) pool_deallocate(block, 80);
    _exit(7);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  pool_deallocate(before, 80);
}
#endif
