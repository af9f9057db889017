// random.cpp - see random.hpp. Bits become numbers by integer and floating arithmetic that is exact.
#include "tidu/frontend/random.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "frontend/broadcast.hpp"
#include "tidu/frontend/creation.hpp"
#include "tidu/primitives/random.hpp"

namespace tidu::random {
namespace {

using frontend_detail::broadcast;
using frontend_detail::broadcast_shapes;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::normal_axis;
using frontend_detail::Operand;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_value;

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

// [..., count, 2]: keys that follow from each key.
Value split_keys(Value key, std::int64_t count) {
  const Value words = ops::random_bits(key, {count}, i64);
  const Ints last{static_cast<std::int64_t>(words.rank())};
  const Value upper = ops::expand_dims(upper_half(words), last);
  const Value lower = ops::expand_dims(lower_half(words), last);
  return ops::concatenate(std::array{upper, lower}, last[0]);
}

// The i-th of these for each key.
Value key_at(Value keys, std::int64_t i) {
  const std::size_t axis = keys.rank() - 2;
  Ints start(keys.rank(), 0), limit = keys.shape();
  start[axis] = i;
  limit[axis] = i + 1;
  return ops::squeeze(ops::slice(keys, start, limit), {static_cast<std::int64_t>(axis)});
}

Value whole_like(Value x, std::uint64_t bits) {
  return ops::full(*x.emitter(), x.type(), Literal::scalar(i64, static_cast<std::int64_t>(bits)));
}

// The remainder by `span` of the bits of an i64 as an unsigned number.
Value unsigned_rem(Value x, std::uint64_t span) {
  const Value zero = ops::full_like(x, 0.0), by = whole_like(x, span);
  const Value negative = ops::lt(x, zero);
  if (span >> 63 != 0) {  // at most one times; the two compare as signed ones where both are negative
    const Value reaches = ops::logical_and(negative, ops::ge(x, by));
    return ops::select_n(reaches, x, x - by);
  }
  // A negative x lacks 2^64. The correction is less than span; to avoid overflow, span minus the correction
  // is subtracted instead where that is possible.
  const std::uint64_t more = (~std::uint64_t{0} % span + 1) % span;
  const Value remainder = ops::rem(x, by);
  const Value positive = ops::select_n(ops::lt(remainder, zero), remainder, remainder + by);
  const Value rest = whole_like(x, span - more);
  const Value moved = ops::select_n(ops::ge(positive, rest), positive + whole_like(x, more), positive - rest);
  return ops::select_n(negative, remainder, moved);
}

// JAX's: twice as many random bits as the dtype has, modulo span.
Value offset_below(Value key, const Shape& shape, DType dtype, std::uint64_t span) {
  const Value keys = split_keys(key, 2);
  const bool wide = dtype == i64;
  const auto masked = [&](Value x) { return wide ? x : ops::logical_and(x, ops::full_like(x, 0xffffffff)); };
  const auto draw = [&](std::int64_t i) {
    return masked(ops::convert_element_type(ops::random_bits(key_at(keys, i), shape, dtype), i64));
  };
  const std::uint64_t half = (wide ? std::uint64_t{1} << 32 : std::uint64_t{1} << 16) % span;
  std::uint64_t multiplier = half * half;
  if (!wide) multiplier &= 0xffffffff;
  multiplier %= span;
  const Value upper = unsigned_rem(draw(0), span), lower = unsigned_rem(draw(1), span);
  const Value product = masked(upper * whole_like(upper, multiplier));
  return unsigned_rem(masked(product + lower), span);
}

// 0, 1, ... n - 1 in a random order: sorted by random numbers, as often as makes equal ones unlikely.
Value shuffled(Value key, std::int64_t n) {
  const auto rounds = static_cast<int>(
      std::ceil(3.0 * std::log(static_cast<double>(std::max<std::int64_t>(n, 1))) / std::log(4294967295.0)));
  Shape shape(key.shape().begin(), key.shape().end() - 1);
  shape.push_back(n);
  const std::int64_t axis = static_cast<std::int64_t>(shape.size()) - 1;
  Value places = ops::iota(*key.emitter(), Type(i64, shape), axis);
  for (int i = 0; i < rounds; ++i) {
    const Value keys = split_keys(key, 2);
    key = key_at(keys, 0);
    const Value drawn = ops::random_bits(key_at(keys, 1), {n}, i32);
    const Value as_unsigned = ops::logical_xor(drawn, ops::full_like(drawn, -0x1p31));  // the order of such
    places = ops::sort(std::array{as_unsigned, places}, axis, 1)[1];
  }
  return places;
}

// -log(-log(uniform in (0, 1))).
Value gumbel_of(Value key, const Shape& shape, DType dtype) {
  const double least = dtype == f64 ? 0x1p-1022 : 0x1p-126;
  return -ops::log(-ops::log(between(key, shape, dtype, least, 1.0)));
}

// One key: for several, their use would be ambiguous.
void require_one_key(const char* name, const Array& key, Where where) {
  if (rank_of(key, name, where) == 1) return;
  refuse(ErrorKind::type, name, detail::str("expected one key, i32[2], got ", key.type(), ": use vmap()"),
         where);
}

void require_floating(const char* name, DType dtype, Where where) {
  if (dtype == f32 || dtype == f64) return;
  refuse(ErrorKind::type, name, detail::str("expected dtype f32 or f64, got ", dtype), where);
}

template <class F>
Array draw(const char* name, const Array& key, std::span<const std::int64_t> first, const Shape& shape,
           Where where, const F& body) {
  Ints static_args(first.begin(), first.end());
  static_args.insert(static_args.end(), shape.begin(), shape.end());
  const Input operands[] = {key};
  return invoke(
      {name, static_args}, operands, [&](Emitter&, std::span<const Value> v) { return body(v[0]); }, where);
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
  return draw("random.split", key, {}, {count}, where, [count](Value k) { return split_keys(k, count); });
}

Array bits(const Array& key, const Shape& shape, DType dtype, Where where) {
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype)};
  return draw("random.bits", key, static_args, shape, where,
              [&](Value k) { return ops::random_bits(k, shape, dtype); });
}

