// at.cpp - see at.hpp. A place that is known becomes slices; what is computed there is put among the others
// by dynamic_update_slice, or, with steps, by padding. A place that is data becomes take and scatter_add: see
// at_rows.cpp.
#include "tidu/frontend/at.hpp"

#include <algorithm>
#include <utility>

#include "frontend/at_rows.hpp"
#include "frontend/broadcast.hpp"
#include "frontend/ranges.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::broadcast;
using frontend_detail::chosen;
using frontend_detail::fitting;
using frontend_detail::greater_of;
using frontend_detail::indexed_shape;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::joined;
using frontend_detail::less_of;
using frontend_detail::OfTwo;
using frontend_detail::Operand;
using frontend_detail::part_of;
using frontend_detail::Range;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_fit;
using frontend_detail::require_value;
using frontend_detail::with_axes_joined;
using frontend_detail::with_greatest;
using frontend_detail::with_least;
using frontend_detail::with_rows;
using frontend_detail::with_sums;

// x with `part` at these ranges of its first axes.
Value with_part(Value x, std::span<const Range> ranges, Value part) {
  Emitter& emitter = *x.emitter();
  IntLists config(x.rank(), Ints{0, 0, 0});
  Ints reversed;
  bool steps = false, narrow = true;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Range& range = ranges[i];
    if (range.count() == 0) return x;
    const std::int64_t end = range.start + (range.count() - 1) * range.step + 1, extent = x.shape()[i];
    config[i] = {range.start, extent - end, range.count() == 1 ? 0 : range.step - 1};
    steps = steps || config[i][2] > 0;
    narrow = narrow && extent <= std::int64_t{0x7fffffff};
    if (range.reversed) reversed.push_back(static_cast<std::int64_t>(i));
  }
  if (!reversed.empty()) part = ops::rev(part, reversed);
  if (!steps) {
    std::vector<Value> starts;
    for (const Ints& axis : config)
      starts.push_back(ops::full(emitter, Type(narrow ? i32 : i64), static_cast<double>(axis[0])));
    return ops::dynamic_update_slice(x, part, starts);
  }
  const Value there = ops::full(emitter, Type(bool_, part.shape()), 1.0);
  const Value inside = ops::pad(there, ops::full(emitter, Type(bool_), 0.0), config);
  const Value zero = ops::full(emitter, Type(x.dtype()), 0.0);
  return ops::select_n(inside, x, ops::pad(part, zero, config));
}

std::vector<Range> ranges_of(const Ints& words) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < words.size(); i += 3)
    ranges.push_back({words[i], words[i + 1], std::abs(words[i + 2]), words[i + 2] < 0});
  return ranges;
}

Value sum_with(Value there, Value v) {
  return is_bool(there.dtype()) ? ops::logical_or(there, v) : ops::add(there, v);
}
Value product_with(Value there, Value v) {
  return is_bool(there.dtype()) ? ops::logical_and(there, v) : ops::mul(there, v);
}
Value quotient(Value there, Value v) { return ops::div(there, v); }

// Refuses what is no integer, and more of them than axes.
void require_indices(const char* name, const Array& x, const Indices& indices, std::size_t count = 1) {
  const DType dtype = indices.array().dtype(indices.where());
  if (!is_integer(dtype)) {
    refuse(
        ErrorKind::type, name,
        detail::str("expected integers, got ", indices.array().type(),
                    is_bool(dtype) ? ": how many elements a mask takes nobody knows before it runs; choose "
                                     "between values by where(), or set what it selects by at(mask)"
                                   : ""),
        indices.where());
  }
  if (rank_of(x, name, indices.where()) >= count) return;
  refuse(ErrorKind::invalid_argument, name,
         detail::str("expected an Array with ",
                     count == 1 ? "axes" : detail::str(count, " axes or more, as many as indices"), ", got ",
                     x.type()),
         indices.where());
}
// One for each of the first axes; refuses none.
std::vector<Array> required_indices(const char* name, const Array& x,
                                    std::initializer_list<Indices> indices) {
  std::vector<Array> arrays;
  for (const Indices& axis : indices) {
    require_value(x, name, axis.where());
    require_indices(name, x, axis, indices.size());
    arrays.push_back(axis.array());
  }
  return arrays;
}

