// truncated.hpp - floating numbers as integers, as convert_element_type makes them. The reference executor,
// by which others are checked, says the same in words of its own.
#pragma once

#include <limits>

namespace tidu::detail {

/// x without its fraction. What is beyond To becomes the nearest To, and NaN 0.
template <class To, class From>
constexpr To truncated(From x) {
  // The greatest To and 1: a power of two, which any From has.
  constexpr From limit = From{2} * static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1));
  if (x >= limit) return std::numeric_limits<To>::max();
  if (x < -limit) return std::numeric_limits<To>::min();
  return x == x ? static_cast<To>(x) : To{0};
}

}  // namespace tidu::detail
