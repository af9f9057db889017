// counter.hpp - reference counts. While the process has a single thread, which the C library knows, a count
// is changed by a plain addition, at a quarter of the price of an atomic one.
#pragma once

#include <atomic>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define TIDU_SINGLE_THREADED (__libc_single_threaded != 0)
#else
#define TIDU_SINGLE_THREADED false
#endif

namespace tidu::detail {

/// Adds; returns the value before.
template <class T>
T count_up(std::atomic<T>& counter, T by = 1, std::memory_order order = std::memory_order_relaxed) noexcept {
  if (TIDU_SINGLE_THREADED) {
    const T before = counter.load(std::memory_order_relaxed);
    counter.store(static_cast<T>(before + by), std::memory_order_relaxed);
    return before;
  }
  return counter.fetch_add(by, order);
}

/// Subtracts one, with acquire and release order; returns the value before.
template <class T>
T count_down(std::atomic<T>& counter) noexcept {
  if (TIDU_SINGLE_THREADED) {
    const T before = counter.load(std::memory_order_relaxed);
    counter.store(static_cast<T>(before - 1), std::memory_order_relaxed);
    return before;
  }
  return counter.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace tidu::detail
