// number.cpp - numbers of the program as elements of a dtype.
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include "frontend/broadcast.hpp"
#include "graph/round_to_odd.hpp"

namespace tidu::frontend_detail {
namespace {

template <class T>
Tensor scalar_of(DType dtype, T value) {
  Tensor tensor{Type(dtype)};
  std::memcpy(tensor.mutable_bytes(), &value, sizeof value);
  return tensor;
}

[[noreturn]] void refuse_number(const Number& value, DType dtype) {
  const auto [least, most] =
      dtype == i32
          ? std::pair<std::int64_t, std::int64_t>{std::numeric_limits<std::int32_t>::min(),
                                                  std::numeric_limits<std::int32_t>::max()}
          : std::pair{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  const std::string expected =
      detail::str("expected a number from ", least, " to ", most, ", which ", dtype, " holds, got ");
  throw Error(ErrorKind::type,
              value.is_whole() ? detail::str(expected, value.whole()) : detail::str(expected, value.value()));
}

}  // namespace

void refuse_for_i64(std::uint64_t value) {
  throw Error(ErrorKind::type,
              detail::str("[Array] expected an integer of at most ", std::numeric_limits<std::int64_t>::max(),
                          ", which i64 holds, got ", value));
}

std::int64_t whole_element(DType dtype, const Number& value) {
  std::int64_t whole = 0;
  if (value.is_whole()) {
    whole = value.whole();
  } else {
    constexpr double limit = 0x1p63;
    if (!(value.value() >= -limit && value.value() < limit)) refuse_number(value, dtype);
    whole = static_cast<std::int64_t>(value.value());
  }
  if (dtype == i32 && whole != static_cast<std::int32_t>(whole)) refuse_number(value, dtype);
  return whole;
}

double real_element(DType dtype, const Number& value) {
  const bool has_doubles = dtype == f64 || dtype == c128;
  return value.is_whole() && !has_doubles ? detail::round_to_odd(value.whole()) : value.value();
}

Tensor number(DType dtype, const Number& value) {
  switch (dtype) {
    case f64: return scalar_of(dtype, value.value());
    case f32: return scalar_of(dtype, static_cast<float>(real_element(dtype, value)));
    case i64: return scalar_of(dtype, whole_element(dtype, value));
    case i32: return scalar_of(dtype, static_cast<std::int32_t>(whole_element(dtype, value)));
    default: return Tensor::scalar(dtype, real_element(dtype, value));
  }
}

Tensor known_number(DType dtype, const Number& value) { return context().numbers.get(dtype, value); }

Tensor Operand::tensor_of(std::string_view function, const ArrayLike& x, DType dtype) try {
  if (x.imaginary()) return Tensor::scalar(dtype, std::complex(x.number().value(), *x.imaginary()));
  return known_number(dtype, x.number());
} catch (const Error& error) {
  if (error.kind() != ErrorKind::type) throw;
  refuse(error.kind(), function, error.what(), x.where());
}

DType number_dtype(const ArrayLike& number, DType dtype) {
  if (is_complex(number.dtype())) return is_complex(dtype) ? dtype : promote(inexact(dtype), c64);
  if (is_floating(number.dtype())) return inexact(dtype);
  if (is_integer(number.dtype())) return is_bool(dtype) ? number.dtype() : dtype;
  return dtype;
}

}  // namespace tidu::frontend_detail
