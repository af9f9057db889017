// shapes.cpp - layout functions of Arrays.
#include <algorithm>

#include "frontend/broadcast.hpp"
#include "frontend/ranges.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace frontend_detail {

Range range_of(const Slice& part, std::int64_t extent, std::string_view function, Where where) {
  if (part.step == 0)
    refuse(ErrorKind::invalid_argument, function, "expected a step that is not 0, got 0", where);
  const auto bounded = [&](std::int64_t position, std::int64_t least, std::int64_t most) {
    return std::clamp(position < 0 ? position + extent : position, least, most);
  };
  if (part.step > 0) {
    const std::int64_t start = bounded(part.start.value_or(0), 0, extent);
    return {start, std::max(start, part.stop ? bounded(*part.stop, 0, extent) : extent), part.step, false};
  }
  // Backward from `from` to just above `to`: the same elements forward, then reversed.
  const std::int64_t from = part.start ? bounded(*part.start, -1, extent - 1) : extent - 1;
  const std::int64_t to = part.stop ? bounded(*part.stop, -1, extent - 1) : -1;
  const std::int64_t step = -std::max(part.step, -std::max<std::int64_t>(extent, 1));  // one element is one
  const std::int64_t count = from > to ? (from - to + step - 1) / step : 0;
  if (count == 0) return {0, 0, step, true};
  return {from - (count - 1) * step, from + 1, step, true};
}

Ranges::Ranges(std::string_view function, const Array& x, std::span<const Slice> parts, Where where) {
  if (parts.size() > rank_of(x, function, where)) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected at most ", x.ndim(), " parts for ", x.type(), ", got ", parts.size()),
           where);
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    ranges_.push_back(range_of(parts[i], x.shape()[i], function, where));
}

Ints Ranges::static_args() const {
  Ints static_args;
  for (const Range& range : ranges_)
    static_args.insert(static_args.end(),
                       {range.start, range.limit, range.reversed ? -range.step : range.step});
  return static_args;
}

Value part_of(Value x, std::span<const Range> ranges) {
  Ints start(x.rank(), 0), limit = x.shape(), step(x.rank(), 1), reversed;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    start[i] = ranges[i].start;
    limit[i] = ranges[i].limit;
    step[i] = ranges[i].step;
    if (ranges[i].reversed) reversed.push_back(static_cast<std::int64_t>(i));
  }
  const Value part = ops::slice(x, start, limit, step);
  return reversed.empty() ? part : ops::rev(part, reversed);
}

}  // namespace frontend_detail

namespace {

using frontend_detail::broadcast;
using frontend_detail::broadcast_shapes;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::normal_axes;
using frontend_detail::normal_axis;
using frontend_detail::promoted;
using frontend_detail::Ranges;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_value;

// A call with one operand and these static arguments.
template <class F>
Array shaped(const char* name, const Array& x, std::span<const std::int64_t> static_args, Where where,
             const F& body) {
  const Input operands[] = {x};
  return invoke(
      {name, static_args}, operands, [&](Emitter&, std::span<const Value> v) { return body(v[0]); }, where);
}

// Extent -1 filled in, but beside an extent of 0, where it may be any.
Shape resolved(const Array& x, const Shape& shape, Where where) {
  Shape result = shape;
  const auto open = std::find(result.begin(), result.end(), -1);
  std::int64_t known = 1;
  for (const std::int64_t extent : result)
    if (extent != -1) known *= extent;
  if (open != result.end() && known > 0) *open = x.size() / known;
  std::int64_t count = 1;
  bool negative = false;
  for (const std::int64_t extent : result) {
    count *= extent;
    negative = negative || extent < 0;
  }
  if (negative || count != x.size()) {
    refuse(ErrorKind::type, "reshape",
           detail::str("expected a shape of ", x.size(), " elements as ", x.type(), " has, got ",
                       detail::list(shape)),
           where);
  }
  return result;
}

void require_count(std::int64_t count, std::string_view function, Where where) {
  if (count < 0) {
    refuse(ErrorKind::invalid_argument, function, detail::str("expected a count of 0 or more, got ", count),
           where);
  }
}

}  // namespace

Array reshape(const Array& x, const Shape& shape, Where where) {
  require_value(x, "reshape", where);
  const Shape target = resolved(x, shape, where);
  return shaped("reshape", x, target, where, [&](Value v) { return ops::reshape(v, target); });
}

Array flatten(const Array& x, Where where) {
  require_value(x, "flatten", where);
  return reshape(x, {x.size()}, where);
}

Array transpose(const Array& x, const Axes& permutation, Where where) {
  Ints order;
  if (permutation.all()) {
    for (std::size_t i = rank_of(x, "transpose", where); i > 0; --i)
      order.push_back(static_cast<std::int64_t>(i) - 1);
  } else {
    for (const std::int64_t axis : permutation.list())
      order.push_back(normal_axis(axis, x, "transpose", where));
    if (normal_axes(permutation, x, "transpose", where).size() != x.ndim()) {
      refuse(ErrorKind::invalid_argument, "transpose",
             detail::str("expected each of ", x.ndim(), " axes once, got ", detail::list(permutation.list())),
             where);
    }
  }
  return shaped("transpose", x, order, where, [&](Value v) { return ops::transpose(v, order); });
}