std::int64_t position_in(const Array& x, const char* name, const Index& i) {
  if (rank_of(x, name, i.where) == 0) {
    refuse(ErrorKind::invalid_argument, name, detail::str("expected an Array with axes, got ", x.type()),
           i.where);
  }
  const std::int64_t extent = x.shape()[0];
  if (i.value < -extent || i.value >= extent) {
    refuse(ErrorKind::invalid_argument, name,
           detail::str("expected a position along the first axis of ", x.type(), ", got ", i.value), i.where);
  }
  return i.value < 0 ? i.value + extent : i.value;
}

}  // namespace

Array Array::operator[](const Index& i) const {
  const std::int64_t words[] = {position_in(*this, "index", i)};
  const Input operands[] = {*this};
  return invoke(
      {"index", words}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Range range[] = {{words[0], words[0] + 1, 1, false}};
        return ops::squeeze(part_of(v[0], range), {0});
      },
      i.where);
}

namespace {

Array elements_at(const Array& x, std::span<const Array> indices, Where where) {
  std::vector<Input> operands{x};
  operands.insert(operands.end(), indices.begin(), indices.end());
  return invoke(
      {"index"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const Value place = joined(v[0], v.subspan(1), false, "index");
        return ops::take(with_axes_joined(v[0], v.size() - 1), place, 0);
      },
      where);
}

}  // namespace

Array Array::operator[](const Indices& indices) const {
  require_value(*this, "index", indices.where());
  require_indices("index", *this, indices);
  return elements_at(*this, std::span(&indices.array(), 1), indices.where());
}

Array Array::operator[](std::initializer_list<Indices> indices) const {
  if (indices.size() == 0) return *this;
  return elements_at(*this, required_indices("index", *this, indices), indices.begin()->where());
}

At Array::at(std::initializer_list<Indices> indices) const {
  return {*this, At::Kind::indices, required_indices("at", *this, indices), {}};
}

At Array::at(const Index& i) const {
  const std::int64_t position = position_in(*this, "at", i);
  return {*this, At::Kind::position, {}, {position, position + 1, 1}};
}

At Array::at(const Indices& indices) const {
  require_value(*this, "at", indices.where());
  const Array& places = indices.array();
  if (!is_bool(places.dtype(indices.where()))) {
    require_indices("at", *this, indices);
    return {*this, At::Kind::indices, {places}, {}};
  }
  const Shape &extents = shape(), &selected = places.shape();
  if (selected.size() > extents.size() || !std::equal(selected.begin(), selected.end(), extents.begin())) {
    refuse(
        ErrorKind::type, "at",
        detail::str("expected a mask of the extents of the first axes of ", type(), ", got ", places.type()),
        indices.where());
  }
  return {*this, At::Kind::mask, {places}, {}};
}

At Array::at(std::span<const Slice> parts, Where where) const {
  return {*this, At::Kind::parts, {}, frontend_detail::Ranges("at", *this, parts, where).words()};
}

At Array::at(std::initializer_list<Slice> parts, Where where) const {
  return at(std::span(parts.begin(), parts.size()), where);
}

Array At::get(Where where) const {
  if (kind_ == Kind::mask) {
    refuse(
        ErrorKind::invalid_argument, "at.get",
        "expected a position, slices or indices, got a mask: how many elements it takes nobody knows before "
        "it runs; choose between values by where()",
        where);
  }
  if (kind_ == Kind::position) return x_[Index(words_[0], where)];
  if (kind_ == Kind::indices) return elements_at(x_, places_, where);
  std::vector<Slice> parts;
  for (const Range& range : ranges_of(words_)) {
    if (!range.reversed) {
      parts.push_back({range.start, range.limit, range.step});
    } else if (range.count() == 0) {
      parts.push_back({0, 0, 1});
    } else {
      parts.push_back({range.limit - 1, {}, -range.step});
      if (range.start > 0) parts.back().stop = range.start - 1;
    }
  }
  return slice(x_, parts, where);
}

