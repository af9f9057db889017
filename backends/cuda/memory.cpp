// memory.cpp - sizes of blocks, and which free one goes to whom.
#include "cuda/memory.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

constexpr std::size_t min_block = 512;
constexpr std::size_t small_most = std::size_t{1} << 20;  // larger blocks are the device's own
constexpr std::size_t segment_bytes = std::size_t{2} << 20;
constexpr std::size_t large_unit = std::size_t{2} << 20;
constexpr std::size_t stepped_most = std::size_t{32} << 20;

// Four sizes between powers of two, so that what differs little is the same block; beyond 32 MiB multiples of
// 2 MiB.
std::size_t block_bytes(std::size_t bytes) {
  if (bytes <= min_block) return min_block;
  if (bytes > stepped_most) return (bytes + large_unit - 1) / large_unit * large_unit;
  const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes - 1) / 4, 256);
  return (bytes + step - 1) / step * step;
}

}  // namespace

EventPool::~EventPool() {
  for (const std::vector<Event>& events : idle_)
    for (const Event event : events) device_.destroy_event(event);
}

Event EventPool::acquire(bool timed) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<Event>& idle = idle_[timed ? 1 : 0];
    if (!idle.empty()) {
      const Event event = idle.back();
      idle.pop_back();
      return event;
    }
  }
  return device_.create_event(timed);
}

void EventPool::release(Event event, bool timed) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    idle_[timed ? 1 : 0].push_back(event);
  } catch (...) {
    device_.destroy_event(event);
  }
}

void EventPool::join(Stream waiting, Stream stream) {
  if (waiting == stream) return;
  const Event event = acquire();
  try {
    device_.record(event, stream);
    device_.wait(waiting, event);
  } catch (...) {
    release(event);
    throw;
  }
  release(event);  // a wait holds on to the point, not to the event
}

Pool::~Pool() {
  trim_locked();
  for (const auto& [bytes, blocks] : free_)
    for (const Block& block : blocks) forget(block);
  for (const auto& [at, segment] : segments_) device_.deallocate(at, segment.bytes);
}

Memory Pool::acquire(std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  if (bytes > (std::size_t{1} << 62)) refuse(bytes);
  const std::size_t wanted = block_bytes(bytes);
  const std::lock_guard lock(mutex_);
  Block block;
  std::size_t size = wanted;
  // What waits for reuse is given back to the device only when there is no other way: the device may wait for
  // that.
  const auto fresh = [&](bool trimming) {
    if (wanted <= small_most) return cut(wanted, trimming, block);
    return (block.at = grow(wanted, trimming)) != nullptr;
  };
  if (take(wanted, stream, false, block, size)) {
    ++statistics_.reuses;
  } else if (!fresh(false)) {
    if (take(wanted, stream, true, block, size)) {
      ++statistics_.reuses;
    } else if (!fresh(true)) {
      refuse(bytes);
    }
  }
  statistics_.in_use += size;
  statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
  return {block.at, size};
}

// A free block of that size, of large ones also one that is a little larger. Without `waiting` only one that
// is free now.
bool Pool::take(std::size_t bytes, Stream stream, bool waiting, Block& block, std::size_t& size) {
  const std::size_t most = bytes > small_most ? bytes + bytes / 8 : bytes;
  for (auto at = free_.lower_bound(bytes); at != free_.end() && at->first <= most; ++at) {
    if (!take_from(at->second, stream, waiting, block)) continue;
    size = at->first;
    if (at->second.empty()) free_.erase(at);
    return true;
  }
  return false;
}

// See Note [Reuse in the order of streams].
bool Pool::take_from(std::vector<Block>& blocks, Stream stream, bool waiting, Block& block) {
  const auto is_ours = [stream](const Block& b) {
    return std::all_of(b.uses.begin(), b.uses.end(),
                       [stream](const Use& use) { return use.stream == stream; });
  };
  auto found = std::find_if(blocks.rbegin(), blocks.rend(), is_ours);
  if (found == blocks.rend() && !blocks.empty()) {
    const Block& oldest = blocks.front();
    bool is_free = true;
    for (const Use& use : oldest.uses) {
      if (use.stream == stream) continue;
      is_free = wait_for(use, stream, waiting) && is_free;
      if (!is_free && !waiting) break;
    }
    if (is_free || waiting) found = std::prev(blocks.rend());
  }
  if (found == blocks.rend()) return false;
  // A foreign stream may be another one by now, made where one was that has ended with work still to do.
  for (const Use& use : found->uses)
    if (use.stream == stream && use.passed.handle != nullptr) device_.wait(stream, use.passed);
  block = std::move(*found);
  blocks.erase(std::next(found).base());
  forget(block);
  return true;
}

