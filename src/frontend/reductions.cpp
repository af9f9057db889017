// reductions.cpp - reductions of Arrays, and functions that are composed of reductions.
#include <cmath>
#include <limits>

#include "frontend/elementwise.hpp"
#include "frontend/norms.hpp"
#include "primitives/slopes.hpp"
#include "primitives/softmax.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::as_bool;
using frontend_detail::broadcast;
using frontend_detail::convert;
using frontend_detail::inexact;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::normal_axis;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::widened;
using prim::has_16_bits;

// The axes as bits of a number that is not negative.
std::int64_t mask_of(const Axes& axes, std::size_t rank, const char* name, Where where) {
  constexpr std::size_t most = 62;
  if (rank > most) {
    refuse(ErrorKind::invalid_argument, name,
           detail::str("expected an Array of at most ", most, " dimensions, got one of ", rank), where);
  }
  if (axes.all()) return static_cast<std::int64_t>((std::uint64_t{1} << rank) - 1);
  std::int64_t mask = 0;
  for (const std::int64_t axis : axes.list()) {
    const std::int64_t bit = std::int64_t{1} << normal_axis(axis, rank, name, where);
    if ((mask & bit) != 0) {
      refuse(ErrorKind::invalid_argument, name,
             detail::str("expected different axes, got ", detail::list(axes.list())), where);
    }
    mask |= bit;
  }
  return mask;
}

Ints axes_of(std::int64_t mask) {
  Ints axes;
  for (std::int64_t axis = 0; mask >> axis != 0; ++axis)
    if ((mask >> axis & 1) != 0) axes.push_back(axis);
  return axes;
}

std::int64_t count(const Shape& shape, const Ints& axes) {
  std::int64_t n = 1;
  for (const std::int64_t axis : axes) n *= shape[static_cast<std::size_t>(axis)];
  return n;
}

// A reduction's result made to fill the shape from which it came.
Value spread(Value reduced, const Ints& axes, const Shape& shape) {
  return broadcast(axes.empty() ? reduced : ops::expand_dims(reduced, axes), shape);
}

// `body(x, axes)` reduces.
template <class F>
Array reduce(const char* name, const Array& x, const Axes& axes, bool keepdims, Where where, const F& body,
             std::int64_t extra = 0) {
  const std::int64_t static_args[] = {mask_of(axes, rank_of(x, name, where), name, where), keepdims ? 1 : 0,
                                      extra};
  const Input operands[] = {x};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Ints list = axes_of(static_args[0]);
        const Value reduced = body(v[0], list);
        return keepdims && !list.empty() ? ops::expand_dims(reduced, list) : reduced;
      },
      where);
}

Value as_number(Value x) { return is_bool(x.dtype()) ? convert(x, i64) : x; }

Value mean_of(Value x, const Ints& axes) {
  const Value total = ops::reduce_sum(widened(x), axes);
  return convert(total / ops::full_like(total, static_cast<double>(count(x.shape(), axes))),
                 inexact(x.dtype()));
}

Value variance(Value x, const Ints& axes, std::int64_t ddof) {
  const Value y = widened(x);
  const Value distance = y - spread(mean_of(y, axes), axes, y.shape());
  const Value re = ops::square(is_complex(y.dtype()) ? ops::real(distance) : distance);
  const Value squared = is_complex(y.dtype()) ? re + ops::square(ops::imag(distance)) : re;
  const Value total = ops::reduce_sum(squared, axes);
  const auto freedom = static_cast<double>(count(x.shape(), axes) - ddof);
  return total / ops::full_like(total, freedom > 0 ? freedom : std::numeric_limits<double>::quiet_NaN());
}

using ArgReduction = Value (*)(Value, std::int64_t, DType, Where);

Array arg(const char* name, ArgReduction reduction, const Array& x, std::optional<std::int64_t> axis,
          Where where) {
  const std::int64_t static_args[] = {axis ? normal_axis(*axis, x, name, where) : -1};
  const Input operands[] = {x};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        if (static_args[0] >= 0) return reduction(v[0], static_args[0], i32, Where{});
        return reduction(ops::reshape(v[0], {v[0].type().size()}), 0, i32, Where{});
      },
      where);
}

using Cumulative = Value (*)(Value, std::int64_t, bool, Where);

template <Cumulative F>
Array cumulative(const char* name, const Array& x, std::int64_t axis, bool reverse, Where where,
                 bool needs_inexact = false) {
  const std::int64_t static_args[] = {normal_axis(axis, x, name, where), reverse ? 1 : 0};
  const Input operands[] = {x};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Value number = as_number(v[0]);
        return F(needs_inexact ? convert(number, inexact(number.dtype())) : number, static_args[0], reverse,
                 Where{});
      },
      where);
}

}  // namespace

