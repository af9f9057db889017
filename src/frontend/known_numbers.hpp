// known_numbers.hpp - KnownNumbers: tensors for numbers that were operands. A number is one tensor as long as
// anything refers to it. The number of leaves that a hot loop adds to its graph therefore depends on the
// values of its numbers alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "tidu/frontend/number.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// The number as an element of i32 or i64; a floating-point number is truncated. Throws Error (type) if the
/// dtype does not hold it.
std::int64_t whole_element(DType dtype, const Number& value);
/// The number as a double that is rounded to an element of a floating or complex dtype, or of bool. An
/// integer that is not a double is rounded once.
double real_element(DType dtype, const Number& value);
/// A new scalar tensor. Throws Error (type) for a number that an integer dtype does not hold.
Tensor number(DType dtype, const Number& value);

class KnownNumbers {
 public:
  /// The scalar tensor of the value, which earlier calls may share. It is for reading and must not be given
  /// away. A tensor that was written to is replaced.
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
    std::uint64_t version = none;  // of the tensor when it was created
    Tensor tensor;
  };
  static constexpr std::uint64_t none = ~std::uint64_t{0};  // there is no tensor
  static constexpr std::size_t fewest = 64, most = std::size_t{1} << 12;

  // Index of the number's entry, present or not.
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

  // Drops numbers that nothing else refers to; half of the table is free then.
  void make_room() {
    std::vector<Entry> old;
    std::size_t kept = 0;
    for (const Entry& entry : entries_) kept += entry.version != none && !entry.tensor.exclusive() ? 1 : 0;
    std::size_t size = fewest;
    while (size < 4 * kept && size < most) size *= 2;
    old.resize(size);
    old.swap(entries_);
    count_ = 0;
    // Dropped evenly: remaining entries in one cluster would slow down every lookup.
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
