// pool.cpp - the store with which the free lists of threads exchange batches. A thread holds at most two
// batches of a size: its free list, and a full one in reserve, so that a thread that allocates and frees at a
// batch's edge does not come here every time. Slabs are cut into batches and never freed.
#include "tidu/graph/pool.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "graph/fork_locks.hpp"
#include "graph/plain_memory.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tidu::detail {

constinit thread_local PoolLists pool_lists{};

#ifdef TIDU_PLAIN_MEMORY

void* pool_allocate_slowly(std::size_t bytes) { return ::operator new(bytes); }
void pool_deallocate_slowly(void* block, std::size_t) noexcept { ::operator delete(block); }
PoolStatistics pool_statistics() { return {}; }

#else

namespace {

constexpr std::size_t num_sizes = pool_largest / pool_unit + 1;
constexpr std::size_t slab_alignment = 64;
constexpr std::size_t small_slab = std::size_t{64} << 10;
constexpr std::size_t large_slab = std::size_t{2} << 20;  // a huge page
constexpr std::size_t small_slabs = 16;                   // before the first large one

// List 0 is that of requests for no bytes.
constexpr std::size_t size_of_list(std::size_t list) { return list == 0 ? pool_unit : list * pool_unit; }
// Blocks in a batch: about 8 KiB, a multiple of 64 bytes.
constexpr std::size_t batch_of(std::size_t list) {
  return std::min<std::size_t>(64, (std::size_t{8192} / size_of_list(list) + 3) / 4 * 4);
}

// The first block of a full batch in the store.
struct Batch {
  PoolBlock* next_block;
  Batch* next_batch;
};
static_assert(sizeof(Batch) <= pool_unit);

struct Chain {
  PoolBlock* head = nullptr;
  std::size_t count = 0;
};

struct Slab {
  Slab* next;
};

class Store {
 public:
  // At most a batch, at least one block. Throws std::bad_alloc.
  Chain take(std::size_t list) {
    const std::lock_guard lock(mutex);
    Size& size = sizes_[list];
    if (Batch* const batch = size.full; batch != nullptr) {
      size.full = batch->next_batch;
      size.num_free -= batch_of(list);
      return {reinterpret_cast<PoolBlock*>(batch), batch_of(list)};
    }
    if (size.loose != nullptr) return take_loose(list);
    return cut(list);
  }
  void give_batch(std::size_t list, PoolBlock* head) noexcept {
    const std::lock_guard lock(mutex);
    Size& size = sizes_[list];
    size.full = ::new (static_cast<void*>(head)) Batch{head->next, size.full};
    size.num_free += batch_of(list);
  }
  // Any number of blocks.
  void give(std::size_t list, PoolBlock* head) noexcept {
    const std::lock_guard lock(mutex);
    Size& size = sizes_[list];
    while (head != nullptr) {
      PoolBlock* const next = head->next;
      head->next = size.loose;
      size.loose = head;
      ++size.num_free;
      head = next;
    }
  }
  PoolStatistics statistics() {
    const std::lock_guard lock(mutex);
    PoolStatistics result{true, reserved_, 0};
    for (const Size& size : sizes_) result.blocks_in_use += size.num_cut - size.num_free;
    return result;
  }

  std::mutex mutex;

 private:
  struct Size {
    Batch* full = nullptr;
    PoolBlock* loose = nullptr;
    std::size_t num_cut = 0;
    std::size_t num_free = 0;
  };
  Chain take_loose(std::size_t list) {
    Size& size = sizes_[list];
    Chain chain{size.loose, 1};
    PoolBlock* last = chain.head;
    for (; chain.count < batch_of(list) && last->next != nullptr; ++chain.count) last = last->next;
    size.loose = last->next;
    last->next = nullptr;
    size.num_free -= chain.count;
    return chain;
  }
  // As many blocks as the slab still has, up to a batch.
  Chain cut(std::size_t list) {
    const std::size_t bytes = size_of_list(list);
    if (static_cast<std::size_t>(end_ - at_) < bytes) add_slab();
    const std::size_t count = std::min(batch_of(list), static_cast<std::size_t>(end_ - at_) / bytes);
    PoolBlock* head = nullptr;
    for (std::size_t i = count; i-- > 0;) head = ::new (static_cast<void*>(at_ + i * bytes)) PoolBlock{head};
    at_ += count * bytes;
    sizes_[list].num_cut += count;
    return {head, count};
  }
  void add_slab() {
    const bool is_large = reserved_ >= small_slabs * small_slab;
    const std::size_t bytes = is_large ? large_slab : small_slab;
    const std::size_t alignment = is_large ? large_slab : slab_alignment;
    auto* const slab = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(alignment)));
#ifdef __linux__
    if (is_large) madvise(slab, bytes, MADV_HUGEPAGE);  // advice: a refusal costs speed alone
#endif
    slabs_ = ::new (static_cast<void*>(slab)) Slab{slabs_};
    at_ = slab + slab_alignment;
    end_ = slab + bytes;
    reserved_ += bytes;
  }

  Size sizes_[num_sizes];
  Slab* slabs_ = nullptr;  // all of them, so that kept memory stays reachable
  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  std::size_t reserved_ = 0;
};

