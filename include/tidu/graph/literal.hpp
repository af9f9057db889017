// literal.hpp - a constant tensor that a graph carries. Immutable, shared, hashed once; NaNs are made
// canonical, and -0.0 and 0.0 are different.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <span>

#include "tidu/graph/key.hpp"
#include "tidu/graph/type.hpp"

namespace tidu {

/// A dense row-major tensor of constants.
class Literal {
 public:
  /// The f64 scalar 0.
  Literal();
  /// Copies `bytes`, which must hold type.bytes() bytes in row-major order. Throws Error (invalid_argument)
  /// otherwise.
  Literal(Type type, std::span<const std::byte> bytes);
  /// As convert_element_type: to integers truncated, saturated, NaN to 0; f16, bf16 rounded to even from f32.
  static Literal scalar(DType dtype, double value);
  static Literal scalar(DType dtype, std::int64_t value);
  static Literal scalar(DType dtype, std::complex<double> value);
  /// From elements whose C++ type has the size of `type`'s dtype.
  template <class T>
  static Literal of(Type type, std::span<const T> elements) {
    return Literal(type, std::as_bytes(elements));
  }

  Type type() const { return data_->type; }
  const std::byte* bytes() const { return data_->bytes.get(); }
  /// The elements; T has the size of the dtype.
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(data_->bytes.get());
  }
  const Key128& key() const { return data_->key; }
  /// Element `index` in row-major order as a complex number (integers beyond 2^53 are rounded).
  std::complex<double> at(std::int64_t index) const;

  friend bool operator==(const Literal& a, const Literal& b);

 private:
  struct Data {
    Type type;
    std::unique_ptr<std::byte[]> bytes;
    Key128 key;
  };
  std::shared_ptr<const Data> data_;
};

/// Conversions of the 16-bit floating types, by their bits.
float half_to_float(std::uint16_t bits);
float bfloat16_to_float(std::uint16_t bits);
/// The same in the other direction. Rounding is to nearest, ties to even.
std::uint16_t float_to_half(float value);
std::uint16_t float_to_bfloat16(float value);
/// Rounded once: by way of f32 a number near the middle of two can go the wrong way.
std::uint16_t double_to_half(double value);
std::uint16_t double_to_bfloat16(double value);

}  // namespace tidu
