// key.hpp - 128-bit content addresses: Key128 and how they are mixed, ValueKey, InputKey. They are well
// mixed, not cryptographic: a lookup that finds a key confirms it by one-level comparison. Keys depend on
// content alone (names, bytes, shapes), and not on addresses or on the byte order of the machine's pointers,
// so they agree between processes.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tidu {

/// 128 bits of address.
struct Key128 {
  std::uint64_t high = 0;  ///< the first 64 bits
  std::uint64_t low = 0;   ///< the last 64 bits
  friend constexpr bool operator==(const Key128&, const Key128&) = default;
  friend constexpr auto operator<=>(const Key128&, const Key128&) = default;
};

/// 32 hexadecimal digits, high half first.
std::string to_hex(const Key128& key);
/// The inverse of to_hex; nothing when the text is not 32 hexadecimal digits.
std::optional<Key128> parse_hex(std::string_view text);

namespace detail {

/// Multiply and fold: the two halves of the 128-bit product, xor-ed (as in wyhash, W. Yi 2019).
constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// `key` with one more 128-bit word mixed in; order matters.
constexpr Key128 mix(const Key128& key, const Key128& word) {
  const std::uint64_t a =
      fold(key.high ^ word.low ^ 0xa0761d6478bd642fULL, key.low ^ word.high ^ 0xe7037ed1a0b428dbULL);
  const std::uint64_t b =
      fold(key.low ^ word.low ^ 0x8ebc6af09c88c6e3ULL, key.high + word.high + 0x589965cc75374cc3ULL);
  return {a + (key.low << 1 | key.low >> 63), b ^ (key.high << 7 | key.high >> 57)};
}
constexpr Key128 mix(const Key128& key, std::uint64_t word) {
  return mix(key, Key128{word, word ^ 0x1d8e4e27c47d124fULL});
}
/// Key of result `slot` of an operation, from the key of (op, keys of its operands).
constexpr Key128 result_key(const Key128& operation, std::uint32_t slot) {
  return slot == 0 ? operation : mix(operation, static_cast<std::uint64_t>(slot));
}
/// Mixes the bytes of a text or of a literal, read as little-endian 64-bit words, and their count.
Key128 mix_bytes(Key128 key, const void* bytes, std::size_t size);
inline Key128 mix(const Key128& key, std::string_view text) {
  return mix_bytes(key, text.data(), text.size());
}

/// 128 fresh random bits, once per source of keys.
Key128 random_key();
/// Random bits of this process; a child of fork has others.
const Key128& process_key();
/// A number that no other call in this process returns, mixed with a per-process random: two passes never
/// share one.
Key128 fresh_instance();

}  // namespace detail

/// Address of a value: of an input from its InputKey and type, of a produced value from (op, keys of its
/// operands, output slot). Equal keys are one value, in any graph, thread, process or dump.
struct ValueKey : Key128 {
  friend constexpr bool operator==(const ValueKey&, const ValueKey&) = default;
};

/// The identity of an input. Inputs of equal names are one input; keys of the other kinds clash with no
/// other.
class InputKey {
 public:
  InputKey() = default;
  /// The input of that name.
  static InputKey named(std::string_view name);
  /// A unique key: (random source, counter).
  static InputKey fresh(const Key128& source, std::uint64_t counter);
  /// The tangent (cotangent) that pass `instance` made for the value with key `of`, `position` being its
  /// index in that pass.
  static InputKey tangent(const ValueKey& of, const Key128& instance, std::uint64_t position);
  static InputKey cotangent(const ValueKey& of, const Key128& instance, std::uint64_t position);
  /// From the digits that a dump carries.
  static InputKey from_bits(const Key128& bits) { return InputKey(bits, false); }

  const Key128& bits() const { return bits_; }
  bool is_named() const { return named_; }
  friend bool operator==(const InputKey& a, const InputKey& b) { return a.bits_ == b.bits_; }

 private:
  InputKey(const Key128& bits, bool named) : bits_(bits), named_(named) {}
  Key128 bits_;
  bool named_ = false;
};

}  // namespace tidu

template <>
struct std::hash<tidu::Key128> {
  std::size_t operator()(const tidu::Key128& key) const noexcept { return static_cast<std::size_t>(key.low); }
};
template <>
struct std::hash<tidu::ValueKey> {
  std::size_t operator()(const tidu::ValueKey& key) const noexcept {
    return static_cast<std::size_t>(key.low);
  }
};