// Is the use over? If not, the stream may be told to wait for it.
bool Pool::wait_for(const Use& use, Stream stream, bool waiting) {
  const bool is_foreign = use.passed.handle != nullptr;
  const Event event = is_foreign ? use.passed : events_.acquire();
  bool is_over = false;
  try {
    if (!is_foreign) device_.record(event, use.stream);
    is_over = device_.is_done(event);
    if (!is_over && waiting) device_.wait(stream, event);
  } catch (...) {
    if (!is_foreign) events_.release(event);
    throw;
  }
  if (!is_foreign) events_.release(event);
  return is_over;
}

void Pool::forget(const Block& block) noexcept {
  for (const Use& use : block.uses)
    if (use.passed.handle != nullptr) events_.release(use.passed);
}

void Pool::note_foreign(Stream stream) {
  const std::lock_guard lock(mutex_);
  if (std::find(foreign_.begin(), foreign_.end(), stream) == foreign_.end()) foreign_.push_back(stream);
}

// From the device, within the limit.
std::byte* Pool::grow(std::size_t bytes, bool trimming) {
  const auto fits = [&] { return statistics_.held + bytes <= statistics_.limit; };
  std::byte* at = fits() ? device_.allocate(bytes) : nullptr;
  if (at == nullptr && trimming && trim_locked() != 0 && fits()) at = device_.allocate(bytes);
  if (at == nullptr) return nullptr;
  statistics_.held += bytes;
  ++statistics_.allocations;
  return at;
}

bool Pool::cut(std::size_t bytes, bool trimming, Block& block) {
  const auto has_room = [&] {
    return last_segment_ != nullptr && segments_[last_segment_].cut + bytes <= segments_[last_segment_].bytes;
  };
  if (!has_room()) {
    std::size_t size = segment_bytes;
    std::byte* at = grow(size, trimming);
    if (at == nullptr) {  // perhaps there is room for this one alone
      size = bytes;
      at = grow(size, trimming);
    }
    if (at == nullptr) return false;
    try {
      segments_[at].bytes = size;
    } catch (...) {
      device_.deallocate(at, size);
      statistics_.held -= size;
      throw;
    }
    last_segment_ = at;
  }
  Segment& segment = segments_[last_segment_];
  block.at = last_segment_ + segment.cut;
  segment.cut += bytes;
  return true;
}

void Pool::release(Memory memory, std::span<const Stream> uses, std::span<const Event> passed) noexcept {
  if (memory.at == nullptr) {
    for (const Event event : passed) events_.release(event);
    return;
  }
  const std::lock_guard lock(mutex_);
  statistics_.in_use -= memory.bytes;
  Block block;
  block.at = memory.at;
  try {
    block.uses.reserve(uses.size() + passed.size());
    for (const Event event : passed) block.uses.push_back({{}, event});
    for (const Stream stream : uses) {
      block.uses.push_back({stream, {}});
      if (std::find(foreign_.begin(), foreign_.end(), stream) == foreign_.end()) continue;
      block.uses.back().passed = events_.acquire();
      device_.record(block.uses.back().passed, stream);
    }
    free_[memory.bytes].push_back(std::move(block));
  } catch (...) {  // nothing tells when it is free: large blocks go back to the device, small ones with their
                   // segment
    if (block.uses.empty())
      for (const Event event : passed) events_.release(event);
    forget(block);
    if (memory.bytes > small_most) {
      device_.deallocate(memory.at, memory.bytes);
      statistics_.held -= memory.bytes;
    }
  }
}

std::size_t Pool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  return trim_locked();
}

std::size_t Pool::trim_locked() noexcept {
  std::size_t bytes = 0;
  for (auto at = free_.upper_bound(small_most); at != free_.end(); at = free_.erase(at)) {
    for (const Block& block : at->second) {
      forget(block);
      device_.deallocate(block.at, at->first);
      bytes += at->first;
    }
  }
  bytes += trim_segments();
  statistics_.held -= bytes;
  return bytes;
}

