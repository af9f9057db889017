// large_requests.cpp - operator new and delete of this test program. A file of its own, so that no caller is
// compiled together with them.
#include "mpi/ranks/large_requests.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> refused_from{0};

void* allocate(std::size_t size) {
  const std::size_t from = refused_from.load(std::memory_order_relaxed);
  return from != 0 && size >= from ? nullptr : std::malloc(size == 0 ? 1 : size);
}
}  // namespace

void tidu::test::refuse_requests_from(std::size_t bytes) { refused_from.store(bytes); }

void* operator new(std::size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