Array uniform(const Array& key, const Shape& shape, DType dtype, double low, double high, Where where) {
  require_floating("random.uniform", dtype, where);
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype), std::bit_cast<std::int64_t>(low),
                                      std::bit_cast<std::int64_t>(high)};
  return draw("random.uniform", key, static_args, shape, where,
              [&](Value k) { return between(k, shape, dtype, low, high); });
}

Array normal(const Array& key, const Shape& shape, DType dtype, Where where) {
  require_floating("random.normal", dtype, where);
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype)};
  return draw("random.normal", key, static_args, shape, where, [&](Value k) {
    const double above =
        dtype == f64 ? std::nextafter(-1.0, 0.0) : static_cast<double>(std::nextafterf(-1.0F, 0.0F));
    const Value u = ops::erf_inv(between(k, shape, dtype, above, 1.0));
    return u * ops::full_like(u, std::sqrt(2.0));
  });
}

Array randint(const Array& key, const Shape& shape, std::int64_t low, std::int64_t high, DType dtype,
              Where where) {
  if (!is_integer(dtype)) {
    refuse(ErrorKind::type, "random.randint", detail::str("expected dtype i32 or i64, got ", dtype), where);
  }
  const auto span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min(), limit = std::int64_t{1} << 31;
  if (high <= low || (dtype == i32 && (low < least || high > limit))) {
    refuse(ErrorKind::invalid_argument, "random.randint",
           detail::str("expected low < high, and numbers that ", dtype, " holds between them, got ", low,
                       " and ", high),
           where);
  }
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype), low, high};
  return draw("random.randint", key, static_args, shape, where, [&](Value k) {
    const Value offset = offset_below(k, shape, dtype, span);
    const Value number = offset + whole_like(offset, static_cast<std::uint64_t>(low));
    return ops::convert_element_type(number, dtype);
  });
}

Array permutation(const Array& key, std::int64_t n, Where where) {
  if (n < 0) {
    refuse(ErrorKind::invalid_argument, "random.permutation", detail::str("expected n >= 0, got ", n), where);
  }
  return draw("random.permutation", key, {}, {n}, where, [n](Value k) { return shuffled(k, n); });
}

Array permutation(const Array& key, const Array& x, std::int64_t axis, Where where) {
  require_one_key("random.permutation", key, where);
  const std::int64_t static_args[] = {normal_axis(axis, x, "random.permutation", where)};
  const Input operands[] = {key, x};
  return invoke(
      {"random.permutation", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const std::int64_t n = v[1].shape()[static_cast<std::size_t>(static_args[0])];
        return n == 0 ? v[1] : ops::take(v[1], shuffled(v[0], n), static_args[0]);
      },
      where);
}

Array bernoulli(const Array& key, const ArrayLike& p) {
  if (p.array() != nullptr) require_value(*p.array(), "random.bernoulli", p.where());
  return bernoulli(key, p, p.array() != nullptr ? p.array()->shape() : Shape{});
}

