// random.cpp - see random.hpp. Bits become numbers by integer and floating arithmetic that is exact.
#include "tidu/frontend/random.hpp"

#include <bit>
#include <cmath>

#include "frontend/broadcast.hpp"
#include "tidu/frontend/creation.hpp"
#include "tidu/primitives/random.hpp"

namespace tidu::random {
namespace {

using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::refuse;

// The bits of the integers in [-2^31, 2^31) that the lower halves of an i64 are.
Value lower_half(Value x) {
  const Value low = ops::logical_and(x, ops::full_like(x, 0xffffffff));
  const Value sign = ops::full_like(x, 0x80000000);
  return ops::convert_element_type(ops::logical_xor(low, sign) - sign, i32);
}

Value upper_half(Value x) {
  const Value low = ops::logical_and(x, ops::full_like(x, 0xffffffff));
  const Value cleared = x - low;
  return ops::convert_element_type(cleared / ops::full_like(x, 0x100000000), i32);
}

// In [0, 1): the upper 23 (f32) or 52 (f64) bits as a fraction. Without the lower bits the signed integer is
// exact in `dtype`; where it is negative, its highest bit counts -1/2 instead of 1/2.
Value fraction(Value key, const Shape& shape, DType dtype) {
  const bool wide = dtype == f64;
  const Value drawn = ops::random_bits(key, shape, wide ? i64 : i32);
  const Value upper = ops::logical_and(drawn, ops::full_like(drawn, wide ? -4096.0 : -512.0));
  const Value number = ops::convert_element_type(upper, dtype);
  const Value part = number * ops::full_like(number, wide ? 0x1p-64 : 0x1p-32);
  const Value zero = ops::full_like(part, 0.0);
  const Value moved = part + ops::full_like(part, 1.0);
  return ops::select_n(ops::lt(part, zero), part, moved);
}

// In [low, high), which are numbers of `dtype`.
Value between(Value key, const Shape& shape, DType dtype, double low, double high) {
  const Value part = fraction(key, shape, dtype);
  if (low == 0.0 && high == 1.0) return part;
  const double width =
      dtype == f64 ? high - low : static_cast<double>(static_cast<float>(high) - static_cast<float>(low));
  const Value least = ops::full_like(part, low);
  const Value scaled = part * ops::full_like(part, width);
  return ops::max(least, scaled + least);
}

void require_floating(const char* name, DType dtype, Where where) {
  if (dtype == f32 || dtype == f64) return;
  refuse(ErrorKind::type, name, detail::str("expected dtype f32 or f64, got ", dtype), where);
}

template <class F>
Array draw(const char* name, const Array& key, std::span<const std::int64_t> first, const Shape& shape,
           Where where, const F& body) {
  Ints words(first.begin(), first.end());
  words.insert(words.end(), shape.begin(), shape.end());
  const Input operands[] = {key};
  return invoke(
      {name, words}, operands, [&](Emitter&, std::span<const Value> v) { return body(v[0]); }, where);
}

}  // namespace

Array key(std::int64_t seed, Where) {
  const std::int32_t halves[] = {static_cast<std::int32_t>(seed >> 32),
                                 static_cast<std::int32_t>(static_cast<std::uint32_t>(seed & 0xffffffff))};
  return array(std::span<const std::int32_t>(halves), {2});
}

Array split(const Array& key, std::int64_t count, Where where) {
  if (count < 0)
    refuse(ErrorKind::invalid_argument, "random.split", detail::str("expected a count >= 0, got ", count),
           where);
  return draw("random.split", key, {}, {count}, where, [count](Value k) {
    const Value words = ops::random_bits(k, {count}, i64);
    const Ints last{static_cast<std::int64_t>(words.rank())};
    const Value upper = ops::expand_dims(upper_half(words), last);
    const Value lower = ops::expand_dims(lower_half(words), last);
    return ops::concatenate(std::array{upper, lower}, last[0]);
  });
}

Array bits(const Array& key, const Shape& shape, DType dtype, Where where) {
  const std::int64_t words[] = {static_cast<std::int64_t>(dtype)};
  return draw("random.bits", key, words, shape, where,
              [&](Value k) { return ops::random_bits(k, shape, dtype); });
}

Array uniform(const Array& key, const Shape& shape, DType dtype, double low, double high, Where where) {
  require_floating("random.uniform", dtype, where);
  const std::int64_t words[] = {static_cast<std::int64_t>(dtype), std::bit_cast<std::int64_t>(low),
                                std::bit_cast<std::int64_t>(high)};
  return draw("random.uniform", key, words, shape, where,
              [&](Value k) { return between(k, shape, dtype, low, high); });
}

Array normal(const Array& key, const Shape& shape, DType dtype, Where where) {
  require_floating("random.normal", dtype, where);
  const std::int64_t words[] = {static_cast<std::int64_t>(dtype)};
  return draw("random.normal", key, words, shape, where, [&](Value k) {
    const double above =
        dtype == f64 ? std::nextafter(-1.0, 0.0) : static_cast<double>(std::nextafterf(-1.0F, 0.0F));
    const Value u = ops::erf_inv(between(k, shape, dtype, above, 1.0));
    return u * ops::full_like(u, std::sqrt(2.0));
  });
}

}  // namespace tidu::random
