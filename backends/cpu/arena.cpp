// arena.cpp - best fit among the blocks that are free, within twice what is asked for.
#include "cpu/arena.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cpu/cpu_target.hpp"
#include "graph/plain_memory.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cpu_detail {
namespace {

using Lock = tidu::detail::ForkMutex::Lock;

constexpr std::size_t page = CpuTarget::page;

std::size_t to_whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

[[noreturn]] void refuse(std::size_t bytes) {
  throw Error(ErrorKind::out_of_memory, detail::str("expected ", bytes, " bytes of memory, got none"));
}

#if defined(__linux__) && !defined(TIDU_PLAIN_MEMORY)
// Blocks of 4 MiB and more are the system's own: they go back to it when they are released, in whatever
// order, and begin with a huge page. Of these only whole ones are asked for: of one that reaches behind the
// block all would be used.
constexpr std::size_t huge_page = std::size_t{2} << 20, min_mapped = 2 * huge_page;
std::byte* map(std::size_t bytes) {
  const std::size_t reserved = bytes + huge_page;
  void* const all = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) refuse(bytes);
  std::byte* const begin = static_cast<std::byte*>(all);
  const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(all) % huge_page) % huge_page;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, huge_page - before);
  ::madvise(begin + before, bytes / huge_page * huge_page, MADV_HUGEPAGE);  // advice: it need not be taken
  return begin + before;
}
void unmap(std::byte* data, std::size_t bytes) noexcept { ::munmap(data, bytes); }
#else
constexpr std::size_t min_mapped = ~std::size_t{0};
std::byte* map(std::size_t bytes) { refuse(bytes); }
void unmap(std::byte*, std::size_t) noexcept {}
#endif

std::byte* allocate(std::size_t bytes) {
  if (bytes >= min_mapped) return map(bytes);
  void* data = ::operator new(bytes, std::align_val_t(page), std::nothrow);
  if (data == nullptr) refuse(bytes);
  return static_cast<std::byte*>(data);
}
void deallocate(std::byte* data, std::size_t bytes) noexcept {
  if (bytes >= min_mapped) return unmap(data, bytes);
  ::operator delete(data, std::align_val_t(page));
}

}  // namespace

Arena::~Arena() { clear(); }

std::size_t Arena::taken(std::size_t bytes) noexcept {
  const std::size_t rounded = to_whole_pages(bytes);
  return bytes == 0 || rounded >= min_mapped ? rounded : rounded + page;  // one that the allocator writes to
}

Arena::Block Arena::acquire(std::size_t bytes, bool lasts) {
  if (bytes == 0) return {};
  constexpr std::size_t largest = std::size_t{1} << 62;
  if (bytes > largest)
    throw Error(ErrorKind::out_of_memory,
                detail::str("expected ", bytes, " bytes of memory, which no address space has"));
  {
    const Lock lock(mutex_);
    const auto fit = lock ? free_.lower_bound(bytes) : free_.end();
    const std::size_t most = lasts ? to_whole_pages(bytes) : 2 * (bytes + 16 * page) + 1;
    if (fit != free_.end() && fit->first <= most) {
      const Block block{fit->second, fit->first};
      nodes_.emplace_back();  // may throw
      cached_ -= block.bytes;
      nodes_.back() = free_.extract(fit);
      use(block.bytes);
      return block;
    }
  }
  const std::size_t rounded = to_whole_pages(bytes);
  const Block block{allocate(rounded), rounded};
  if (const Lock lock(mutex_); lock) use(block.bytes);
  return block;
}

void Arena::use(std::size_t bytes) {
  used_ += bytes;
  max_used_ = std::max(max_used_, used_);
}

void Arena::release(Block block) noexcept {
  if (block.data == nullptr) return;
  try {
    const Lock lock(mutex_);
    if (lock) used_ -= block.bytes;
    if (lock && block.bytes <= limit_ && cached_ <= limit_ - block.bytes) {
      keep(block);
      return;
    }
  } catch (const std::bad_alloc&) {
    // no room to remember it
  }
  deallocate(block.data, block.bytes);
}

void Arena::keep(Block block) {
  if (nodes_.empty()) {
    free_.emplace(block.bytes, block.data);
  } else {
    nodes_.back().key() = block.bytes;
    nodes_.back().mapped() = block.data;
    free_.insert(std::move(nodes_.back()));
    nodes_.pop_back();
  }
  cached_ += block.bytes;
}

void Arena::clear() noexcept {
  const Lock lock(mutex_);
  if (!lock) return;
  nodes_.clear();
  for (const auto& [bytes, data] : free_) deallocate(data, bytes);
  free_.clear();
  cached_ = 0;
}

std::size_t Arena::max_used() const {
  const Lock lock(mutex_);
  return lock ? max_used_ : 0;
}

}  // namespace tidu::cpu_detail
