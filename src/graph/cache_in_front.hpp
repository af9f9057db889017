// cache_in_front.hpp - CacheInFront: the cache that keeps what compile_cache() handed out, and so holds it
// after compile_cache() has dropped it. The two are in libraries that do not know one another.
#pragma once

#include <atomic>
#include <cstddef>

namespace tidu::detail {

class CacheInFront {
 public:
  using Clear = std::size_t (*)();
  /// `clear` drops what nobody uses, and returns how many entries went.
  static void set(Clear clear) { clear_.store(clear, std::memory_order_release); }
  static void clear() {
    if (const Clear call = clear_.load(std::memory_order_acquire); call != nullptr) call();
  }

 private:
  static inline constinit std::atomic<Clear> clear_{nullptr};
};

}  // namespace tidu::detail
