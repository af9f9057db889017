// at.cpp - see at.hpp. A place that is known becomes slices; what is computed there is put among the others
// by dynamic_update_slice, or, with steps, by padding. A place that is data becomes take and scatter_add.
#include "tidu/frontend/at.hpp"

#include <algorithm>
#include <utility>

#include "frontend/broadcast.hpp"
#include "frontend/ranges.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::broadcast;
using frontend_detail::broadcast_shapes;
using frontend_detail::convert;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::Operand;
using frontend_detail::part_of;
using frontend_detail::Range;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_value;

// Negative positions count from the end of an axis of this extent.
Value from_the_end(Value indices, std::int64_t extent) {
  if (indices.dtype() == i32 && extent > std::int64_t{0x7fffffff}) indices = convert(indices, i64);
  const Value zero = ops::full_like(indices, 0.0);
  const Value negative = ops::lt(indices, zero);
  return ops::select_n(negative, indices, indices + ops::full_like(indices, static_cast<double>(extent)));
}

Shape indexed_shape(Value x, Value indices) {
  Shape shape = indices.shape();
  shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
  return shape;
}

// x with its first `count` axes as one.
Value with_axes_joined(Value x, std::size_t count) {
  if (count == 1) return x;
  const auto rest = x.shape().begin() + static_cast<std::ptrdiff_t>(count);
  Shape shape{num_elements(Shape(x.shape().begin(), rest))};
  shape.insert(shape.end(), rest, x.shape().end());
  return ops::reshape(x, shape);
}

// Positions along the first axes of x, one index for each, as positions along these axes joined. What is out
// of range is the end that is nearest, or, if it is to be left out, -1.
Value joined(Value x, std::span<const Value> indices, bool leave_out, const char* name) {
  if (indices.size() == 1) return from_the_end(indices[0], x.shape()[0]);
  const Shape first(x.shape().begin(), x.shape().begin() + static_cast<std::ptrdiff_t>(indices.size()));
  Shape shape;
  DType dtype = num_elements(first) > std::int64_t{0x7fffffff} ? i64 : i32;
  for (const Value index : indices) {
    shape = broadcast_shapes(shape, index.shape(), name);
    dtype = promote(dtype, index.dtype());
  }
  const auto number = [&](Value like, std::int64_t value) {
    return ops::full_like(like, static_cast<double>(value));
  };
  Value place, inside;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const std::int64_t extent = first[axis];
    Value index = from_the_end(broadcast(convert(indices[axis], dtype), shape), extent);
    const Value zero = number(index, 0), end = number(index, extent - 1);
    if (leave_out) {
      const Value there = ops::logical_and(ops::ge(index, zero), ops::le(index, end));
      inside = axis == 0 ? there : ops::logical_and(inside, there);
    } else {
      index = ops::max(ops::min(index, end), zero);
    }
    place = axis == 0 ? index : place * number(index, extent) + index;
  }
  return leave_out ? ops::select_n(inside, number(place, -1), place) : place;
}

void require_fit(Value v, Value x, const Shape& place, const char* name) {
  if (promote(x.dtype(), v.dtype()) != x.dtype()) {
    throw Error(ErrorKind::type, detail::str('[', name, "] expected values that the dtype of ", x.type(),
                                             " holds, got ", v.type(), ": convert one of the two by to()"));
  }
  if (broadcast_shapes(v.shape(), place, name) != place) {
    throw Error(ErrorKind::type, detail::str('[', name, "] expected values that broadcast to the place, ",
                                             detail::list(place), " of ", x.type(), ", got ", v.type()));
  }
}

// v in the dtype of x, filling the place.
Value fitting(Value v, Value x, const Shape& place, const char* name) {
  require_fit(v, x, place, name);
  return broadcast(convert(v, x.dtype()), place);
}

// [n] seen as the first axis of x.
Value along_first(Value of_rows, Value x) { return ops::broadcast_in_dim(of_rows, x.shape(), {0}); }

// Which of n rows are named, where an index out of range names none.
Value named_rows(Value indices, std::int64_t n) {
  Emitter& emitter = *indices.emitter();
  const Value none = ops::full(emitter, Type(i32, {n}), 0.0);
  const Value ones = ops::full(emitter, Type(i32, indices.shape()), 1.0);
  return ops::gt(ops::scatter_add(none, indices, ones, 0, "drop"), none);
}

