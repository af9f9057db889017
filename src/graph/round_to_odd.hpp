// round_to_odd.hpp - rounding of numbers to an intermediate format from which the final rounding to 16 bits
// gives the same result as rounding the number itself.
//
// Rounding to odd: a number without an exact counterpart becomes its neighbour toward zero with the last bit
// set. Rounding that to nearest, to at least two digits fewer, equals rounding the original number to
// nearest: the last bit says on which side of a midpoint it lies. (S. Boldo, G. Melquiond: When double
// rounding is odd, IMACS 2005.)
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tidu::detail {

/// NaN and infinities stay.
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool is_beyond = std::abs(static_cast<double>(nearest)) > std::abs(value);
  return std::bit_cast<float>((is_beyond ? bits - 1 : bits) | 1U);
}

/// Exact below 2^53.
inline double round_to_odd(std::int64_t value) {
  const bool is_negative = value < 0;
  std::uint64_t size =
      is_negative ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  constexpr std::uint64_t dropped = 0x7ff;  // 11 of 64 bits
  if (size >= std::uint64_t{1} << 53) size = (size & ~dropped) | ((size & dropped) != 0 ? dropped + 1 : 0);
  const auto result = static_cast<double>(size);
  return is_negative ? -result : result;
}

}  // namespace tidu::detail
