// midpoints.hpp - numbers that rounding twice gets wrong: those next to the middle of two neighbours of a
// 16-bit dtype, and the bits that each of them is to become.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "tidu/graph/literal.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::test {

struct Midpoints {
  Tensor numbers;                   ///< of the dtype of From
  std::vector<std::uint16_t> bits;  ///< of the 16-bit dtype
};

/// All neighbours of that dtype whose middle is a From, with From's on both sides of it.
template <class From>
Midpoints midpoints_of(DType dtype) {
  std::vector<From> numbers;
  std::vector<std::uint16_t> bits;
  const auto value = [dtype](std::uint16_t of) {
    return static_cast<double>(dtype == f16 ? half_to_float(of) : bfloat16_to_float(of));
  };
  const std::uint16_t infinity = dtype == f16 ? 0x7c00 : 0x7f80;
  const auto add = [&](From number, std::uint16_t expected) {
    for (const bool is_negative : {false, true}) {
      numbers.push_back(is_negative ? -number : number);
      bits.push_back(static_cast<std::uint16_t>(expected | (is_negative ? 0x8000U : 0U)));
    }
  };
  for (std::uint16_t low = 0; low < infinity; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    // The number beyond the largest one is as far from it as the one before.
    const auto before = static_cast<std::uint16_t>(low - 1);
    const double gap = high == infinity ? value(low) - value(before) : value(high) - value(low);
    const double middle = value(low) + gap / 2;
    const std::uint16_t even = (low & 1U) == 0 ? low : high;
    if constexpr (std::is_same_v<From, double>) {
      add(middle, even);
      add(std::nextafter(middle, 0.0), low);
      add(std::nextafter(middle, std::numeric_limits<double>::infinity()), high);
    } else {
      if (gap < 4 || middle + 1 >= static_cast<double>(std::numeric_limits<From>::max())) continue;
      const auto whole = static_cast<From>(middle);
      add(whole, even);
      add(whole - 1, low);
      add(whole + 1, high);
    }
  }
  const auto count = static_cast<std::int64_t>(numbers.size());
  return {Tensor::from<From>({count}, std::span<const From>(numbers)), std::move(bits)};
}

/// How many elements of a tensor of that dtype have other bits.
inline std::size_t count_wrong(const Tensor& got, const std::vector<std::uint16_t>& bits) {
  std::size_t wrong = 0;
  const auto* const at = reinterpret_cast<const std::uint16_t*>(got.bytes());
  for (std::size_t i = 0; i < bits.size(); ++i) wrong += at[i] != bits[i] ? 1 : 0;
  return wrong;
}

}  // namespace tidu::test