// Of each of n rows the last of the indices that name it, and -1 where none does. Sorted, with their order
// kept, equal ones stand side by side, and the last of them alone is written.
Value last_naming(Value indices, std::int64_t n) {
  Emitter& emitter = *indices.emitter();
  const std::int64_t k = indices.shape()[0];
  const Type places(k > std::int64_t{0x7fffffff} ? i64 : i32, {k});
  const Values sorted = ops::sort(std::array{indices, ops::iota(emitter, places, 0)}, 0);
  const Value next = ops::slice(sorted[0], {1}, {k});
  const Value differs = ops::ne(next, ops::slice(sorted[0], {0}, {k - 1}));
  const Value end = ops::full(emitter, Type(bool_, {1}), 1.0);
  const Value is_last = ops::concatenate(std::array{differs, end}, 0);
  const Value none = ops::full(emitter, places, 0.0);
  const Value counted = sorted[1] + ops::full_like(sorted[1], 1.0);
  const Value written = ops::select_n(is_last, none, counted);
  const Value rows = ops::full(emitter, Type(places.dtype(), {n}), 0.0);
  return ops::scatter_add(rows, sorted[0], written, 0, "drop") - ops::full_like(rows, 1.0);
}

using OfTwo = Value (*)(Value, Value);

// `changed` in the rows of x that are named, and x in the others; v fills the place, and there is one of it
// for each row alone.
template <OfTwo F>
Value where_named(Value x, Value flat, Value v, const Shape& place, const char* name) {
  require_fit(v, x, place, name);
  const Value everywhere = broadcast(convert(v, x.dtype()), x.shape());
  return ops::select_n(along_first(named_rows(flat, x.shape()[0]), x), x, F(x, everywhere));
}

// For each of `flat`, the indices in one axis, a row of what v puts there.
Value rows_of(Value x, Value flat, Value v, const Shape& place, const char* name) {
  Shape rows{flat.shape()[0]};
  rows.insert(rows.end(), x.shape().begin() + 1, x.shape().end());
  return ops::reshape(fitting(v, x, place, name), rows);
}

// F(x, the row that was put there last) where one was, and x elsewhere.
template <OfTwo F>
Value with_last(Value x, Value flat, Value rows) {
  const Value from = last_naming(flat, x.shape()[0]);
  const Value changed = ops::ge(from, ops::full_like(from, 0.0));
  return ops::select_n(along_first(changed, x), x, F(x, ops::take(rows, from, 0, "drop")));
}

Value chosen(Value, Value v) { return v; }

// x with v in the rows that are named.
Value with_rows(Value x, Value indices, Value v, const char* name) {
  const Shape place = indexed_shape(x, indices);
  const Value flat = ops::reshape(indices, {num_elements(indices.shape())});
  if (v.rank() < x.rank()) return where_named<chosen>(x, flat, v, place, name);
  const Value rows = rows_of(x, flat, v, place, name);
  return flat.shape()[0] == 0 ? x : with_last<chosen>(x, flat, rows);
}

Value as_it_is(Value x) { return x; }
// In the opposite order, but for NaN.
Value mirrored(Value x) { return is_inexact(x.dtype()) ? -x : ops::logical_not(x); }
Value greater_of(Value there, Value v) { return ops::max(there, v); }
Value less_of(Value there, Value v) { return ops::min(there, v); }
Value less_of_mirrored(Value there, Value v) { return ops::min(there, mirrored(v)); }

// x, and F of it and the greatest of what is put into each row that is named. Sorted by row and by value,
// that stands last among those of its row.
template <OfTwo F, OfTwo OfPrepared, Value (*Prepare)(Value)>
Value with_extremes(Value x, Value indices, Value v, const char* name) {
  const Shape place = indexed_shape(x, indices);
  const Value flat = ops::reshape(indices, {num_elements(indices.shape())});
  if (v.rank() < x.rank()) return where_named<F>(x, flat, v, place, name);
  const Value rows = Prepare(rows_of(x, flat, v, place, name));
  if (flat.shape()[0] == 0) return x;
  const Value row = ops::broadcast_in_dim(flat, rows.shape(), {0});
  return with_last<OfPrepared>(x, ops::sort(flat, 0), ops::sort(std::array{row, rows}, 0, 2)[1]);
}

// x with v added in the rows that are named, as often as they are.
Value with_sums(Value x, Value indices, Value v, const char* name) {
  const Value updates = fitting(v, x, indexed_shape(x, indices), name);
  if (!is_bool(x.dtype())) return ops::scatter_add(x, indices, updates, 0, "drop");
  const Value counts = ops::scatter_add(convert(x, i32), indices, convert(updates, i32), 0, "drop");
  return ops::ne(counts, ops::full_like(counts, 0.0));
}

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
Array At::min(const ArrayLike& v) const {
  return updated("at.min", v, Combining<less_of, with_extremes<less_of, less_of_mirrored, mirrored>>());
}
Array At::max(const ArrayLike& v) const {
  return updated("at.max", v, Combining<greater_of, with_extremes<greater_of, greater_of, as_it_is>>());
}

}  // namespace tidu
