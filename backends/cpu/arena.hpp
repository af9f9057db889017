// arena.hpp - memory for large temporaries and outputs: blocks that are handed back are kept for the next one
// who needs as much, so that their pages are not faulted in anew. Shared by all that one executor compiles;
// any thread may use it.
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

  /// Keeps blocks of at most `cached_bytes` in all.
  explicit Arena(std::size_t cached_bytes) : limit_(cached_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// At least that many bytes, aligned to 64; no block for 0. One that `lasts` is no larger than need be.
  /// Throws Error (out_of_memory).
  Block acquire(std::size_t bytes, bool lasts = false);
  void release(Block block) noexcept;
  /// Bytes of memory that a block of so many takes.
  static std::size_t taken(std::size_t bytes) noexcept;
  /// Gives back to the system what nobody uses.
  void clear() noexcept;
  /// The most bytes that were handed out at once.
  std::size_t max_used() const;

 private:
  void use(std::size_t bytes);
  void keep(Block block);
  mutable tidu::detail::ForkMutex mutex_;  // where it cannot be had, nothing is kept
  using Free = std::multimap<std::size_t, std::byte*>;
  Free free_;                           // by bytes
  std::vector<Free::node_type> nodes_;  // of blocks that were handed out: coming back allocates nothing
  std::size_t cached_ = 0, used_ = 0, max_used_ = 0;
  const std::size_t limit_;
};

/// A block that goes back by itself.
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
