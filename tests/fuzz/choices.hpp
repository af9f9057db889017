// choices.hpp - where random graphs take their decisions from: a seed, or bytes that a fuzzer mutates. Each
// byte is one decision about the structure of a graph; numbers come from a seeded generator in both cases, so
// that a changed byte changes the structure and not only an element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "check/numeric.hpp"

namespace tidu::test {

class Choices {
 public:
  virtual ~Choices() = default;
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;

  /// A decision: one of 0 .. count - 1, for count at most 256.
  virtual std::size_t below(std::size_t count) = 0;
  /// No decision is left to be made: all further ones are 0.
  virtual bool exhausted() const { return false; }
  bool one_in(std::size_t count) { return below(count) == count - 1; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low) + 1));
  }
  /// For elements of tensors.
  check::Random& numbers() { return numbers_; }

 protected:
  explicit Choices(std::uint64_t seed) : numbers_(seed) {}

 private:
  check::Random numbers_;
};

class SeededChoices final : public Choices {
 public:
  explicit SeededChoices(std::uint64_t seed) : Choices(seed) {}
  std::size_t below(std::size_t count) override { return numbers().below(count); }
};

/// The first byte is the seed of the numbers.
class ByteChoices final : public Choices {
 public:
  explicit ByteChoices(std::span<const std::uint8_t> bytes)
      : Choices(bytes.empty() ? 0 : bytes.front()), rest_(bytes.empty() ? bytes : bytes.subspan(1)) {}
  std::size_t below(std::size_t count) override {
    if (rest_.empty()) return 0;
    const std::size_t choice = rest_.front() % count;
    rest_ = rest_.subspan(1);
    return choice;
  }
  bool exhausted() const override { return rest_.empty(); }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace tidu::test