// The elements at the place, combined with v, and the others as they are.
template <class Combine>
Array At::updated(const char* name, const ArrayLike& v, const Combine& combine) const {
  if (v.array() != nullptr) require_value(*v.array(), name, v.where());
  const Operand value(name, v, x_.dtype(v.where()));
  Ints words{static_cast<std::int64_t>(kind_)};
  words.insert(words.end(), words_.begin(), words_.end());
  std::vector<Input> operands{x_, value.input()};
  operands.insert(operands.end(), places_.begin(), places_.end());
  return invoke(
      {name, words}, operands,
      [&](Emitter&, std::span<const Value> operand) {
        const Value x = operand[0], given = operand[1];
        if (kind_ == Kind::indices) {
          const Value place = joined(x, operand.subspan(2), true, name);
          const Value rows = with_axes_joined(x, places_.size());
          require_fit(given, x, indexed_shape(rows, place), name);
          return ops::reshape(combine.at_rows(rows, place, given, name), x.shape());
        }
        if (kind_ == Kind::mask) {
          const Value mask = operand[2];
          const Shape place(x.shape().begin() + static_cast<std::ptrdiff_t>(mask.rank()), x.shape().end());
          const Value all = broadcast(fitting(given, x, place, name), x.shape());
          Ints axes;
          for (std::size_t i = 0; i < mask.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
          const Value chosen = ops::broadcast_in_dim(mask, x.shape(), axes);
          if (!Combine::guarded) return ops::select_n(chosen, x, combine(x, all));
          // Elsewhere of harmless numbers, so that no 0 times infinity comes into a gradient.
          const Value one = ops::full_like(x, 1.0);
          return ops::select_n(chosen, x,
                               combine(ops::select_n(chosen, one, x), ops::select_n(chosen, one, all)));
        }
        const std::vector<Range> ranges = ranges_of(words_);
        const Value part = part_of(x, ranges);
        Shape place = part.shape();
        if (kind_ == Kind::position) place.erase(place.begin());
        const Value changed = ops::reshape(fitting(given, x, place, name), part.shape());
        return with_part(x, ranges, combine(part, changed));
      },
      v.where());
}

namespace {

using OfRows = Value (*)(Value, Value, Value, const char*);

// What is done to two values, and to rows that are named by data. `is_guarded`: not where it is not asked
// for.
template <OfTwo F, OfRows Rows, bool is_guarded = false>
struct Combining {
  static constexpr bool guarded = is_guarded;
  Value operator()(Value there, Value v) const { return F(there, v); }
  Value at_rows(Value x, Value indices, Value v, const char* name) const { return Rows(x, indices, v, name); }
};

}  // namespace

void At::refuse_indices(const char* name, const ArrayLike& v) const {
  if (kind_ != Kind::indices) return;
  refuse(ErrorKind::invalid_argument, name,
         detail::str("expected a position, slices or a mask, got indices (", places_[0].type(),
                     "), of which several may name one element: set, add, min and max take them"),
         v.where());
}

Array At::set(const ArrayLike& v) const { return updated("at.set", v, Combining<chosen, with_rows>()); }
Array At::add(const ArrayLike& v) const { return updated("at.add", v, Combining<sum_with, with_sums>()); }
Array At::multiply(const ArrayLike& v) const {
  refuse_indices("at.multiply", v);
  return updated("at.multiply", v, Combining<product_with, with_rows, true>());
}
Array At::divide(const ArrayLike& v) const {
  refuse_indices("at.divide", v);
  if (!is_inexact(x_.dtype(v.where()))) {
    refuse(ErrorKind::type, "at.divide",
           detail::str("expected a floating or complex Array, whose dtype holds quotients, got ", x_.type()),
           v.where());
  }
  return updated("at.divide", v, Combining<quotient, with_rows, true>());
}
Array At::min(const ArrayLike& v) const { return updated("at.min", v, Combining<less_of, with_least>()); }
Array At::max(const ArrayLike& v) const {
  return updated("at.max", v, Combining<greater_of, with_greatest>());
}

}  // namespace tidu