Array sum(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("sum", x, axes, keepdims, where,
                [](Value v, const Ints& list) { return ops::reduce_sum(as_number(v), list); });
}
Array prod(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("prod", x, axes, keepdims, where,
                [](Value v, const Ints& list) { return ops::reduce_prod(as_number(v), list); });
}
Array max(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("max", x, axes, keepdims, where,
                [](Value v, const Ints& list) { return ops::reduce_max(v, list); });
}
Array min(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("min", x, axes, keepdims, where,
                [](Value v, const Ints& list) { return ops::reduce_min(v, list); });
}
Array all(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("all", x, axes, keepdims, where,
                [](Value v, const Ints& list) { return ops::reduce_and(as_bool(v), list); });
}
Array any(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("any", x, axes, keepdims, where,
                [](Value v, const Ints& list) { return ops::reduce_or(as_bool(v), list); });
}
Array count_nonzero(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("count_nonzero", x, axes, keepdims, where,
                [](Value v, const Ints& list) { return ops::reduce_sum(convert(as_bool(v), i64), list); });
}
Array mean(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("mean", x, axes, keepdims, where, mean_of);
}
Array var(const Array& x, const Axes& axes, std::int64_t ddof, bool keepdims, Where where) {
  return reduce(
      "var", x, axes, keepdims, where,
      [ddof](Value v, const Ints& list) {
        return has_16_bits(v.dtype()) ? convert(variance(v, list, ddof), v.dtype()) : variance(v, list, ddof);
      },
      ddof);
}
Array stddev(const Array& x, const Axes& axes, std::int64_t ddof, bool keepdims, Where where) {
  return reduce(
      "stddev", x, axes, keepdims, where,
      [ddof](Value v, const Ints& list) {
        const auto freedom = static_cast<double>(count(v.shape(), list) - ddof);
        const double divisor = std::sqrt(freedom > 0 ? freedom : std::numeric_limits<double>::quiet_NaN());
        const Value root = frontend_detail::deviation_of(widened(v), list, divisor);
        return has_16_bits(v.dtype()) ? convert(root, v.dtype()) : root;
      },
      ddof);
}
Array logsumexp(const Array& x, const Axes& axes, bool keepdims, Where where) {
  return reduce("logsumexp", x, axes, keepdims, where, [](Value v, const Ints& list) {
    return convert(prim::logsumexp_of(widened(v), list), inexact(v.dtype()));
  });
}

Array softmax(const Array& x, const Axes& axes, Where where) {
  return reduce("softmax", x, axes, false, where, [](Value v, const Ints& list) {
    return convert(prim::softmax_of(widened(v), list), inexact(v.dtype()));
  });
}
Array log_softmax(const Array& x, const Axes& axes, Where where) {
  return reduce("log_softmax", x, axes, false, where, [](Value v, const Ints& list) {
    return convert(prim::log_softmax_of(widened(v), list), inexact(v.dtype()));
  });
}

Array argmax(const Array& x, std::optional<std::int64_t> axis, Where where) {
  return arg("argmax", ops::argmax, x, axis, where);
}
Array argmin(const Array& x, std::optional<std::int64_t> axis, Where where) {
  return arg("argmin", ops::argmin, x, axis, where);
}

Array cumsum(const Array& x, std::int64_t axis, bool reverse, Where where) {
  return cumulative<ops::cumsum>("cumsum", x, axis, reverse, where);
}
Array cumprod(const Array& x, std::int64_t axis, bool reverse, Where where) {
  return cumulative<ops::cumprod>("cumprod", x, axis, reverse, where);
}
Array cummax(const Array& x, std::int64_t axis, bool reverse, Where where) {
  return cumulative<ops::cummax>("cummax", x, axis, reverse, where);
}
Array cummin(const Array& x, std::int64_t axis, bool reverse, Where where) {
  return cumulative<ops::cummin>("cummin", x, axis, reverse, where);
}
Array cumlogsumexp(const Array& x, std::int64_t axis, bool reverse, Where where) {
  return cumulative<ops::cumlogsumexp>("cumlogsumexp", x, axis, reverse, where, /*needs_inexact=*/true);
}

Array Array::sum(const Axes& axes, bool keepdims, Where where) const {
  return tidu::sum(*this, axes, keepdims, where);
}
Array Array::mean(const Axes& axes, bool keepdims, Where where) const {
  return tidu::mean(*this, axes, keepdims, where);
}

}  // namespace tidu
