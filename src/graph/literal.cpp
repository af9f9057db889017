// literal.cpp - making literals: copying, canonical NaNs, hashing; 16-bit floating conversions.
#include "tidu/graph/literal.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/round_to_odd.hpp"
#include "graph/truncated.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

template <class T>
void canonical_nans(std::byte* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    if (value != value) {
      value = std::numeric_limits<T>::quiet_NaN();
      std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
    }
  }
}

void canonical_nans16(std::byte* bytes, std::size_t count, std::uint16_t exponent, std::uint16_t nan) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, 2);
    if ((bits & 0x7fffU) > exponent) std::memcpy(bytes + 2 * i, &nan, 2);
  }
}

void canonicalise(Type type, std::byte* bytes) {
  const auto count = static_cast<std::size_t>(type.size());
  switch (type.dtype()) {
    case DType::f32: return canonical_nans<float>(bytes, count);
    case DType::f64: return canonical_nans<double>(bytes, count);
    case DType::c64: return canonical_nans<float>(bytes, 2 * count);
    case DType::c128: return canonical_nans<double>(bytes, 2 * count);
    case DType::f16: return canonical_nans16(bytes, count, 0x7c00, 0x7e00);
    case DType::bf16: return canonical_nans16(bytes, count, 0x7f80, 0x7fc0);
    case DType::boolean:
      for (std::size_t i = 0; i < count; ++i)
        bytes[i] = bytes[i] == std::byte{0} ? std::byte{0} : std::byte{1};
      return;
    default: return;
  }
}

template <class T>
Literal scalar_of(DType dtype, T value) {
  return Literal(Type(dtype), std::as_bytes(std::span(&value, 1)));
}

}  // namespace

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U)
    return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to 2^16 or beyond
  if (magnitude < 0x38800000U) {                        // subnormal half: round |value| * 2^24 to an integer
    const float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(scaled)));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

std::uint16_t double_to_half(double value) { return float_to_half(detail::round_to_odd(value)); }
std::uint16_t double_to_bfloat16(double value) { return float_to_bfloat16(detail::round_to_odd(value)); }

Literal::Literal(Type type, std::span<const std::byte> bytes) {
  if (bytes.size() != type.bytes()) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("Literal: expected ", type.bytes(), " bytes for ", type, ", got ", bytes.size()));
  }
  auto copy = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  canonicalise(type, copy.get());
  const Key128 key = detail::mix_bytes(type.key(), copy.get(), bytes.size());
  data_ = std::make_shared<const Data>(Data{type, std::move(copy), key});
}

Literal::Literal() {
  static const Literal zero = scalar(DType::f64, 0.0);
  *this = zero;
}

Literal Literal::scalar(DType dtype, double value) { return scalar(dtype, std::complex<double>(value, 0.0)); }

Literal Literal::scalar(DType dtype, std::int64_t value) {
  if (dtype == DType::i64) return scalar_of(dtype, value);
  if (dtype == DType::i32) return scalar_of(dtype, static_cast<std::int32_t>(value));
  const bool has_doubles = dtype == DType::f64 || dtype == DType::c128;
  return scalar(dtype, has_doubles ? static_cast<double>(value) : detail::round_to_odd(value));
}

Literal Literal::scalar(DType dtype, std::complex<double> value) {
  const double real = value.real();
  switch (dtype) {
    case DType::boolean: return scalar_of(dtype, static_cast<std::uint8_t>(real != 0.0));
    case DType::i32: return scalar_of(dtype, detail::truncated<std::int32_t>(real));
    case DType::i64: return scalar_of(dtype, detail::truncated<std::int64_t>(real));
    case DType::f16: return scalar_of(dtype, double_to_half(real));
    case DType::bf16: return scalar_of(dtype, double_to_bfloat16(real));
    case DType::f32: return scalar_of(dtype, static_cast<float>(real));
    case DType::f64: return scalar_of(dtype, real);
    case DType::c64:
      return scalar_of(dtype,
                       std::complex<float>(static_cast<float>(real), static_cast<float>(value.imag())));
    default: return scalar_of(dtype, value);
  }
}

std::complex<double> Literal::at(std::int64_t index) const {
  switch (type().dtype()) {
    case DType::boolean: return static_cast<double>(data<std::uint8_t>()[index]);
    case DType::i32: return static_cast<double>(data<std::int32_t>()[index]);
    case DType::i64: return static_cast<double>(data<std::int64_t>()[index]);
    case DType::f16: return static_cast<double>(half_to_float(data<std::uint16_t>()[index]));
    case DType::bf16: return static_cast<double>(bfloat16_to_float(data<std::uint16_t>()[index]));
    case DType::f32: return static_cast<double>(data<float>()[index]);
    case DType::f64: return data<double>()[index];
    case DType::c64: return std::complex<double>(data<std::complex<float>>()[index]);
    default: return data<std::complex<double>>()[index];
  }
}

bool operator==(const Literal& a, const Literal& b) {
  if (a.data_ == b.data_) return true;
  return a.key() == b.key() && a.type() == b.type() &&
         (a.type().bytes() == 0 || std::memcmp(a.bytes(), b.bytes(), a.type().bytes()) == 0);
}

}  // namespace tidu
