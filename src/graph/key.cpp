// key.cpp - mixing of bytes, fresh keys, hexadecimal text.
#include "tidu/graph/key.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <random>

namespace tidu {
namespace {

Key128 input_key(std::string_view kind) { return detail::mix(Key128{0x74696475, 1}, kind); }

}  // namespace

std::string to_hex(const Key128& key) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    text[i] = digits[(key.high >> (60 - 4 * i)) & 15U];
    text[16 + i] = digits[(key.low >> (60 - 4 * i)) & 15U];
  }
  return text;
}

std::optional<Key128> parse_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Key128 key;
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = text[i];
    std::uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint64_t>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    std::uint64_t& half = i < 16 ? key.high : key.low;
    half = half << 4 | digit;
  }
  return key;
}

namespace detail {

Key128 mix_bytes(Key128 key, const void* bytes, std::size_t size) {
  const auto* p = static_cast<const unsigned char*>(bytes);
  const auto word_at = [](const unsigned char* from, std::size_t count) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < count; ++i) word |= static_cast<std::uint64_t>(from[i]) << (8 * i);
    return word;
  };
  std::size_t left = size;
  for (; left >= 16; left -= 16, p += 16) key = mix(key, Key128{word_at(p, 8), word_at(p + 8, 8)});
  if (left > 0)
    key = mix(key, Key128{word_at(p, left < 8 ? left : 8), left > 8 ? word_at(p + 8, left - 8) : 0});
  return mix(key, static_cast<std::uint64_t>(size));
}

Key128 random_key() {
  std::random_device device;
  const auto word = [&device] { return static_cast<std::uint64_t>(device()) << 32 | device(); };
  return {word(), word()};
}

namespace {

Key128 key_of_process;  // written before other threads are there: at first use, and in the child of a fork

// Neither allocates nor waits for anything, as the child of a process of many threads may not.
void renew_key_of_process() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const Key128 here{
      static_cast<std::uint64_t>(getpid()),
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec)};
  key_of_process = mix(key_of_process, here);
}

}  // namespace

const Key128& process_key() {
  static const bool begun = [] {
    key_of_process = random_key();
    pthread_atfork(nullptr, nullptr, renew_key_of_process);
    return true;
  }();
  static_cast<void>(begun);
  return key_of_process;
}

Key128 fresh_instance() {
  static std::atomic<std::uint64_t> counter{0};
  return mix(process_key(), counter.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace detail

InputKey InputKey::named(std::string_view name) {
  return InputKey(detail::mix(input_key("named"), name), true);
}

InputKey InputKey::fresh(const Key128& source, std::uint64_t counter) {
  static const Key128 kind = input_key("fresh");
  return InputKey(detail::mix(detail::mix(kind, source), counter), false);
}

InputKey InputKey::tangent(const ValueKey& of, const Key128& instance, std::uint64_t position) {
  return InputKey(detail::mix(detail::mix(detail::mix(input_key("tangent"), instance), of), position), false);
}

InputKey InputKey::cotangent(const ValueKey& of, const Key128& instance, std::uint64_t position) {
  return InputKey(detail::mix(detail::mix(detail::mix(input_key("cotangent"), instance), of), position),
                  false);
}

}  // namespace tidu