// Never destroyed: statics give blocks back until the process has ended.
union Everlasting {
  constexpr Everlasting() : store() {}
  ~Everlasting() {}  // NOLINT(modernize-use-equals-default): that would be deleted
  Store store;
};
constinit Everlasting everlasting;
Store& store() { return everlasting.store; }

[[maybe_unused]] const bool held_across_fork = [] {
  ForkLocks::add(ForkRank::pool, store().mutex);
  return true;
}();

enum class Use : std::uint8_t { before, during, after };
// Beside the lists: the batches in reserve, and whether the thread keeps blocks at all.
struct Reserve {
  PoolBlock* full[num_sizes];
  Use use;
};
constinit thread_local Reserve reserve{};

// Gives all that the thread keeps to the store when the thread ends.
struct ThreadEnd {
  ~ThreadEnd() {
    reserve.use = Use::after;
    for (std::size_t i = 0; i < num_sizes; ++i) {
      PoolList& list = pool_lists.by_size[i];
      if (reserve.full[i] != nullptr) store().give_batch(i, reserve.full[i]);
      if (list.head != nullptr) store().give(i, list.head);
      reserve.full[i] = nullptr;
      list = {nullptr, 0};
    }
  }
};

// May this thread keep blocks?
bool keeps_blocks() noexcept {
  if (reserve.use == Use::before) {
    static thread_local ThreadEnd at_end;
    static_cast<void>(&at_end);
    for (std::size_t i = 0; i < num_sizes; ++i) pool_lists.by_size[i].room = batch_of(i);
    reserve.use = Use::during;
  }
  return reserve.use == Use::during;
}

}  // namespace

void* pool_allocate_slowly(std::size_t bytes) {
  if (bytes > pool_largest) return ::operator new(bytes);
  const std::size_t index = (bytes + pool_unit - 1) / pool_unit;
  if (!keeps_blocks()) {
    const Chain chain = store().take(index);
    if (chain.head->next != nullptr) store().give(index, chain.head->next);
    return chain.head;
  }
  PoolList& list = pool_lists.by_size[index];
  Chain chain{reserve.full[index], batch_of(index)};
  if (chain.head != nullptr) {
    reserve.full[index] = nullptr;
  } else {
    chain = store().take(index);
  }
  list = {chain.head->next, batch_of(index) - chain.count + 1};
  return chain.head;
}

void pool_deallocate_slowly(void* block, std::size_t bytes) noexcept {
  if (bytes > pool_largest) return ::operator delete(block);
  const std::size_t index = (bytes + pool_unit - 1) / pool_unit;
  if (!keeps_blocks()) return store().give(index, ::new (block) PoolBlock{nullptr});
  PoolList& list = pool_lists.by_size[index];
  if (list.room == 0) {
    if (reserve.full[index] != nullptr) store().give_batch(index, reserve.full[index]);
    reserve.full[index] = list.head;
    list = {nullptr, batch_of(index)};
  }
  --list.room;
  list.head = ::new (block) PoolBlock{list.head};
}

PoolStatistics pool_statistics() {
  PoolStatistics result = store().statistics();
  if (reserve.use == Use::during) {
    for (std::size_t i = 0; i < num_sizes; ++i) {
      result.blocks_in_use -= batch_of(i) - pool_lists.by_size[i].room;
      if (reserve.full[i] != nullptr) result.blocks_in_use -= batch_of(i);
    }
  }
  return result;
}

#endif

}  // namespace tidu::detail
