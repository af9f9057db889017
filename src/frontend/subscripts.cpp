// subscripts.cpp - see subscripts.hpp.
#include "frontend/subscripts.hpp"

#include <algorithm>
#include <numeric>

#include "frontend/broadcast.hpp"

namespace tidu::frontend_detail {
namespace {

// Negative positions count from the end of an axis of this extent.
Value from_the_end(Value indices, std::int64_t extent) {
  if (indices.dtype() == i32 && extent > std::int64_t{0x7fffffff}) indices = convert(indices, i64);
  const Value zero = ops::full_like(indices, 0.0);
  const Value negative = ops::lt(indices, zero);
  return ops::select_n(negative, indices, indices + ops::full_like(indices, static_cast<double>(extent)));
}

void require_integers(const Subscript& indices, std::string_view function) {
  require_value(indices.array(), function, indices.where());
  if (is_integer(indices.array().dtype(indices.where()))) return;
  refuse(ErrorKind::type, function,
         detail::str("expected integers, got ", indices.array().type(),
                     is_bool(indices.array().dtype())
                         ? ": the number of elements that a mask selects is unknown before it runs; choose "
                           "between values by where(), or set the selected elements by at(mask)"
                         : ""),
         indices.where());
}

// The number of axes of x for the ellipsis, or after all others; throws for too many subscripts.
std::int64_t axes_left(std::string_view function, const Array& x, std::span<const Subscript> list) {
  std::int64_t used = 0, ellipses = 0;
  for (const Subscript& i : list) {
    const bool is_ellipsis = i.kind() == Subscript::Kind::other_axes;
    used += is_ellipsis || i.kind() == Subscript::Kind::new_axis ? 0 : 1;
    ellipses += is_ellipsis ? 1 : 0;
    if (ellipses > 1) {
      refuse(ErrorKind::invalid_argument, function, "expected one ellipsis at most, got a second one",
             i.where());
    }
  }
  const Where where = list.empty() ? Where{} : list[0].where();
  const auto rank = static_cast<std::int64_t>(rank_of(x, function, where));
  if (used > rank) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected at most ", rank, " subscripts for ", x.type(), ", got ", used), where);
  }
  return rank - used;
}

Shape permuted(const Shape& shape, const Ints& permutation) {
  Shape result;
  for (const std::int64_t axis : permutation) result.push_back(shape[static_cast<std::size_t>(axis)]);
  return result;
}
Ints inverse(const Ints& permutation) {
  Ints result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    result[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  return result;
}

}  // namespace

std::int64_t position_along(std::int64_t axis, std::int64_t position, std::string_view function,
                            const Array& x, Where where) {
  const std::int64_t extent = x.shape()[static_cast<std::size_t>(axis)];
  if (position < -extent || position >= extent) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected a position along axis ", axis, " of ", x.type(), ", got ", position), where);
  }
  return position < 0 ? position + extent : position;
}

Subscripts::Subscripts(std::string_view function, const Array& x, std::span<const Subscript> list) {
  using Kind = Subscript::Kind;
  const std::int64_t left = axes_left(function, x, list);
  bool any_indices = false, separated = false, behind = false;
  for (const Subscript& i : list) any_indices = any_indices || i.kind() == Kind::indices;
  std::int64_t axis = 0;
  const auto whole_axes = [&](std::int64_t count) {
    for (; count > 0; --count, ++axis) {
      ranges_.push_back({0, x.shape()[static_cast<std::size_t>(axis)], 1, false});
      dropped_.push_back(false);
      layout_.push_back(axis);
    }
  };
  for (const Subscript& i : list) {
    const bool names = any_indices && (i.kind() == Kind::indices || i.kind() == Kind::position);
    if (names) {
      const bool first = std::find(layout_.begin(), layout_.end(), named_axes) == layout_.end();
      if (first) layout_.push_back(named_axes);
      separated = separated || (!first && behind);
    }
    behind = !names;
    switch (i.kind()) {
      case Kind::new_axis: layout_.push_back(new_axis); break;
      case Kind::other_axes: whole_axes(left); break;
      case Kind::part:
        ranges_.push_back(range_of(i.part(), x.shape()[static_cast<std::size_t>(axis)], function, i.where()));
        dropped_.push_back(false);
        layout_.push_back(axis++);
        break;
      case Kind::position: {
        const std::int64_t position = position_along(axis++, i.position(), function, x, i.where());
        ranges_.push_back({position, position + 1, 1, false});
        dropped_.push_back(true);
        break;
      }
      case Kind::indices:
        require_integers(i, function);
        ranges_.push_back({0, x.shape()[static_cast<std::size_t>(axis)], 1, false});
        dropped_.push_back(false);
        indexed_.push_back(axis++);
        indices_.push_back(i.array());
        break;
    }
  }
  whole_axes(static_cast<std::int64_t>(x.ndim()) - axis);
  if (separated) {
    layout_.erase(std::find(layout_.begin(), layout_.end(), named_axes));
    layout_.insert(layout_.begin(), named_axes);
  }
}