Array bernoulli(const Array& key, const ArrayLike& p, const Shape& drawn) {
  const Where where = p.where();
  if (p.array() != nullptr) {
    require_value(*p.array(), "random.bernoulli", where);
    require_floating("random.bernoulli", p.array()->dtype(), where);
  }
  const Shape of_p = p.array() != nullptr ? p.array()->shape() : Shape{};
  const Operand probability("random.bernoulli", p, f64);
  const Input operands[] = {key, probability.input()};
  return invoke(
      {"random.bernoulli", drawn}, operands,
      [&](Emitter&, std::span<const Value> v) {
        if (broadcast_shapes(drawn, of_p, "random.bernoulli") != drawn) {
          throw Error(ErrorKind::type,
                      detail::str("[random.bernoulli] expected a shape that p (", v[1].type(),
                                  ") broadcasts to, got ", detail::list(drawn)));
        }
        const Value u = fraction(v[0], drawn, v[1].dtype());
        return ops::lt(u, broadcast(v[1], u.shape()));
      },
      where);
}

Array gumbel(const Array& key, const Shape& shape, DType dtype, Where where) {
  require_floating("random.gumbel", dtype, where);
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype)};
  return draw("random.gumbel", key, static_args, shape, where,
              [&](Value k) { return gumbel_of(k, shape, dtype); });
}

namespace {

Array categorical_of(const Array& key, const Array& logits, std::int64_t axis, const Shape* shape,
                     Where where) {
  constexpr auto name = "random.categorical";
  require_one_key(name, key, where);
  const std::int64_t at = normal_axis(axis, logits, name, where);
  require_floating(name, logits.dtype(), where);
  Shape batch = logits.shape();
  batch.erase(batch.begin() + at);
  Shape drawn = shape != nullptr ? *shape : batch;
  if (drawn.size() < batch.size() || !std::equal(batch.rbegin(), batch.rend(), drawn.rbegin())) {
    refuse(ErrorKind::type, name,
           detail::str("expected a shape that ends with the other axes of the logits, ", detail::list(batch),
                       ", got ", detail::list(drawn)),
           where);
  }
  drawn.resize(drawn.size() - batch.size());
  const std::int64_t along = at + static_cast<std::int64_t>(drawn.size());
  drawn.insert(drawn.end(), logits.shape().begin(), logits.shape().end());
  Ints static_args{along};
  static_args.insert(static_args.end(), drawn.begin(), drawn.end());
  const Input operands[] = {key, logits};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Value noise = gumbel_of(v[0], drawn, v[1].dtype());
        return ops::argmax(noise + broadcast(v[1], drawn), along);
      },
      where);
}

}  // namespace

Array categorical(const Array& key, const Array& logits, std::int64_t axis, Where where) {
  return categorical_of(key, logits, axis, nullptr, where);
}
Array categorical(const Array& key, const Array& logits, std::int64_t axis, const Shape& shape, Where where) {
  return categorical_of(key, logits, axis, &shape, where);
}

Array exponential(const Array& key, const Shape& shape, DType dtype, Where where) {
  require_floating("random.exponential", dtype, where);
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype)};
  return draw("random.exponential", key, static_args, shape, where,
              [&](Value k) { return -ops::log1p(-fraction(k, shape, dtype)); });
}

Array truncated_normal(const Array& key, double low, double high, const Shape& shape, DType dtype,
                       Where where) {
  require_floating("random.truncated_normal", dtype, where);
  if (!(low < high)) {
    refuse(ErrorKind::invalid_argument, "random.truncated_normal",
           detail::str("expected low < high, got ", low, " and ", high), where);
  }
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype), std::bit_cast<std::int64_t>(low),
                                      std::bit_cast<std::int64_t>(high)};
  return draw("random.truncated_normal", key, static_args, shape, where, [&](Value k) {
    const double root = std::sqrt(2.0);
    const auto rounded = [&](double x) {
      return dtype == f64 ? x : static_cast<double>(static_cast<float>(x));
    };
    const Value u = between(k, shape, dtype, rounded(std::erf(low / root)), rounded(std::erf(high / root)));
    const Value z = ops::full_like(u, root) * ops::erf_inv(u);
    const auto beside = [&](double x, double toward) {  // the number of `dtype` next to a bound
      return dtype == f64
                 ? std::nextafter(x, toward)
                 : static_cast<double>(std::nextafterf(static_cast<float>(x), static_cast<float>(toward)));
    };
    const Value inside = ops::max(z, ops::full_like(z, beside(low, INFINITY)));
    return ops::min(inside, ops::full_like(z, beside(high, -INFINITY)));
  });
}

}  // namespace tidu::random
