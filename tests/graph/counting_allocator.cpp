// counting_allocator.cpp - operator new and delete of this test program, which count. A file of its own, so
// that no caller is compiled together with them.
#include "graph/counting_allocator.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> bytes{0};
std::atomic<std::int64_t> until_refusal{-1};

void* allocate(std::size_t size) {
  bytes.fetch_add(size, std::memory_order_relaxed);
  if (until_refusal.load(std::memory_order_relaxed) >= 0 &&
      until_refusal.fetch_sub(1, std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}
}  // namespace

std::size_t tidu::test::allocated_bytes() { return bytes.load(std::memory_order_relaxed); }

void tidu::test::refuse_allocation(std::int64_t after) { until_refusal.store(after); }
bool tidu::test::refusal_is_due() { return until_refusal.load() >= 0; }

void* operator new(std::size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
