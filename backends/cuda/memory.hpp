// memory.hpp - device memory that is kept for reuse, in the order of streams; and pinned memory of the host.
//
// Note [Reuse in the order of streams]: a block that is given back may still be read or written by work that
// was put on streams before. It goes at once to whoever wants memory on the same stream, whose work comes
// behind that work anyway; to another stream only when the work is done, or, when there is no other memory,
// after that stream was told to wait for it. The host waits for nothing. A stream that is not the runtime's
// may be destroyed when nothing is left that was made on it: of such ones an event is kept with the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// Events that are used again and again.
class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool();
  Event acquire(bool timed = false);
  void release(Event event, bool timed = false) noexcept;
  /// What is put on `waiting` from now on runs after what was put on `stream` so far.
  void join(Stream waiting, Stream stream);

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<Event> idle_[2];  // without and with times
};

/// What a pool has and had, in bytes.
struct PoolStatistics {
  std::size_t in_use = 0;         ///< of blocks that are somebody's
  std::size_t held = 0;           ///< of the device's memory, blocks that wait for reuse included
  std::size_t peak = 0;           ///< most that were in use
  std::size_t limit = 0;          ///< of `held`
  std::uint64_t allocations = 0;  ///< asked of the device
  std::uint64_t reuses = 0;       ///< blocks that were handed out again
};

/// Device memory. Any thread may call anything.
class Pool {
 public:
  Pool(Device& device, EventPool& events, std::size_t limit)
      : device_(device), events_(events), statistics_{0, 0, 0, limit, 0, 0} {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  /// At least so many bytes, aligned to 256, for work on `stream`. Nothing of the device for no bytes. Throws
  /// Error (out_of_memory) that says how much was wanted, is in use, is held and is allowed; everything is
  /// usable then.
  Memory acquire(std::size_t bytes, Stream stream);
  /// Gives back what acquire() gave; `uses` are the streams on which it was used, `passed` events behind
  /// other uses, which are the pool's from then on.
  void release(Memory memory, std::span<const Stream> uses, std::span<const Event> passed = {}) noexcept;
  /// Gives what waits for reuse back to the device, and returns its bytes. May wait for the device.
  std::size_t trim() noexcept;
  /// That stream is somebody else's.
  void note_foreign(Stream stream);
  PoolStatistics statistics() const;
  /// From now on; what is held already stays.
  void set_limit(std::size_t limit);

 private:
  struct Use {
    Stream stream;  // none where only the point is known
    Event passed;   // of a foreign stream: the point behind the use
  };
  struct Block {
    std::byte* at = nullptr;
    std::vector<Use> uses;
  };
  struct Segment {  // what small blocks are cut from, at the front of it
    std::size_t bytes = 0;
    std::size_t cut = 0;   // of all blocks so far
    std::size_t idle = 0;  // of those that wait for reuse, when trimmed
  };
  using Free = std::map<std::size_t, std::vector<Block>>;  // by size; the last given back goes first

  bool take(std::size_t bytes, Stream stream, bool waiting, Block& block, std::size_t& size);
  bool take_from(std::vector<Block>& blocks, Stream stream, bool waiting, Block& block);
  std::byte* grow(std::size_t bytes, bool trimming);
  bool cut(std::size_t bytes, bool trimming, Block& block);
  std::size_t trim_locked() noexcept;
  std::size_t trim_segments() noexcept;
  Segment& segment_of(const Block& block) noexcept {
    return std::prev(segments_.upper_bound(block.at))->second;
  }
  bool wait_for(const Use& use, Stream stream, bool waiting);
  void forget(const Block& block) noexcept;
  [[noreturn]] void refuse(std::size_t bytes) const;

  Device& device_;
  EventPool& events_;
  mutable std::mutex mutex_;
  Free free_;
  std::vector<Stream> foreign_;
  std::map<std::byte*, Segment> segments_;  // by first byte
  std::byte* last_segment_ = nullptr;       // which blocks are cut from; null: none
  PoolStatistics statistics_;
};

/// Pinned memory of the host.
class PinnedPool {
 public:
  PinnedPool(Device& device, EventPool& events) : device_(device), events_(events) {}
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();
  /// Throws Error (out_of_memory).
  Memory acquire(std::size_t bytes);
  /// So many bytes, or fewer where there are not as many, but 64 KiB at least. Throws Error (out_of_memory).
  Memory acquire_part(std::size_t bytes);
  /// Nobody reads or writes it any more.
  void release(Memory memory) noexcept;
  /// Work that was put on `stream` reads it.
  void release_after(Memory memory, Stream stream);
  /// It is free behind the event, which is the pool's from now on.
  void release_after(Memory memory, Event event) noexcept;
  /// Something failed: work that was put on `stream` perhaps reads or writes it, and is waited for. Where
  /// that fails too, nobody uses the memory again, and it is given back with the pool.
  void give_up(Memory memory, Stream stream) noexcept;

 private:
  struct Pending {
    Memory memory;
    Event event;
  };
  static constexpr std::size_t max_kept = std::size_t{256} << 20;
  void collect();
  void keep(Memory memory) noexcept;

  Device& device_;
  EventPool& events_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::size_t kept_ = 0;
  std::vector<Pending> pending_;
  std::vector<Memory> lost_;  // that the device may still use, for all that is known
};

}  // namespace tidu::cuda_detail
