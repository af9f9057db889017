// cache_in_front.hpp - CacheInFront: a cache of results of compile_cache(), which keeps them alive after
// compile_cache() has dropped them. The two are in libraries that do not depend on each other.
#pragma once

#include <atomic>
#include <cstddef>

namespace tidu::detail {

class CacheInFront {
 public:
  using Clear = std::size_t (*)();
  /// `clear` drops unused entries, and returns their number.
  static void set(Clear clear) { clear_.store(clear, std::memory_order_release); }
  static void clear() {
    if (const Clear call = clear_.load(std::memory_order_acquire); call != nullptr) call();
  }

 private:
  static inline constinit std::atomic<Clear> clear_{nullptr};
};

}  // namespace tidu::detail
