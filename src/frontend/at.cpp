// at.cpp - see at.hpp, and subscripts.hpp for selections. A static selection becomes slices; the updated
// elements are written by dynamic_update_slice or, with steps, by padding. A selection by data becomes take
// and scatter_add: see at_rows.cpp.
#include "tidu/frontend/at.hpp"

#include <algorithm>
#include <utility>

#include "frontend/at_rows.hpp"
#include "frontend/broadcast.hpp"
#include "frontend/subscripts.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::broadcast;
using frontend_detail::chosen;
using frontend_detail::fitting;
using frontend_detail::greater_of;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::less_of;
using frontend_detail::OfTwo;
using frontend_detail::Operand;
using frontend_detail::part_of;
using frontend_detail::Range;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_fit;
using frontend_detail::require_value;
using frontend_detail::Subscripts;
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

Value sum_with(Value there, Value v) {
  return is_bool(there.dtype()) ? ops::logical_or(there, v) : ops::add(there, v);
}
Value product_with(Value there, Value v) {
  return is_bool(there.dtype()) ? ops::logical_and(there, v) : ops::mul(there, v);
}
Value quotient(Value there, Value v) { return ops::div(there, v); }

// Reads the elements that subscripts with these static arguments select; `indices` are those that are data.
Array read_at(const char* name, const Array& x, const Ints& static_args, std::span<const Array> indices,
              Where where) {
  std::vector<Input> operands{x};
  operands.insert(operands.end(), indices.begin(), indices.end());
  return invoke(
      {"index", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        return Subscripts(static_args).read(v[0], v.subspan(1), name);
      },
      where);
}
Array read_at(const Array& x, const Subscripts& places, Where where) {
  return read_at("index", x, places.static_args(), places.indices(), where);
}

Subscripts subscripts_of(const char* name, const Array& x, const Subscript& subscript) {
  return {name, x, std::span(&subscript, 1)};
}
Subscript whole(const Indices& indices) { return {indices.array(), indices.where()}; }

}  // namespace

Array Array::operator[](const Index& i) const {
  // A fast path for loops over elements: one static argument, without allocation.
  if (rank_of(*this, "index", i.where) == 0) return (*this)[{Subscript(i.value, i.where)}];  // throws
  const std::int64_t static_args[] = {frontend_detail::position_along(0, i.value, "index", *this, i.where)};
  const Input operands[] = {*this};
  return invoke(
      {"index", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Range range[] = {{static_args[0], static_args[0] + 1, 1, false}};
        return ops::squeeze(part_of(v[0], range), {0});
      },
      i.where);
}

Array Array::operator[](const Indices& indices) const {
  require_value(*this, "index", indices.where());
  return read_at(*this, subscripts_of("index", *this, whole(indices)), indices.where());
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
  return {*this, places.indices(), places.static_args()};
}

At Array::at(const Index& i) const {
  require_value(*this, "at", i.where);
  return {*this, {}, subscripts_of("at", *this, {i.value, i.where}).static_args()};
}

At Array::at(const Indices& indices) const {
  require_value(*this, "at", indices.where());
  const Array& places = indices.array();
  if (!is_bool(places.dtype(indices.where()))) {
    const Subscripts subscripts = subscripts_of("at", *this, whole(indices));
    return {*this, subscripts.indices(), subscripts.static_args()};
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
  return {*this, {}, Subscripts("at", *this, parts, where).static_args()};
}

Array At::get(Where where) const {
  if (is_mask()) {
    refuse(ErrorKind::invalid_argument, "at.get",
           "expected a position, slices or indices, got a mask: the number of elements that it selects is "
           "unknown before it runs; choose between values by where()",
           where);
  }
  return read_at("at.get", x_, static_args_, indices_, where);
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
    given = subscripts.to_named(fitting(given, x, place, name), named.rank());
  return subscripts.from_rows(combine.at_rows(rows, named, given, name), part.shape());
}

}  // namespace

// The selected elements combined with v, and the others unchanged.
template <class Combine>
Array At::updated(const char* name, const ArrayLike& v, const Combine& combine) const {
  if (v.array() != nullptr) require_value(*v.array(), name, v.where());
  const Operand value(name, v, x_.dtype(v.where()));
  std::vector<Input> operands{x_, value.input()};
  operands.insert(operands.end(), indices_.begin(), indices_.end());
  return invoke(
      {name, static_args_}, operands,
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
        const Subscripts subscripts(static_args_);
        const Value part = subscripts.part(x);
        if (!indices_.empty()) {
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

// A function of two values, applied to the selection or to rows selected by data. `is_guarded`: where a mask
// is false, F gets ones, so that its derivatives are finite there.
template <OfTwo F, OfRows Rows, bool is_guarded = false>
struct Combining {
  static constexpr bool guarded = is_guarded;
  Value operator()(Value there, Value v) const { return F(there, v); }
  Value at_rows(Value x, Value indices, Value v, const char* name) const { return Rows(x, indices, v, name); }
};

}  // namespace

void At::refuse_indices(const char* name, const ArrayLike& v) const {
  if (is_mask() || indices_.empty()) return;
  refuse(ErrorKind::invalid_argument, name,
         detail::str("expected a position, slices or a mask, got indices (", indices_[0].type(),
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
