// cache.cpp - CompileCache: entries in a list, the longest unused last, and a table from address to entry.
#include "tidu/optimizer/cache.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "graph/cache_in_front.hpp"
#include "graph/fork_locks.hpp"

namespace tidu {
namespace {

// By its label where it has one, and by its key else: derivatives have keys of their own each time.
bool same_input_names(const Graph& a, const Graph& b) {
  for (std::size_t i = 0; i < a.inputs().size(); ++i)
    if (a.input_key(i) != b.input_key(i) && a.label(a.inputs()[i]).empty()) return false;
  return true;
}

// Graphs of equal structure have equal names too when messages about the one are right for the other.
bool same_graph(const Graph& a, const Graph& b) {
  if (a.share() == b.share()) return true;
  const GraphData& x = a.data();
  const GraphData& y = b.data();
  return x.name == y.name && structurally_equal(a, b) && x.primitives == y.primitives &&
         x.labels == y.labels && same_input_names(a, b) && x.wheres == y.wheres &&
         x.where_table == y.where_table && x.origins == y.origins;
}

}  // namespace

struct CompileCache::State {
  struct Entry {
    Key128 address;
    const void* kind;
    std::vector<std::uint64_t> words;
    std::optional<Graph> graph;
    std::shared_ptr<const void> value;  // null: being made
    std::size_t bytes = 0;
    std::thread::id compiling_thread{};
  };
  using Entries = std::list<Entry>;

  bool same(const Entry& entry, const CacheRequest& request, const void* kind) const {
    return entry.kind == kind &&
           std::equal(entry.words.begin(), entry.words.end(), request.words.begin(), request.words.end()) &&
           entry.graph.has_value() == (request.graph != nullptr) &&
           (request.graph == nullptr || same_graph(*entry.graph, *request.graph));
  }
  Entries::iterator find(const CacheRequest& request, const void* kind) {
    const auto [first, last] = table.equal_range(request.address);
    for (auto at = first; at != last; ++at)
      if (same(*at->second, request, kind)) return at->second;
    return entries.end();
  }
  // Moves an entry out of the cache to `dropped`, whose owner destroys it without the lock.
  void drop(Entries::iterator entry, Entries& dropped) {
    const auto [first, last] = table.equal_range(entry->address);
    table.erase(std::find_if(first, last, [&](const auto& at) { return at.second == entry; }));
    bytes -= entry->bytes;
    dropped.splice(dropped.end(), entries, entry);
  }
  void shrink(Entries& dropped) {
    for (auto at = entries.end();
         at != entries.begin() && (entries.size() > limits.entries || bytes > limits.bytes);) {
      const auto entry = --at;
      if (entry->value == nullptr) continue;
      ++at;
      drop(entry, dropped);
      ++counters.evictions;
    }
  }

  // In the child, entries that other threads were making are never completed.
  void forget_others() {
    for (auto at = entries.begin(); at != entries.end();) {
      const auto entry = at++;
      Entries dropped;
      if (entry->value == nullptr && entry->compiling_thread != std::this_thread::get_id())
        drop(entry, dropped);
    }
  }

  mutable std::mutex mutex;
  std::condition_variable made;
  Entries entries;
  std::unordered_multimap<Key128, Entries::iterator> table;
  CacheLimits limits;
  CacheStatistics counters;
  std::size_t bytes = 0;
  bool of_process = false;
};

CompileCache::CompileCache(const CacheLimits& limits) : state_(std::make_unique<State>()) {
  state_->limits = limits;
}
CompileCache::~CompileCache() = default;

std::shared_ptr<const void> CompileCache::find_or_make(const CacheRequest& request, const void* kind,
                                                       const std::function<CacheMade<void>()>& make) {
  State& s = *state_;
  State::Entries dropped;  // destroyed after the lock
  std::unique_lock lock(s.mutex);
  State::Entries::iterator entry;
  for (;;) {
    entry = s.find(request, kind);
    if (entry == s.entries.end()) break;
    if (entry->value != nullptr) {
      ++s.counters.hits;
      s.entries.splice(s.entries.begin(), s.entries, entry);
      return entry->value;
    }
    // A thread that asks for an entry that it is making itself would wait for ever.
    if (entry->compiling_thread == std::this_thread::get_id()) {
      ++s.counters.misses;
      lock.unlock();
      return make().value;
    }
    s.made.wait(lock);
  }
  ++s.counters.misses;
  State::Entry fresh;
  fresh.address = request.address;
  fresh.kind = kind;
  fresh.words.assign(request.words.begin(), request.words.end());
  if (request.graph != nullptr) fresh.graph = *request.graph;
  fresh.compiling_thread = std::this_thread::get_id();
  s.entries.push_front(std::move(fresh));
  entry = s.entries.begin();
  try {
    s.table.emplace(request.address, entry);
  } catch (...) {
    s.entries.pop_front();
    throw;
  }
  lock.unlock();

  const auto begin = std::chrono::steady_clock::now();
  const auto took = [begin] {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
            .count());
  };
  CacheMade<void> value;
  try {
    value = make();
  } catch (...) {
    lock.lock();
    s.counters.compile_ns += took();
    ++s.counters.failures;
    s.drop(entry, dropped);
    s.made.notify_all();
    lock.unlock();
    throw;
  }
  lock.lock();
  s.counters.compile_ns += took();
  if (value.value == nullptr) {  // nothing to keep
    s.drop(entry, dropped);
  } else {
    entry->value = value.value;
    entry->bytes = value.bytes;
    s.bytes += value.bytes;
    s.shrink(dropped);
  }
  s.made.notify_all();
  lock.unlock();
  return value.value;
}

std::shared_ptr<const void> CompileCache::find_made(const CacheRequest& request, const void* kind) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  const State::Entries::iterator entry = s.find(request, kind);
  if (entry == s.entries.end() || entry->value == nullptr) return nullptr;
  ++s.counters.hits;
  s.entries.splice(s.entries.begin(), s.entries, entry);
  return entry->value;
}

CacheStatistics CompileCache::statistics() const {
  const std::lock_guard lock(state_->mutex);
  CacheStatistics result = state_->counters;
  result.entries = state_->entries.size();
  result.bytes = state_->bytes;
  return result;
}

std::size_t CompileCache::clear() {
  if (state_->of_process) detail::CacheInFront::clear();
  State::Entries dropped;
  const std::lock_guard lock(state_->mutex);
  for (auto at = state_->entries.begin(); at != state_->entries.end();) {
    const auto entry = at++;
    if (entry->value != nullptr) state_->drop(entry, dropped);
  }
  return dropped.size();
}

CacheLimits CompileCache::limits() const {
  const std::lock_guard lock(state_->mutex);
  return state_->limits;
}

CacheLimits CompileCache::set_limits(const CacheLimits& limits) {
  State::Entries dropped;
  const std::lock_guard lock(state_->mutex);
  const CacheLimits before = std::exchange(state_->limits, limits);
  state_->shrink(dropped);
  return before;
}

CompileCache& compile_cache() {
  static CompileCache* const cache = [] {
    auto* made = new CompileCache;
    made->state_->of_process = true;
    detail::ForkLocks::add(detail::ForkRank::compiled, made->state_->mutex,
                           [] { compile_cache().state_->forget_others(); });
    return made;
  }();
  return *cache;
}

}  // namespace tidu
