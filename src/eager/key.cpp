// key.cpp - sources of keys: a random start per process and a counter.
#include "tidu/eager/key.hpp"

#include <atomic>
#include <charconv>

#include "tidu/eager/executor.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager {

// Multiplication by an odd number keeps sources of one process distinct; the random start those of processes.
std::uint64_t KeySource::next_source() {
  const std::uint64_t start = tidu::detail::process_key().low;
  static std::atomic<std::uint64_t> count{0};
  for (;;) {
    const std::uint64_t source =
        start + 0x9e3779b97f4a7c15ULL * (count.fetch_add(1, std::memory_order_relaxed) + 1);
    if (source != 0) return source;
  }
}

KeySource::KeySource() : source_(next_source()) {}

// Keys from before a fork keep their names in the child: this random stays.
InputKey Key::input_key() const {
  static const std::uint64_t process = tidu::detail::random_key().high;
  return InputKey::fresh({process, source}, counter);
}

std::string to_string(const Key& key) {
  char source[17] = {};
  std::to_chars(source, source + 16, key.source, 16);
  return tidu::detail::str("key ", source, ':', key.counter);
}

std::uint64_t ExecutorIdentity::next() {
  static std::atomic<std::uint64_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace tidu::eager
