// cache.hpp - CompileCache: compiled results by the structure of their input, so that a structure is compiled
// once. It is limited in entries and bytes (least recently used entries go first), thread-safe, and
// independent of backends: values are type-erased. The process's cache, compile_cache(), serves eager
// operations and their backward, lazy evaluation, hot paths and compile(f).
//
// A hit is confirmed: the address selects candidates, and words and graphs are then compared in full. Two
// structures with equal addresses are two entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/key.hpp"

namespace tidu {

/// Limits of a cache.
struct CacheLimits {
  std::size_t entries = 16384;                 ///< maximum number of entries
  std::size_t bytes = std::size_t{512} << 20;  ///< maximum bytes, as estimated by the callers
};

/// Counters of a cache, which only grow, and its present contents.
struct CacheStatistics {
  std::uint64_t hits = 0;        ///< found, or compiled by another thread while this one waited
  std::uint64_t misses = 0;      ///< compiled
  std::uint64_t failures = 0;    ///< misses that threw and left no entry
  std::uint64_t evictions = 0;   ///< entries dropped because of the limits
  std::uint64_t compile_ns = 0;  ///< total time of compilation, including failures
  std::size_t entries = 0;       ///< present entries
  std::size_t bytes = 0;         ///< bytes of present entries
};

/// The key of an entry: everything that affects the compiled result, and nothing else.
struct CacheRequest {
  /// A well-mixed hash of the whole request; equal requests have equal addresses.
  Key128 address{};
  /// Compared word by word: executor, options, placement, structure.
  std::span<const std::uint64_t> words{};
  /// Compared operation by operation, with names, source locations and origins, if not null. (Names occur in
  /// messages; an input with a name is compared by it and not by its key.)
  const Graph* graph = nullptr;
};

/// The result of a miss.
template <class T>
struct CacheMade {
  std::shared_ptr<const T> value;  ///< the value to keep and return
  std::size_t bytes = 0;           ///< estimated size
};

/// The cache. All functions may be called from any thread at any time.
class CompileCache {
 public:
  /// An empty cache with these limits.
  explicit CompileCache(const CacheLimits& limits = CacheLimits());
  CompileCache(const CompileCache&) = delete;
  CompileCache& operator=(const CompileCache&) = delete;
  ~CompileCache();

  /// The value for the request: the present one, or the result of make(), which returns a CacheMade<T>. If
  /// several threads ask for it at the same time, one makes it and the others wait. If make() throws, the
  /// exception passes to its caller, nothing is kept, and each waiting thread tries itself. make() runs
  /// without a lock and may use the cache. Requests for different T never match. A value that is dropped from
  /// the cache lives on while others hold it.
  template <class T, class Make>
  std::shared_ptr<const T> get(const CacheRequest& request, Make&& make) {
    const auto untyped = [&make]() -> CacheMade<void> {
      CacheMade<T> made = make();
      return {std::move(made.value), made.bytes};
    };
    return std::static_pointer_cast<const T>(find_or_make(request, &kind_of<T>, untyped));
  }

  /// The present value for the request, counted as a hit; null if there is none or it is still being made.
  /// Never waits.
  template <class T>
  std::shared_ptr<const T> find(const CacheRequest& request) {
    return std::static_pointer_cast<const T>(find_made(request, &kind_of<T>));
  }

  /// A snapshot of the counters.
  CacheStatistics statistics() const;
  /// Drops all entries that are not being made at the moment, and returns their number. For compile_cache()
  /// this includes the cached graphs of recorded graphs that no tape uses (eager::clear_cached_graphs), which
  /// hold compiled values.
  std::size_t clear();
  /// The present limits.
  CacheLimits limits() const;
  /// Sets new limits, drops entries beyond them, and returns the former limits.
  CacheLimits set_limits(const CacheLimits& limits);

 private:
  struct State;
  template <class T>
  static constexpr char kind_of = 0;
  std::shared_ptr<const void> find_or_make(const CacheRequest& request, const void* kind,
                                           const std::function<CacheMade<void>()>& make);
  std::shared_ptr<const void> find_made(const CacheRequest& request, const void* kind);
  friend CompileCache& compile_cache();
  std::unique_ptr<State> state_;
};

/// The process's cache. It is created once and never destroyed, and is usable in a child after fork().
CompileCache& compile_cache();

}  // namespace tidu
