// allocations.cpp - replaces operator new for the program and the shared library that it loads.
#include "allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local long left = 0, balance = 0;
thread_local bool struck = false;

bool strikes() {
  if (left == 0 || --left != 0) return false;
  struck = true;
  return true;
}
void* take(std::size_t bytes) noexcept {
  void* const block = strikes() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (block != nullptr) ++balance;
  return block;
}
void* take(std::size_t bytes, std::align_val_t align) noexcept {
  const auto unit = static_cast<std::size_t>(align);
  void* const block = strikes() ? nullptr : std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (block != nullptr) ++balance;
  return block;
}
void* required(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void give(void* block) noexcept {
  if (block == nullptr) return;
  --balance;
  std::free(block);
}

}  // namespace

void fail_allocation(long k) {
  left = k;
  struck = false;
}
int allocation_struck(void) { return struck ? 1 : 0; }
long allocation_balance(void) { return balance; }

void* operator new(std::size_t bytes) { return required(take(bytes)); }
void* operator new[](std::size_t bytes) { return required(take(bytes)); }
void* operator new(std::size_t bytes, std::align_val_t align) { return required(take(bytes, align)); }
void* operator new[](std::size_t bytes, std::align_val_t align) { return required(take(bytes, align)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void* operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return take(bytes, align);
}
void operator delete(void* block) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete(void* block, std::size_t) noexcept { give(block); }
void operator delete[](void* block, std::size_t) noexcept { give(block); }
void operator delete(void* block, std::align_val_t) noexcept { give(block); }
void operator delete[](void* block, std::align_val_t) noexcept { give(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { give(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { give(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { give(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { give(block); }