Array swapaxes(const Array& x, std::int64_t a, std::int64_t b, Where where) {
  Ints order;
  for (std::size_t i = 0; i < rank_of(x, "swapaxes", where); ++i)
    order.push_back(static_cast<std::int64_t>(i));
  std::swap(order[static_cast<std::size_t>(normal_axis(a, x, "swapaxes", where))],
            order[static_cast<std::size_t>(normal_axis(b, x, "swapaxes", where))]);
  return shaped("swapaxes", x, order, where, [&](Value v) { return ops::transpose(v, order); });
}

Array moveaxis(const Array& x, std::int64_t from, std::int64_t to, Where where) {
  const std::int64_t axis = normal_axis(from, x, "moveaxis", where);
  const std::int64_t place = normal_axis(to, x, "moveaxis", where);
  Ints order;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.ndim()); ++i)
    if (i != axis) order.push_back(i);
  order.insert(order.begin() + place, axis);
  return shaped("moveaxis", x, order, where, [&](Value v) { return ops::transpose(v, order); });
}

Array expand_dims(const Array& x, const Axes& axes, Where where) {
  const Ints list = axes.all() ? Ints{}
                               : normal_axes(axes, rank_of(x, "expand_dims", where) + axes.list().size(),
                                             "expand_dims", where);
  return shaped("expand_dims", x, list, where, [&](Value v) { return ops::expand_dims(v, list); });
}

Array squeeze(const Array& x, const Axes& axes, Where where) {
  Ints list;
  if (axes.all()) {
    for (std::size_t i = 0; i < rank_of(x, "squeeze", where); ++i)
      if (x.shape()[i] == 1) list.push_back(static_cast<std::int64_t>(i));
  } else {
    list = normal_axes(axes, x, "squeeze", where);
  }
  return shaped("squeeze", x, list, where, [&](Value v) { return ops::squeeze(v, list); });
}

Array broadcast_to(const Array& x, const Shape& shape, Where where) {
  return shaped("broadcast_to", x, shape, where, [&](Value v) {
    if (broadcast_shapes(v.shape(), shape, "broadcast_to") != shape) {
      throw Error(ErrorKind::type, detail::str("[broadcast_to] expected a shape that broadcasts to ",
                                               detail::list(shape), ", got ", v.type()));
    }
    return broadcast(v, shape);
  });
}

Array repeat(const Array& x, std::int64_t count, std::int64_t axis, Where where) {
  const std::int64_t at = normal_axis(axis, x, "repeat", where);
  require_count(count, "repeat", where);
  const std::int64_t static_args[] = {count, at};
  return shaped("repeat", x, static_args, where, [&](Value v) {
    Shape shape = v.shape(), wide = shape;
    Ints places;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.size()); ++i)
      places.push_back(i <= at ? i : i + 1);
    wide.insert(wide.begin() + at + 1, count);
    const Value repeated = ops::broadcast_in_dim(v, wide, places);  // throws for a size that no memory holds
    shape[static_cast<std::size_t>(at)] *= count;
    return ops::reshape(repeated, shape);
  });
}
Array repeat(const Array& x, std::int64_t count, Where where) {
  require_value(x, "repeat", where);
  return repeat(flatten(x, where), count, 0, where);
}

Array tile(const Array& x, const Shape& counts, Where where) {
  require_value(x, "tile", where);
  for (const std::int64_t count : counts) require_count(count, "tile", where);
  return shaped("tile", x, counts, where, [&](Value v) {
    const std::size_t rank = std::max(v.rank(), counts.size());
    Shape one, wide, shape;
    Ints places;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t before = rank - v.rank(), uncounted = rank - counts.size();
      one.push_back(i < before ? 1 : v.shape()[i - before]);
      wide.push_back(i < uncounted ? 1 : counts[i - uncounted]);
      wide.push_back(one.back());
      places.push_back(static_cast<std::int64_t>(2 * i + 1));
    }
    const Value tiled = ops::broadcast_in_dim(ops::reshape(v, one), wide, places);
    for (std::size_t i = 0; i < rank; ++i) shape.push_back(wide[2 * i] * one[i]);
    return ops::reshape(tiled, shape);
  });
}

Array flip(const Array& x, const Axes& axes, Where where) {
  const Ints list = normal_axes(axes, x, "flip", where);
  return shaped("flip", x, list, where, [&](Value v) { return ops::rev(v, list); });
}

