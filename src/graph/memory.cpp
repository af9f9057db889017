// memory.cpp - the store of recycled blocks. Blocks are rounded up to a power of two, so that a block fits
// any request of its class; sanitizers get plain allocations, or they would not see a use after free.
#include "tidu/graph/memory.hpp"

#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "graph/fork_locks.hpp"
#include "graph/plain_memory.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tidu {
namespace {

struct Store {
  std::mutex mutex;
  std::array<std::vector<void*>, 256> free_blocks;  // by class
  std::size_t kept = 0;
  std::size_t limit = std::size_t{1} << 30;
};

Store& store() {
  static Store& store = *[] {
    auto* made = new Store;  // outlives every static that frees a graph
    detail::ForkLocks::add(detail::ForkRank::memory, made->mutex);
    return made;
  }();
  return store;
}

#ifndef TIDU_PLAIN_MEMORY
constexpr std::size_t huge_page = std::size_t{2} << 20;

// Sizes (4 + q) 2^e for q = 0..3: class 4 e + q.
struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};
SizeClass class_of(std::size_t bytes) {
  const auto exponent = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 3;
  const std::size_t quarters = (bytes - 1) >> exponent;  // 4..7
  const std::size_t next = quarters + 1;                 // 5..8
  return {4 * exponent + next, next << exponent};
}

#endif

}  // namespace

void* detail::allocate_recycled(std::size_t bytes) {
#ifdef TIDU_PLAIN_MEMORY
  return ::operator new(bytes);
#else
  if (bytes > std::size_t{1} << 62) throw std::bad_alloc();
  const SizeClass size_class = class_of(bytes);
  {
    Store& blocks = store();
    const std::lock_guard lock(blocks.mutex);
    auto& list = blocks.free_blocks[size_class.index];
    if (!list.empty()) {
      void* block = list.back();
      list.pop_back();
      blocks.kept -= size_class.bytes;
      return block;
    }
  }
  const std::size_t alignment = size_class.bytes >= huge_page ? huge_page : 4096;
  const std::size_t size = (size_class.bytes + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, size);
  if (block == nullptr) throw std::bad_alloc();
#ifdef __linux__
  if (size >= huge_page) madvise(block, size, MADV_HUGEPAGE);  // advice: a refusal costs speed alone
#endif
  return block;
#endif
}

void detail::deallocate_recycled(void* block, std::size_t bytes) noexcept {
#ifdef TIDU_PLAIN_MEMORY
  static_cast<void>(bytes);
  ::operator delete(block);
#else
  const SizeClass size_class = class_of(bytes);
  {
    Store& blocks = store();
    const std::lock_guard lock(blocks.mutex);
    if (blocks.kept + size_class.bytes <= blocks.limit) {
      try {
        blocks.free_blocks[size_class.index].push_back(block);
        blocks.kept += size_class.bytes;
        return;
      } catch (const std::bad_alloc&) {  // no memory for the entry: free the block
      }
    }
  }
  std::free(block);
#endif
}

std::size_t release_recycled_memory() {
  Store& blocks = store();
  const std::lock_guard lock(blocks.mutex);
  for (auto& list : blocks.free_blocks) {
    for (void* block : list) std::free(block);
    list.clear();
  }
  return std::exchange(blocks.kept, 0);
}

std::size_t set_recycled_memory_limit(std::size_t bytes) {
  const std::size_t before = [bytes] {
    Store& blocks = store();
    const std::lock_guard lock(blocks.mutex);
    return std::exchange(blocks.limit, bytes);
  }();
  if (bytes < before) release_recycled_memory();
  return before;
}

}  // namespace tidu