// Segments all of whose blocks wait for reuse.
std::size_t Pool::trim_segments() noexcept {
  for (auto& [at, segment] : segments_) segment.idle = 0;
  for (const auto& [size, blocks] : free_)
    for (const Block& block : blocks) segment_of(block).idle += size;
  for (auto at = free_.begin(); at != free_.end();) {
    std::erase_if(at->second, [this](const Block& block) {
      const Segment& segment = segment_of(block);
      if (segment.idle != segment.cut) return false;
      forget(block);
      return true;
    });
    at = at->second.empty() ? free_.erase(at) : std::next(at);
  }
  std::size_t bytes = 0;
  for (auto at = segments_.begin(); at != segments_.end();) {
    if (at->second.idle != at->second.cut) {
      ++at;
      continue;
    }
    device_.deallocate(at->first, at->second.bytes);
    bytes += at->second.bytes;
    if (at->first == last_segment_) last_segment_ = nullptr;
    at = segments_.erase(at);
  }
  return bytes;
}

PoolStatistics Pool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void Pool::set_limit(std::size_t limit) {
  const std::lock_guard lock(mutex_);
  statistics_.limit = limit;
}

void Pool::refuse(std::size_t bytes) const {
  throw Error(ErrorKind::out_of_memory,
              detail::str("[cuda] expected ", bytes,
                          " bytes of device memory, got none: ", statistics_.in_use, " bytes are in use, ",
                          statistics_.held, " are held, and the limit is ", statistics_.limit));
}

PinnedPool::~PinnedPool() {
  for (const Pending& one : pending_) {
    events_.release(one.event);
    device_.deallocate_pinned(one.memory.at, one.memory.bytes);
  }
  for (const auto& [bytes, blocks] : free_)
    for (std::byte* const block : blocks) device_.deallocate_pinned(block, bytes);
  for (const Memory& memory : lost_) device_.deallocate_pinned(memory.at, memory.bytes);
}

// What is done, is free. Where the device cannot say, everything stays as it is.
void PinnedPool::collect() {
  for (std::size_t i = 0; i < pending_.size();) {
    if (!device_.is_done(pending_[i].event)) {
      ++i;
      continue;
    }
    const Pending done = pending_[i];
    pending_[i] = pending_.back();
    pending_.pop_back();
    events_.release(done.event);
    keep(done.memory);
  }
}

Memory PinnedPool::acquire(std::size_t bytes) {
  if (bytes == 0) return {};
  const std::size_t wanted = block_bytes(bytes);
  const std::lock_guard lock(mutex_);
  collect();
  if (const auto at = free_.find(wanted); at != free_.end()) {
    std::byte* const block = at->second.back();
    at->second.pop_back();
    if (at->second.empty()) free_.erase(at);
    kept_ -= wanted;
    return {block, wanted};
  }
  std::byte* const block = device_.allocate_pinned(wanted);
  if (block == nullptr) {
    throw Error(ErrorKind::out_of_memory,
                detail::str("[cuda] expected ", bytes, " bytes of pinned memory of the host, got none"));
  }
  return {block, wanted};
}

Memory PinnedPool::acquire_part(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{64} << 10;
  for (;; bytes /= 2) {
    try {
      return acquire(bytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory || bytes / 2 < least) throw;
    }
  }
}

void PinnedPool::release(Memory memory) noexcept {
  if (memory.at == nullptr) return;
  const std::lock_guard lock(mutex_);
  keep(memory);
}

// Under the lock. What would be too much is given back, for which the device may be waited for.
void PinnedPool::keep(Memory memory) noexcept {
  if (kept_ + memory.bytes <= max_kept) {
    try {
      free_[memory.bytes].push_back(memory.at);
      kept_ += memory.bytes;
      return;
    } catch (...) {  // no memory to remember it
    }
  }
  device_.deallocate_pinned(memory.at, memory.bytes);
}

void PinnedPool::release_after(Memory memory, Stream stream) {
  if (memory.at == nullptr) return;
  Event event;
  try {
    event = events_.acquire();
    device_.record(event, stream);
    const std::lock_guard lock(mutex_);
    pending_.push_back({memory, event});
  } catch (...) {
    if (event.handle != nullptr) events_.release(event);
    give_up(memory, stream);
    throw;
  }
}

void PinnedPool::release_after(Memory memory, Event event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    pending_.push_back({memory, event});
  } catch (...) {  // no memory to remember it: nobody uses it again
    events_.release(event);
  }
}

void PinnedPool::give_up(Memory memory, Stream stream) noexcept {
  try {
    device_.synchronize(stream);
    release(memory);
  } catch (...) {  // what it was copied to is lost, and so may be the device: nobody uses it again
    try {
      const std::lock_guard lock(mutex_);
      lost_.push_back(memory);
    } catch (...) {  // no memory to remember it
      return;
    }
  }
}

}  // namespace tidu::cuda_detail
