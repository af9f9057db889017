// counting_allocator.cpp - operator new and delete of this test program, which count. A file of its own, so
// that no caller is compiled together with them.
#include "graph/counting_allocator.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> bytes{0};
}  // namespace

std::size_t tidu::test::allocated_bytes() { return bytes.load(std::memory_order_relaxed); }

void* operator new(std::size_t size) {
  bytes.fetch_add(size, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  bytes.fetch_add(size, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
