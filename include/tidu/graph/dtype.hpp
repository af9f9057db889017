// dtype.hpp - DType: the element types of values, their names, sizes and kinds. The order of the enumerators
// is part of no format: dumps and keys use the names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidu {

/// Element type of a value. `boolean` is one byte, 0 or 1.
enum class DType : std::uint8_t { boolean, i32, i64, f16, bf16, f32, f64, c64, c128 };

/// The dtype of that name.
inline constexpr DType bool_ = DType::boolean;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i64 = DType::i64;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f32 = DType::f32;
inline constexpr DType f64 = DType::f64;
inline constexpr DType c64 = DType::c64;
inline constexpr DType c128 = DType::c128;

/// Name as dumps write it: "bool", "i32", … "c128".
constexpr std::string_view to_string(DType dtype) {
  constexpr std::string_view names[] = {"bool", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"};
  return names[static_cast<std::size_t>(dtype)];
}

/// The dtype of that name, or nothing.
constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(DType::c128); ++i) {
    if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t sizes[] = {1, 4, 8, 2, 2, 4, 8, 8, 16};
  return sizes[static_cast<std::size_t>(dtype)];
}

/// The dtype in which long sums are accumulated: f32 for f16 and bf16; each other dtype is its own.
constexpr DType accumulation_dtype(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}
/// f16, bf16, f32, f64.
constexpr bool is_floating(DType dtype) { return dtype >= DType::f16 && dtype <= DType::f64; }
/// c64, c128.
constexpr bool is_complex(DType dtype) { return dtype >= DType::c64; }
/// i32, i64.
constexpr bool is_integer(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }
/// bool.
constexpr bool is_bool(DType dtype) { return dtype == DType::boolean; }
/// Floating or complex: the values that have tangents and cotangents.
constexpr bool is_inexact(DType dtype) { return dtype >= DType::f16; }

/// Dtype of the real and imaginary parts; a real dtype is its own.
constexpr DType real_dtype(DType dtype) {
  return dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype;
}

/// Complex dtype with parts of that dtype (f32 or f64), or nothing.
constexpr std::optional<DType> complex_dtype(DType dtype) {
  if (dtype == DType::f32) return DType::c64;
  if (dtype == DType::f64) return DType::c128;
  return std::nullopt;
}

}  // namespace tidu