Subscripts::Subscripts(std::string_view function, const Array& x, std::span<const Slice> parts, Where where) {
  const Ranges given(function, x, parts, where);
  ranges_.assign(given.list().begin(), given.list().end());
  for (std::size_t axis = ranges_.size(); axis < x.ndim(); ++axis)
    ranges_.push_back({0, x.shape()[axis], 1, false});
  dropped_.assign(ranges_.size(), false);
  layout_.resize(ranges_.size());
  std::iota(layout_.begin(), layout_.end(), std::int64_t{0});
}

// The axes, their ranges and kinds; then the layout. An axis is 2 if indices select elements along it.
Ints Subscripts::static_args() const {
  Ints static_args{static_cast<std::int64_t>(ranges_.size())};
  for (std::size_t axis = 0; axis < ranges_.size(); ++axis) {
    const Range& range = ranges_[axis];
    const bool named =
        std::find(indexed_.begin(), indexed_.end(), static_cast<std::int64_t>(axis)) != indexed_.end();
    static_args.insert(static_args.end(),
                       {range.start, range.limit, range.reversed ? -range.step : range.step,
                        named            ? 2
                        : dropped_[axis] ? 1
                                         : 0});
  }
  static_args.insert(static_args.end(), layout_.begin(), layout_.end());
  return static_args;
}

Subscripts::Subscripts(const Ints& static_args) {
  const auto count = static_cast<std::size_t>(static_args[0]);
  for (std::size_t axis = 0; axis < count; ++axis) {
    const std::int64_t* const of_axis = static_args.data() + 1 + 4 * axis;
    ranges_.push_back({of_axis[0], of_axis[1], std::abs(of_axis[2]), of_axis[2] < 0});
    dropped_.push_back(of_axis[3] == 1);
    if (of_axis[3] == 2) indexed_.push_back(static_cast<std::int64_t>(axis));
  }
  layout_.assign(static_args.begin() + 1 + 4 * static_cast<std::ptrdiff_t>(count), static_args.end());
}

Value Subscripts::part(Value x) const {
  for (std::size_t axis = 0; axis < ranges_.size(); ++axis) {
    const Range& range = ranges_[axis];
    if (range.start != 0 || range.limit != x.shape()[axis] || range.step != 1 || range.reversed)
      return part_of(x, ranges_);
  }
  return x;
}

Shape Subscripts::shape(const Shape& part, const Shape& named) const {
  Shape shape;
  for (const std::int64_t axis : layout_) {
    if (axis == named_axes) {
      shape.insert(shape.end(), named.begin(), named.end());
    } else {
      shape.push_back(axis == new_axis ? 1 : part[static_cast<std::size_t>(axis)]);
    }
  }
  return shape;
}

Value Subscripts::without_positions(Value part) const {
  Shape shape;
  for (std::size_t axis = 0; axis < dropped_.size(); ++axis) {
    if (!dropped_[axis]) shape.push_back(part.shape()[axis]);
  }
  return shape == part.shape() ? part : ops::reshape(part, shape);
}