Array roll(const Array& x, std::int64_t shift, std::int64_t axis, Where where) {
  const std::int64_t at = normal_axis(axis, x, "roll", where);
  const Shape& shape = x.shape();
  const std::int64_t extent = shape[static_cast<std::size_t>(at)];
  const std::int64_t by = extent == 0 ? 0 : (shift % extent + extent) % extent;
  const std::int64_t static_args[] = {by, at};
  return shaped("roll", x, static_args, where, [&](Value v) {
    if (by == 0) return v;
    Ints start(shape.size(), 0), middle = start, end(shape.begin(), shape.end()), last = end;
    const auto k = static_cast<std::size_t>(at);
    middle[k] = last[k] = extent - by;
    const std::vector<Value> parts{ops::slice(v, middle, end), ops::slice(v, start, last)};
    return ops::concatenate(parts, at);
  });
}
Array roll(const Array& x, std::int64_t shift, Where where) {
  require_value(x, "roll", where);
  return reshape(roll(flatten(x, where), shift, 0, where), x.shape(), where);
}

Array concatenate(std::span<const Array> parts, std::int64_t axis, Where where) {
  if (parts.empty())
    refuse(ErrorKind::invalid_argument, "concatenate", "expected at least one Array, got none", where);
  const std::int64_t static_args[] = {normal_axis(axis, parts[0], "concatenate", where)};
  std::vector<Input> operands;
  for (const Array& part : parts) operands.emplace_back(part);
  return invoke(
      {"concatenate", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        return ops::concatenate(promoted(v, v[0].dtype()), static_args[0]);
      },
      where);
}

Array stack(std::span<const Array> parts, std::int64_t axis, Where where) {
  if (parts.empty())
    refuse(ErrorKind::invalid_argument, "stack", "expected at least one Array, got none", where);
  const std::int64_t static_args[] = {
      normal_axis(axis, rank_of(parts[0], "stack", where) + 1, "stack", where)};
  std::vector<Input> operands;
  for (const Array& part : parts) {
    require_value(part, "stack", where);
    if (part.shape() != parts[0].shape()) {
      refuse(ErrorKind::type, "stack",
             detail::str("expected Arrays of one shape, got ", parts[0].type(), " and ", part.type()), where);
    }
    operands.emplace_back(part);
  }
  return invoke(
      {"stack", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        std::vector<Value> values = promoted(v, v[0].dtype());
        for (Value& value : values) value = ops::expand_dims(value, {static_args[0]});
        return ops::concatenate(values, static_args[0]);
      },
      where);
}

std::vector<Array> split(const Array& x, std::int64_t parts, std::int64_t axis, Where where) {
  const auto at = static_cast<std::size_t>(normal_axis(axis, x, "split", where));
  const std::int64_t extent = x.shape()[at];
  if (parts <= 0 || extent % parts != 0) {
    refuse(ErrorKind::type, "split",
           detail::str("expected a number of parts that divides ", extent, ", got ", parts), where);
  }
  std::vector<Array> results;
  std::vector<Slice> list(at + 1);
  for (std::int64_t i = 0; i < parts; ++i) {
    list[at] = {i * (extent / parts), (i + 1) * (extent / parts)};
    results.push_back(slice(x, list, where));
  }
  return results;
}

Array slice(const Array& x, std::span<const Slice> parts, Where where) {
  const Ranges ranges("slice", x, parts, where);
  return shaped("slice", x, ranges.static_args(), where,
                [&](Value v) { return frontend_detail::part_of(v, ranges.list()); });
}

Array Array::slice(std::initializer_list<Slice> parts, Where where) const {
  return tidu::slice(*this, std::span(parts.begin(), parts.size()), where);
}

Array take(const Array& x, const Array& indices, std::int64_t axis, Where where) {
  const std::int64_t static_args[] = {normal_axis(axis, x, "take", where)};
  const Input operands[] = {x, indices};
  return invoke(
      {"take", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return ops::take(v[0], v[1], static_args[0]); }, where);
}

Array take_along_axis(const Array& x, const Array& indices, std::int64_t axis, Where where) {
  const std::int64_t static_args[] = {normal_axis(axis, x, "take_along_axis", where)};
  const Input operands[] = {x, indices};
  return invoke(
      {"take_along_axis", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return ops::take_along_axis(v[0], v[1], static_args[0]); },
      where);
}

Array astype(const Array& x, DType dtype, Where where) {
  require_value(x, "astype", where);
  if (x.dtype() == dtype) return x;
  try {
    static_cast<void>(Type(dtype, {}));
  } catch (const Error& error) {
    refuse(error.kind(), "astype", error.what(), where);
  }
  const std::int64_t static_args[] = {static_cast<std::int64_t>(dtype)};
  return shaped("astype", x, static_args, where,
                [&](Value v) { return ops::convert_element_type(v, dtype); });
}

Array Array::to(DType dtype, Where where) const { return astype(*this, dtype, where); }
Array Array::reshape(const Shape& shape, Where where) const { return tidu::reshape(*this, shape, where); }
Array Array::T(Where where) const { return transpose(*this, {}, where); }
Array Array::copy(Where where) const {
  require_value(*this, "Array::copy", where);
  return tidu::reshape(*this, shape(), where);
}

}  // namespace tidu
