// cache.hpp - CompileCache: what was compiled, by the structure that it was compiled from, so that a second
// run of the same structure builds nothing. Bounded in entries and bytes (the longest unused go first),
// thread-safe, and of no backend: it does not know what it keeps. One for the process, compile_cache(),
// serves eager operations and their backward, lazy evaluation, hot paths and compile(f).
//
// A hit is confirmed: addresses say where to look, and words and graphs are compared one by one, so that two
// structures that share an address are two entries.
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

/// What a cache may hold.
struct CacheLimits {
  std::size_t entries = 16384;                 ///< most entries
  std::size_t bytes = std::size_t{512} << 20;  ///< most bytes, as those who compile estimate them
};

/// What a cache has done so far, and what it holds. Counters only grow.
struct CacheStatistics {
  std::uint64_t hits = 0;        ///< found, or made by another thread while this one waited
  std::uint64_t misses = 0;      ///< made
  std::uint64_t failures = 0;    ///< misses that threw, and left nothing
  std::uint64_t evictions = 0;   ///< entries dropped because of the limits
  std::uint64_t compile_ns = 0;  ///< time that making took, failures included
  std::size_t entries = 0;       ///< held now
  std::size_t bytes = 0;         ///< of those
};

/// What is looked for: all that changes what would be made, and nothing else.
struct CacheRequest {
  /// Well-mixed bits of all that tells requests apart; equal requests have equal ones.
  Key128 address{};
  /// Compared one by one: executor, options, placement, structure.
  std::span<const std::uint64_t> words{};
  /// Compared operation by operation and name by name (names are in messages; the key of an input that has a
  /// name is none), when there is one.
  const Graph* graph = nullptr;
};

/// What is made on a miss, and how many bytes it counts for.
template <class T>
struct CacheMade {
  std::shared_ptr<const T> value;  ///< what is kept and handed out
  std::size_t bytes = 0;           ///< an estimate
};

/// The cache. Any thread may call anything at any time.
class CompileCache {
 public:
  /// With these limits.
  explicit CompileCache(const CacheLimits& limits = CacheLimits());
  CompileCache(const CompileCache&) = delete;
  CompileCache& operator=(const CompileCache&) = delete;
  ~CompileCache();

  /// What was made for that request, or what make() (which returns a CacheMade<T>) makes now. Of threads that
  /// ask for the same at once one makes it and the others wait. What make() throws passes through to its
  /// caller and nothing is kept; those who waited try for themselves. make() runs without a lock and may use
  /// the cache. Requests for another T never meet. What is dropped from the cache lives on with those who
  /// hold it.
  template <class T, class Make>
  std::shared_ptr<const T> get(const CacheRequest& request, Make&& make) {
    const auto untyped = [&make]() -> CacheMade<void> {
      CacheMade<T> made = make();
      return {std::move(made.value), made.bytes};
    };
    return std::static_pointer_cast<const T>(find_or_make(request, &kind_of<T>, untyped));
  }

  /// What was made for that request, which counts as a hit; null where nothing was, or while it is being
  /// made: this never waits.
  template <class T>
  std::shared_ptr<const T> find(const CacheRequest& request) {
    return std::static_pointer_cast<const T>(find_made(request, &kind_of<T>));
  }

  /// The counters as they are now.
  CacheStatistics statistics() const;
  /// Drops everything that is not being made just now; returns the number of entries. Of compile_cache() also
  /// the templates of recorded graphs that no tape uses (eager::clear_templates), which keep what was
  /// compiled.
  std::size_t clear();
  /// Those that are in force.
  CacheLimits limits() const;
  /// Drops what is beyond the new limits. Returns those that were in force.
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

/// The process's cache; made once, never destroyed. A child after fork() finds it usable.
CompileCache& compile_cache();

}  // namespace tidu