Ints Subscripts::named_first() const {
  Ints first, others;
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < dropped_.size(); ++axis) {
    if (dropped_[axis]) continue;
    const bool named =
        std::find(indexed_.begin(), indexed_.end(), static_cast<std::int64_t>(axis)) != indexed_.end();
    (named ? first : others).push_back(place++);
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

std::int64_t Subscripts::place_of_named() const {
  std::int64_t place = 0;
  for (const std::int64_t axis : layout_) {
    if (axis == named_axes) break;
    place += axis == new_axis ? 0 : 1;
  }
  return place;
}

bool Subscripts::is_named_first() const {
  return !layout_.empty() && layout_[0] == named_axes &&
         std::find(layout_.begin(), layout_.end(), new_axis) == layout_.end();
}

Value Subscripts::rows(Value part) const {
  const Value transposed = ops::transpose(without_positions(part), named_first());
  const auto count = static_cast<std::ptrdiff_t>(indexed_.size());
  Shape shape{num_elements(Shape(transposed.shape().begin(), transposed.shape().begin() + count))};
  shape.insert(shape.end(), transposed.shape().begin() + count, transposed.shape().end());
  return ops::reshape(transposed, shape);
}

Value Subscripts::from_rows(Value rows, const Shape& part) const {
  Shape kept;
  for (std::size_t axis = 0; axis < dropped_.size(); ++axis) {
    if (!dropped_[axis]) kept.push_back(part[axis]);
  }
  const Ints order = named_first();
  return ops::reshape(ops::transpose(ops::reshape(rows, permuted(kept, order)), inverse(order)), part);
}

Value Subscripts::named(const Shape& part, std::span<const Value> indices, bool leave_out,
                        const char* name) const {
  const auto extent_of = [&](std::size_t i) { return part[static_cast<std::size_t>(indexed_[i])]; };
  if (indices.size() == 1) return from_the_end(indices[0], extent_of(0));
  Shape shape, extents;
  for (std::size_t i = 0; i < indices.size(); ++i) extents.push_back(extent_of(i));
  DType dtype = num_elements(extents) > std::int64_t{0x7fffffff} ? i64 : i32;
  for (const Value index : indices) {
    shape = broadcast_shapes(shape, index.shape(), name);
    dtype = promote(dtype, index.dtype());
  }
  const auto number = [&](Value like, std::int64_t value) {
    return ops::full_like(like, static_cast<double>(value));
  };
  Value place, inside;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Value index = from_the_end(broadcast(convert(indices[i], dtype), shape), extents[i]);
    const Value zero = number(index, 0), end = number(index, extents[i] - 1);
    if (leave_out) {
      const Value there = ops::logical_and(ops::ge(index, zero), ops::le(index, end));
      inside = i == 0 ? there : ops::logical_and(inside, there);
    } else {
      index = ops::max(ops::min(index, end), zero);
    }
    place = i == 0 ? index : place * number(index, extents[i]) + index;
  }
  return leave_out ? ops::select_n(inside, number(place, -1), place) : place;
}

Value Subscripts::to_named(Value read, std::size_t named_rank) const {
  Shape without_new;
  std::size_t axis = 0;
  for (const std::int64_t of : layout_) {
    const std::size_t count = of == named_axes ? named_rank : 1;
    for (std::size_t i = 0; i < count; ++i, ++axis) {
      if (of != new_axis) without_new.push_back(read.shape()[axis]);
    }
  }
  const auto from = place_of_named(), to = from + static_cast<std::int64_t>(named_rank);
  Ints order(without_new.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    order[i] = place < to - from ? from + place : place < to ? place - (to - from) : place;
  }
  return ops::transpose(ops::reshape(read, without_new), order);
}

Value Subscripts::read(Value x, std::span<const Value> indices, const char* name) const {
  const Value taken = part(x);
  if (indices.empty()) return ops::reshape(taken, shape(taken.shape(), {}));
  const Value place = named(taken.shape(), indices, false, name);
  const Shape result = shape(taken.shape(), place.shape());
  // One axis need not be moved to the front if its position is that of its elements.
  if (const Ints order = named_first(); indices.size() == 1 && order[0] == place_of_named())
    return ops::reshape(ops::take(without_positions(taken), place, order[0]), result);
  const Value found = ops::take(rows(taken), place, 0);
  const auto count = static_cast<std::int64_t>(place.rank()), to = place_of_named();
  Ints order(found.rank());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    order[i] = at < to ? count + at : at < to + count ? at - to : at;
  }
  return ops::reshape(ops::transpose(found, order), result);
}

}  // namespace tidu::frontend_detail
