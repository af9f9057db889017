// truncated.hpp - conversion of floating numbers to integers, as by convert_element_type. The reference
// executor, the oracle of others, has its own implementation.
#pragma once

#include <limits>

namespace tidu::detail {

/// x without its fraction. Numbers out of To's range become the nearest number of To, and NaN 0.
template <class To, class From>
constexpr To truncated(From x) {
  // The greatest To and 1: a power of two, which any From has.
  constexpr From limit = From{2} * static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1));
  if (x >= limit) return std::numeric_limits<To>::max();
  if (x < -limit) return std::numeric_limits<To>::min();
  return x == x ? static_cast<To>(x) : To{0};
}

}  // namespace tidu::detail
