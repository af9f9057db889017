// at_rows.cpp - see at_rows.hpp.
#include "frontend/at_rows.hpp"

#include <array>

#include "frontend/broadcast.hpp"

namespace tidu::frontend_detail {
namespace {

// The shape of the selection by indices along the first axis of x.
Shape indexed_shape(Value x, Value indices) {
  Shape shape = indices.shape();
  shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
  return shape;
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

// For each of n rows the last of the indices that select it, and -1 if there is none. After a stable sort
// equal indices are neighbours, and only the last of them is written.
Value last_naming(Value indices, std::int64_t n) {
  Emitter& emitter = *indices.emitter();
  const std::int64_t k = indices.shape()[0];
  const Type index_type(k > std::int64_t{0x7fffffff} ? i64 : i32, {k});
  const Values sorted = ops::sort(std::array{indices, ops::iota(emitter, index_type, 0)}, 0);
  const Value next = ops::slice(sorted[0], {1}, {k});
  const Value differs = ops::ne(next, ops::slice(sorted[0], {0}, {k - 1}));
  const Value end = ops::full(emitter, Type(bool_, {1}), 1.0);
  const Value is_last = ops::concatenate(std::array{differs, end}, 0);
  const Value none = ops::full(emitter, index_type, 0.0);
  const Value counted = sorted[1] + ops::full_like(sorted[1], 1.0);
  const Value written = ops::select_n(is_last, none, counted);
  const Value rows = ops::full(emitter, Type(index_type.dtype(), {n}), 0.0);
  return ops::scatter_add(rows, sorted[0], written, 0, "drop") - ops::full_like(rows, 1.0);
}

// `changed` in the selected rows of x, and x in the others. v has the shape of the selection, and `changed`
// has one row for each row of x.
template <OfTwo F>
Value where_named(Value x, Value flat, Value v, const Shape& indexed, const char* name) {
  require_fit(v, x, indexed, name);
  const Value everywhere = broadcast(convert(v, x.dtype()), x.shape());
  return ops::select_n(along_first(named_rows(flat, x.shape()[0]), x), x, F(x, everywhere));
}

// The rows of v, one for each of `flat`, the indices in one axis.
Value rows_of(Value x, Value flat, Value v, const Shape& indexed, const char* name) {
  Shape rows{flat.shape()[0]};
  rows.insert(rows.end(), x.shape().begin() + 1, x.shape().end());
  return ops::reshape(fitting(v, x, indexed, name), rows);
}

// F(x, the row that was put there last) where one was, and x elsewhere.
template <OfTwo F>
Value with_last(Value x, Value flat, Value rows) {
  const Value from = last_naming(flat, x.shape()[0]);
  const Value changed = ops::ge(from, ops::full_like(from, 0.0));
  return ops::select_n(along_first(changed, x), x, F(x, ops::take(rows, from, 0, "drop")));
}

Value as_it_is(Value x) { return x; }
// In reversed order, except for NaN.
Value mirrored(Value x) { return is_inexact(x.dtype()) ? -x : ops::logical_not(x); }
Value less_of_mirrored(Value there, Value v) { return ops::min(there, mirrored(v)); }

// x, with F of a row and the maximum of the values for that row in the selected rows. After a sort by row and
// by value, the maximum is the last one of its row.
template <OfTwo F, OfTwo OfPrepared, Value (*Prepare)(Value)>
Value with_extremes(Value x, Value indices, Value v, const char* name) {
  const Shape indexed = indexed_shape(x, indices);
  const Value flat = ops::reshape(indices, {num_elements(indices.shape())});
  if (v.rank() < x.rank()) return where_named<F>(x, flat, v, indexed, name);
  const Value rows = Prepare(rows_of(x, flat, v, indexed, name));
  if (flat.shape()[0] == 0) return x;
  const Value row = ops::broadcast_in_dim(flat, rows.shape(), {0});
  return with_last<OfPrepared>(x, ops::sort(flat, 0), ops::sort(std::array{row, rows}, 0, 2)[1]);
}

}  // namespace

void require_fit(Value v, Value x, const Shape& indexed, const char* name) {
  if (promote(x.dtype(), v.dtype()) != x.dtype()) {
    throw Error(ErrorKind::type, detail::str('[', name, "] expected values that the dtype of ", x.type(),
                                             " holds, got ", v.type(), ": convert one of the two by to()"));
  }
  if (broadcast_shapes(v.shape(), indexed, name) != indexed) {
    throw Error(ErrorKind::type,
                detail::str('[', name, "] expected values that broadcast to the indexed shape, ",
                            detail::list(indexed), " of ", x.type(), ", got ", v.type()));
  }
}

// v in the dtype of x, broadcast to the selection.
Value fitting(Value v, Value x, const Shape& indexed, const char* name) {
  require_fit(v, x, indexed, name);
  return broadcast(convert(v, x.dtype()), indexed);
}

Value with_rows(Value x, Value indices, Value v, const char* name) {
  const Shape indexed = indexed_shape(x, indices);
  const Value flat = ops::reshape(indices, {num_elements(indices.shape())});
  if (v.rank() < x.rank()) return where_named<chosen>(x, flat, v, indexed, name);
  const Value rows = rows_of(x, flat, v, indexed, name);
  return flat.shape()[0] == 0 ? x : with_last<chosen>(x, flat, rows);
}

Value with_least(Value x, Value indices, Value v, const char* name) {
  return with_extremes<less_of, less_of_mirrored, mirrored>(x, indices, v, name);
}
Value with_greatest(Value x, Value indices, Value v, const char* name) {
  return with_extremes<greater_of, greater_of, as_it_is>(x, indices, v, name);
}

Value with_sums(Value x, Value indices, Value v, const char* name) {
  const Value updates = fitting(v, x, indexed_shape(x, indices), name);
  if (!is_bool(x.dtype())) return ops::scatter_add(x, indices, updates, 0, "drop");
  const Value counts = ops::scatter_add(convert(x, i32), indices, convert(updates, i32), 0, "drop");
  return ops::ne(counts, ops::full_like(counts, 0.0));
}

}  // namespace tidu::frontend_detail
