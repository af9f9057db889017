// arena.hpp - Arena: memory for large temporaries and outputs. It keeps released blocks and gives them to
// later requests of about the same size, so that the system need not fault their pages in again. All programs
// that one executor compiles share an arena; any thread may use it.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "graph/fork_mutex.hpp"

namespace tidu::cpu_detail {

class Arena {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  /// Keeps at most `cached_bytes` of free blocks.
  explicit Arena(std::size_t cached_bytes) : limit_(cached_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// A block of at least `bytes`, aligned to 64; no block for 0. With `lasts`, the block is no larger than
  /// needed. Throws Error (out_of_memory).
  Block acquire(std::size_t bytes, bool lasts = false);
  void release(Block block) noexcept;
  /// Bytes that the arena takes for a block of `bytes`.
  static std::size_t taken(std::size_t bytes) noexcept;
  /// Returns all free blocks to the system.
  void clear() noexcept;
  /// The most bytes that were in use at once.
  std::size_t max_used() const;

 private:
  void use(std::size_t bytes);
  void keep(Block block);
  mutable tidu::detail::ForkMutex mutex_;  // not available in some children of fork(): then nothing is kept
  using Free = std::multimap<std::size_t, std::byte*>;
  Free free_;                           // by bytes
  std::vector<Free::node_type> nodes_;  // nodes of blocks in use: release() allocates nothing
  std::size_t cached_ = 0, used_ = 0, max_used_ = 0;
  const std::size_t limit_;
};

/// Acquires a block and releases it in the destructor.
class ArenaLease {
 public:
  ArenaLease(Arena& arena, std::size_t bytes) : arena_(arena), block_(arena.acquire(bytes)) {}
  ArenaLease(const ArenaLease&) = delete;
  ArenaLease& operator=(const ArenaLease&) = delete;
  ~ArenaLease() { arena_.release(block_); }
  std::byte* data() const { return block_.data; }

 private:
  Arena& arena_;
  Arena::Block block_;
};

}  // namespace tidu::cpu_detail
