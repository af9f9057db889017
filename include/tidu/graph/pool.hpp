// pool.hpp - memory for small objects that are made and freed by the million: tensors of few elements, nodes
// of a tape. Every thread has free lists by size, so that allocating or freeing a block takes a few
// instructions. A list that runs empty or full exchanges a batch of blocks with a store that all threads
// share; so blocks that one thread allocates and another frees are reused. The store never returns memory to
// the system.
//
// The library alone decides whether blocks are pooled. Built with a sanitizer, it takes each block from
// operator new: the free lists below then stay empty and have no capacity.
#pragma once

#include <cstddef>
#include <new>

namespace tidu::detail {

/// Larger blocks come from operator new.
inline constexpr std::size_t pool_largest = 512;
inline constexpr std::size_t pool_unit = 16;

struct PoolBlock {
  PoolBlock* next;
};
/// Free blocks of one size, and how many more may be added. Empty and without capacity on a thread that has
/// not used the pool or has ended its use.
struct PoolList {
  PoolBlock* head;
  std::size_t room;
};
struct PoolLists {
  PoolList by_size[pool_largest / pool_unit + 1];
};
extern constinit thread_local PoolLists pool_lists;

void* pool_allocate_slowly(std::size_t bytes);
void pool_deallocate_slowly(void* block, std::size_t bytes) noexcept;

/// Uninitialised memory, aligned to 16 bytes. Throws std::bad_alloc.
inline void* pool_allocate(std::size_t bytes) {
  if (bytes <= pool_largest) [[likely]] {
    PoolList& list = pool_lists.by_size[(bytes + pool_unit - 1) / pool_unit];
    if (PoolBlock* const block = list.head; block != nullptr) [[likely]] {
      list.head = block->next;
      ++list.room;
      return block;
    }
  }
  return pool_allocate_slowly(bytes);
}

/// Gives back a block of pool_allocate(bytes), on any thread, also while a thread or the process ends.
inline void pool_deallocate(void* block, std::size_t bytes) noexcept {
  if (bytes <= pool_largest) [[likely]] {
    PoolList& list = pool_lists.by_size[(bytes + pool_unit - 1) / pool_unit];
    if (list.room != 0) [[likely]] {
      --list.room;
      list.head = ::new (block) PoolBlock{list.head};
      return;
    }
  }
  pool_deallocate_slowly(block, bytes);
}

struct PoolStatistics {
  bool pooled = false;             ///< false: all blocks come from operator new, and the rest is 0
  std::size_t reserved_bytes = 0;  ///< taken from operator new for small blocks, never given back
  std::size_t blocks_in_use = 0;   ///< those in the lists of other threads that still run included
};
PoolStatistics pool_statistics();

}  // namespace tidu::detail
