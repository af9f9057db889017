// memory.hpp - FlatArray<T>: a std::vector whose large blocks are recycled. The first touch of fresh pages is
// half the cost of making a large graph. Freed blocks of 64 KiB and more are therefore kept in a bounded,
// process-wide store, and backed by huge pages if the system has them.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <vector>

namespace tidu {

/// Returns the recycled blocks that are not in use to the system, and returns their number of bytes. Never
/// needed for correctness.
std::size_t release_recycled_memory();
/// Upper bound on the bytes that are kept for reuse, 1 GiB at first; 0 keeps nothing. Returns the bound
/// that was in force.
std::size_t set_recycled_memory_limit(std::size_t bytes);

namespace detail {

void* allocate_recycled(std::size_t bytes);
void deallocate_recycled(void* block, std::size_t bytes) noexcept;
inline constexpr std::size_t recycled_from = std::size_t{64} << 10;

/// Small blocks come from operator new.
template <class T>
struct RecyclingAllocator {
  using value_type = T;
  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(bytes < recycled_from ? ::operator new(bytes) : allocate_recycled(bytes));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < recycled_from) {
      ::operator delete(block);
    } else {
      deallocate_recycled(block, bytes);
    }
  }
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator&) { return true; }
};

}  // namespace detail

/// A growing array; the arrays of a graph are of this type.
template <class T>
using FlatArray = std::vector<T, detail::RecyclingAllocator<T>>;

}  // namespace tidu
