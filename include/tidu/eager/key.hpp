// key.hpp - Key: the identity of a value of an eager program; KeySource: makes keys. Keys of two sources
// never collide, in any thread of any process.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "tidu/graph/key.hpp"

namespace tidu::eager {

/// Name of a leaf or of an output of a recorded invocation: (source, counter). The default-constructed key
/// names nothing.
struct Key {
  std::uint64_t source = 0;   ///< its source; 0 in a key that names nothing
  std::uint64_t counter = 0;  ///< counts that source's keys

  explicit constexpr operator bool() const { return source != 0; }
  friend constexpr bool operator==(const Key&, const Key&) = default;
  friend constexpr auto operator<=>(const Key&, const Key&) = default;
  /// The same name as the input of a graph.
  InputKey input_key() const;
};

/// "k:3f2a…:17", for messages.
std::string to_string(const Key& key);

/// Makes fresh keys, with consecutive numbers. A source belongs to one thread at a time; any number of
/// sources may be in use at once. A source that existed when the process forked is the same in both
/// processes: code that continues to record in the child makes a new source (a Recorder) there.
class KeySource {
 public:
  KeySource();
  KeySource(const KeySource&) = delete;
  KeySource& operator=(const KeySource&) = delete;
  /// The moved-from source goes on with keys of its own.
  KeySource(KeySource&& other) noexcept : source_(other.source_), next_(other.next_) {
    other.source_ = next_source();
  }
  KeySource& operator=(KeySource&& other) noexcept {
    source_ = other.source_;
    next_ = other.next_;
    other.source_ = next_source();
    return *this;
  }

  /// A unique key.
  Key fresh() noexcept { return {source_, next_++}; }
  /// The first of `count` consecutive keys.
  Key fresh(std::uint64_t count) noexcept {
    const Key first{source_, next_};
    next_ += count;
    return first;
  }
  /// The common part of all keys of this source; never 0.
  std::uint64_t source() const noexcept { return source_; }

 private:
  static std::uint64_t next_source();
  std::uint64_t source_;
  std::uint64_t next_ = 1;
};

}  // namespace tidu::eager

template <>
struct std::hash<tidu::eager::Key> {
  std::size_t operator()(const tidu::eager::Key& key) const noexcept {
    return static_cast<std::size_t>(tidu::detail::fold(key.source ^ 0x9e3779b97f4a7c15ULL, key.counter + 1));
  }
};
