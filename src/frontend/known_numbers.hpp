// known_numbers.hpp - the numbers that were operands, as tensors. A number is one tensor for as long as
// anything refers to it: how often the graph of a hot loop meets a new leaf depends on the values of its
// numbers, and not on what came between them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "tidu/frontend/number.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// As an element of i32 or i64, of floating ones without their fraction. Throws Error (type) where the dtype
/// does not hold it.
std::int64_t whole_element(DType dtype, const Number& value);
/// What becomes an element of a floating or complex dtype, or of bool, when it is rounded to that: a whole
/// number that is not a double is rounded once.
double real_element(DType dtype, const Number& value);
/// A scalar, quickly made. Throws Error (type) for one that an integer dtype does not hold.
Tensor number(DType dtype, const Number& value);

class KnownNumbers {
 public:
  /// The scalar of that value, which may be that of an earlier call: to be read and not given away. One that
  /// was written to since is another one.
  const Tensor& get(DType dtype, const Number& value) {
    const std::uint64_t bits = is_integer(dtype) ? static_cast<std::uint64_t>(whole_element(dtype, value))
                                                 : std::bit_cast<std::uint64_t>(real_element(dtype, value));
    std::size_t at = entries_.empty() ? 0 : place_of(bits, dtype);
    if (entries_.empty() || entries_[at].version != entries_[at].tensor.version()) [[unlikely]]
      at = put(bits, dtype, value);
    return entries_[at].tensor;
  }

 private:
  struct Entry {
    std::uint64_t bits = 0;
    DType dtype = DType::boolean;
    std::uint64_t version = none;  // of the tensor, as it was made
    Tensor tensor;
  };
  static constexpr std::uint64_t none = ~std::uint64_t{0};  // there is no tensor
  static constexpr std::size_t fewest = 64, most = std::size_t{1} << 12;

  // Where the number stands, or would.
  std::size_t place_of(std::uint64_t bits, DType dtype) const {
    const std::uint64_t mixed = (bits + static_cast<std::uint64_t>(dtype)) * 0x9e3779b97f4a7c15ULL;
    std::size_t at = (mixed >> 52) & (entries_.size() - 1);
    while (entries_[at].version != none && (entries_[at].bits != bits || entries_[at].dtype != dtype))
      at = (at + 1) & (entries_.size() - 1);
    return at;
  }

  std::size_t put(std::uint64_t bits, DType dtype, const Number& value) {
    if (2 * (count_ + 1) > entries_.size()) make_room();
    const std::size_t at = place_of(bits, dtype);
    Entry& entry = entries_[at];
    Tensor made = number(dtype, value);
    count_ += entry.version == none ? 1 : 0;
    entry = {bits, dtype, made.version(), made};
    return at;
  }

  // Forgets those that nobody else refers to: half of the places are free then.
  void make_room() {
    std::vector<Entry> old;
    std::size_t kept = 0;
    for (const Entry& entry : entries_) kept += entry.version != none && !entry.tensor.exclusive() ? 1 : 0;
    std::size_t size = fewest;
    while (size < 4 * kept && size < most) size *= 2;
    old.resize(size);
    old.swap(entries_);
    count_ = 0;
    // Evenly, lest those that stay stand side by side: every look-up there would pass all of them.
    const std::size_t every = std::max<std::size_t>(1, (4 * kept + size - 1) / size);
    std::size_t held = 0;
    for (Entry& entry : old) {
      if (entry.version == none || entry.tensor.exclusive() || held++ % every != 0) continue;
      entries_[place_of(entry.bits, entry.dtype)] = std::move(entry);
      ++count_;
    }
  }

  std::vector<Entry> entries_;  // open addressing, a power of two
  std::size_t count_ = 0;
};

}  // namespace tidu::frontend_detail
