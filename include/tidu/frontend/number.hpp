// number.hpp - Number: a constant of the program as an argument of functions of Arrays; integers are kept
// exactly.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tidu/graph/dtype.hpp"

namespace tidu {

/// A number of C++, with no loss: whole ones to 64 bits, floating ones as double. As in NumPy an unsigned one
/// of 2^63 and more, which no dtype holds, is a floating one.
class Number {
 public:
  /// From any arithmetic type, also as an implicit conversion.
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Number(T value) : dtype_(dtype_for(value)) {
    bits_ = is_floating(dtype_) ? std::bit_cast<std::int64_t>(static_cast<double>(value))
                                : static_cast<std::int64_t>(value);
  }
  /// From types that convert to a number: enumerators, which are integers, and elements of std::vector<bool>.
  template <class T>
  requires(!std::is_arithmetic_v<T> && std::is_convertible_v<T, double>) constexpr Number(const T& value)
      : Number(plain(value)) {}
  /// bool; i32 for types whose numbers all fit an int, i64 for other integers; f64.
  constexpr DType dtype() const { return dtype_; }
  /// A bool counts as one.
  constexpr bool is_whole() const { return !is_floating(dtype_); }
  /// A whole one beyond 2^53 is rounded.
  constexpr double value() const {
    return is_whole() ? static_cast<double>(bits_) : std::bit_cast<double>(bits_);
  }
  /// The value of an integer.
  constexpr std::int64_t whole() const { return bits_; }

 private:
  template <class T>
  static constexpr auto plain(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<std::underlying_type_t<T>>(value);
    } else {
      return static_cast<double>(value);
    }
  }
  template <class T>
  static constexpr DType dtype_for(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return bool_;
    } else if constexpr (std::is_floating_point_v<T>) {
      return f64;
    } else if constexpr (sizeof(T) < sizeof(std::int32_t) || std::is_same_v<T, std::int32_t>) {
      return i32;
    } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t)) {
      return value > std::uint64_t{std::numeric_limits<std::int64_t>::max()} ? f64 : i64;
    } else {
      return i64;
    }
  }

  std::int64_t bits_ = 0;  // whole, or those of a double
  DType dtype_;
};

}  // namespace tidu
