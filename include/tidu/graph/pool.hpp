// pool.hpp - memory for small objects that are made and dropped by the million: tensors of few elements,
// nodes of a tape. Every thread has lists of free blocks by size, so that taking or giving a block is a few
// instructions; lists that run empty or full exchange whole batches with a store that all threads share, so
// that blocks that one thread takes and another gives back go round. The store keeps what it has.
//
// Whether blocks are pooled is the library's decision alone (built with a sanitizer, it takes each block from
// operator new): the lists of the code below then stay empty and without room.
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
/// Free blocks of one size, and how many more may be put there. Empty and without room on a thread that has
/// not used the pool, or has ended its use.
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
