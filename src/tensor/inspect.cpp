// inspect.cpp - counting zeros, NaNs and infinities.
#include "tidu/tensor/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tidu {
namespace {

struct Kind {
  bool (*holds)(std::complex<double>);
  const char* one;
  const char* many;
};

bool finite(std::complex<double> z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); }

constexpr Kind kinds[] = {
    {[](std::complex<double> z) { return std::isnan(z.real()) || std::isnan(z.imag()); }, "NaN", "NaNs"},
    {[](std::complex<double> z) { return std::isinf(z.real()) || std::isinf(z.imag()); }, "infinity",
     "infinities"},
    {[](std::complex<double> z) { return z == std::complex<double>(0); }, "zero", "zeros"},
};

std::string place(const Tensor& tensor, std::int64_t index) {
  std::vector<std::int64_t> at(tensor.rank());
  for (std::size_t axis = tensor.rank(); axis-- > 0;) {
    at[axis] = index % tensor.dim(axis);
    index /= tensor.dim(axis);
  }
  return detail::list(at);
}

}  // namespace

bool all_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f64: {
      const auto values = tensor.elements<double>();
      return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
    }
    case DType::f32: {
      const auto values = tensor.elements<float>();
      return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
    }
    case DType::boolean:
    case DType::i32:
    case DType::i64: return true;
    default: break;
  }
  for (std::int64_t i = 0; i < tensor.size(); ++i)
    if (!finite(tensor.at(i))) return false;
  return true;
}

bool all_zero(const Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.size(); ++i)
    if (tensor.at(i) != std::complex<double>(0)) return false;
  return true;
}

std::string element_statistics(const Tensor& tensor, std::size_t places) {
  std::string text = to_string(tensor.type());
  const char* separator = " has ";
  for (const Kind& kind : kinds) {
    std::int64_t count = 0;
    std::string at;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      if (!kind.holds(tensor.at(i))) continue;
      if (static_cast<std::size_t>(count++) < places && tensor.rank() != 0) at += ' ' + place(tensor, i);
    }
    if (count == 0) continue;
    text += detail::str(separator, count, ' ', count == 1 ? kind.one : kind.many, at.empty() ? "" : ", at",
                        at, !at.empty() && static_cast<std::size_t>(count) > places ? " ..." : "");
    separator = "; ";
  }
  bool any = false;
  double least = 0;
  double largest = 0;
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const std::complex<double> z = tensor.at(i);
    if (!finite(z)) continue;
    const double x = is_complex(tensor.dtype()) ? std::abs(z) : z.real();
    least = any ? std::min(least, x) : x;
    largest = any ? std::max(largest, x) : x;
    any = true;
  }
  if (any) {
    text += detail::str(separator == std::string_view(" has ") ? ", " : "; ",
                        is_complex(tensor.dtype()) ? "finite magnitudes" : "finite values", " from ", least,
                        " to ", largest);
  }
  return text;
}

Tensor detail::ones_of(Type type) {
  const Tensor one(Literal::scalar(type.dtype(), 1.0));
  Tensor result(type);
  std::byte* to = result.mutable_bytes();
  for (std::int64_t i = 0; i < type.size(); ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * one.num_bytes(), one.bytes(), one.num_bytes());
  return result;
}

}  // namespace tidu
