// at.cpp - see at.hpp, and subscripts.hpp for places. A place that is known becomes slices; what is computed
// there is put among the others by dynamic_update_slice, or, with steps, by padding. A place that is data
// becomes take and scatter_add.
#include "tidu/frontend/at.hpp"

#include <algorithm>
#include <utility>

#include "frontend/broadcast.hpp"
#include "frontend/subscripts.hpp"
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
using frontend_detail::Subscripts;

Shape indexed_shape(Value x, Value indices) {
  Shape shape = indices.shape();
  shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
  return shape;
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

Value sum_with(Value there, Value v) {
  return is_bool(there.dtype()) ? ops::logical_or(there, v) : ops::add(there, v);
}
Value product_with(Value there, Value v) {
  return is_bool(there.dtype()) ? ops::logical_and(there, v) : ops::mul(there, v);
}
Value quotient(Value there, Value v) { return ops::div(there, v); }

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

Array read_at(const Array& x, const Subscripts& subscripts, Where where) {
  std::vector<Input> operands{x};
  operands.insert(operands.end(), subscripts.indices().begin(), subscripts.indices().end());
  return invoke(
      {"index", subscripts.words()}, operands,
      [&](Emitter&, std::span<const Value> v) { return subscripts.read(v[0], v.subspan(1), "index"); },
      where);
}

Subscripts places_of(const char* name, const Array& x, const Subscript& subscript) {
  return {name, x, std::span(&subscript, 1)};
}
Subscript whole(const Indices& indices) { return {indices.array(), indices.where()}; }

}  // namespace

Array Array::operator[](const Indices& indices) const {
  require_value(*this, "index", indices.where());
  return read_at(*this, places_of("index", *this, whole(indices)), indices.where());
}

Array Array::operator[](std::span<const Subscript> subscripts) const {
  if (subscripts.empty()) return *this;
  const Where where = subscripts[0].where();
  require_value(*this, "index", where);
  return read_at(*this, {"index", *this, subscripts}, where);
}

At Array::at(std::initializer_list<Subscript> subscripts) const {
  return at(std::span(subscripts.begin(), subscripts.size()));
}

At Array::at(std::span<const Subscript> subscripts) const {
  if (!subscripts.empty()) require_value(*this, "at", subscripts[0].where());
  const Subscripts places("at", *this, subscripts);
  return {*this, places.indices(), places.words()};
}

At Array::at(const Index& i) const {
  require_value(*this, "at", i.where);
  return {*this, {}, places_of("at", *this, {i.value, i.where}).words()};
}

At Array::at(const Indices& indices) const {
  require_value(*this, "at", indices.where());
  const Array& places = indices.array();
  if (!is_bool(places.dtype(indices.where()))) {
    const Subscripts subscripts = places_of("at", *this, whole(indices));
    return {*this, subscripts.indices(), subscripts.words()};
  }
  const Shape &extents = shape(), &selected = places.shape();
  if (selected.size() > extents.size() || !std::equal(selected.begin(), selected.end(), extents.begin())) {
    refuse(
        ErrorKind::type, "at",
        detail::str("expected a mask of the extents of the first axes of ", type(), ", got ", places.type()),
        indices.where());
  }
  return {*this, {places}, {}};
}

At Array::at(std::span<const Slice> parts, Where where) const {
  return {*this, {}, Subscripts("at", *this, parts, where).words()};
}

Array At::get(Where where) const {
  if (is_mask()) {
    refuse(
        ErrorKind::invalid_argument, "at.get",
        "expected a position, slices or indices, got a mask: how many elements it takes nobody knows before "
        "it runs; choose between values by where()",
        where);
  }
  std::vector<Input> operands{x_};
  operands.insert(operands.end(), places_.begin(), places_.end());
  return invoke(
      {"index", words_}, operands,
      [&](Emitter&, std::span<const Value> v) {
        return Subscripts(words_).read(v[0], v.subspan(1), "at.get");
      },
      where);
}

namespace {

// The part, with `given` where indices name elements of it.
template <class Combine>
Value at_named(Value x, Value part, const Subscripts& subscripts, std::span<const Value> indices, Value given,
               const Combine& combine, const char* name) {
  const Value named = subscripts.named(part.shape(), indices, true, name), rows = subscripts.rows(part);
  const Shape place = subscripts.shape(part.shape(), named.shape());
  require_fit(given, x, place, name);
  if (!subscripts.is_named_first() && given.rank() > 0)
    given = subscripts.to_named(broadcast(convert(given, x.dtype()), place), named.rank());
  return subscripts.from_rows(combine.at_rows(rows, named, given, name), part.shape());
}

}  // namespace

// The elements at the place, combined with v, and the others as they are.
template <class Combine>
Array At::updated(const char* name, const ArrayLike& v, const Combine& combine) const {
  if (v.array() != nullptr) require_value(*v.array(), name, v.where());
  const Operand value(name, v, x_.dtype(v.where()));
  std::vector<Input> operands{x_, value.input()};
  operands.insert(operands.end(), places_.begin(), places_.end());
  return invoke(
      {name, words_}, operands,
      [&](Emitter&, std::span<const Value> operand) {
        const Value x = operand[0], given = operand[1];
        if (is_mask()) {
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
        const Subscripts subscripts(words_);
        const Value part = subscripts.part(x);
        if (!places_.empty()) {
          const Value changed = at_named(x, part, subscripts, operand.subspan(2), given, combine, name);
          return part.id() == x.id() ? changed : with_part(x, subscripts.ranges(), changed);
        }
        const Value changed = fitting(given, x, subscripts.shape(part.shape(), {}), name);
        return with_part(x, subscripts.ranges(), combine(part, ops::reshape(changed, part.shape())));
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
  if (is_mask() || places_.empty()) return;
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
