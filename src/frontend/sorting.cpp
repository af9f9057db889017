// sorting.cpp - functions of Arrays that sort, and that find positions in sorted Arrays.
#include <limits>

#include "frontend/broadcast.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::array_of;
using frontend_detail::convert;
using frontend_detail::inexact;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::invoke_many;
using frontend_detail::normal_axis;
using frontend_detail::Operand;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_value;

// The two items of the list.
std::pair<Array, Array> pair_of(std::vector<Array> both) { return {std::move(both[0]), std::move(both[1])}; }

Value last_axis_at(Value x, std::int64_t axis) {
  Ints order;
  for (std::size_t i = 0; i < x.rank(); ++i) order.push_back(static_cast<std::int64_t>(i));
  if (order.back() == axis) return x;
  std::swap(order[static_cast<std::size_t>(axis)], order.back());
  return ops::transpose(x, order);
}

}  // namespace

Array sort(const Array& x, std::int64_t axis, Where where) {
  const std::int64_t static_args[] = {normal_axis(axis, x, "sort", where)};
  const Input operands[] = {x};
  return invoke(
      {"sort", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return ops::sort(v[0], static_args[0]); }, where);
}

Array argsort(const Array& x, std::int64_t axis, Where where) {
  const std::int64_t static_args[] = {normal_axis(axis, x, "argsort", where)};
  if (x.shape()[static_cast<std::size_t>(static_args[0])] > std::numeric_limits<std::int32_t>::max()) {
    refuse(ErrorKind::type, "argsort", detail::str("expected an extent that an i32 holds, got ", x.type()),
           where);
  }
  const Input operands[] = {x};
  return invoke(
      {"argsort", static_args}, operands,
      [&](Emitter& emitter, std::span<const Value> v) {
        const Value positions = ops::iota(emitter, Type(i32, v[0].shape()), static_args[0]);
        return ops::sort(std::array{v[0], positions}, static_args[0], 1)[1];
      },
      where);
}

std::vector<Array> sort_all(std::span<const Array> operands, std::int64_t axis, std::int64_t num_keys,
                            Where where) {
  if (operands.empty())
    refuse(ErrorKind::invalid_argument, "sort_all", "expected at least one Array, got none", where);
  const std::int64_t static_args[] = {normal_axis(axis, operands[0], "sort_all", where), num_keys};
  return invoke_many(
      {"sort_all", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) { return ops::sort(v, static_args[0], static_args[1]); },
      where);
}

std::pair<Array, Array> sort_key_val(const Array& keys, const Array& values, std::int64_t axis, Where where) {
  const std::int64_t static_args[] = {normal_axis(axis, keys, "sort_key_val", where)};
  return pair_of(invoke_many(
      {"sort_key_val", static_args}, std::array{keys, values},
      [&](Emitter&, std::span<const Value> v) { return ops::sort(v, static_args[0], 1); }, where));
}

std::pair<Array, Array> top_k(const Array& x, std::int64_t k, std::int64_t axis, Where where) {
  const std::int64_t static_args[] = {k, normal_axis(axis, x, "top_k", where)};
  return pair_of(invoke_many(
      {"top_k", static_args}, std::span(&x, 1),
      [&](Emitter&, std::span<const Value> v) {
        Values both = ops::top_k(last_axis_at(v[0], static_args[1]), k);
        for (Value& value : both) value = last_axis_at(value, static_args[1]);
        return both;
      },
      where));
}

Array median(const ArrayLike& like, std::optional<std::int64_t> axis, bool keepdims) {
  const Where where = like.where();
  const Array x = array_of(like);
  require_value(x, "median", where);
  const std::int64_t static_args[] = {axis ? normal_axis(*axis, x, "median", where) : -1, keepdims ? 1 : 0};
  const std::int64_t count = axis ? x.shape()[static_cast<std::size_t>(static_args[0])] : x.size();
  if (count == 0) {
    refuse(ErrorKind::type, "median",
           detail::str("expected an element to take the median of, got ", x.type()), where);
  }
  const Input operands[] = {x};
  return invoke(
      {"median", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const Value number = convert(v[0], inexact(v[0].dtype()));
        const std::int64_t at = axis ? static_args[0] : 0;
        const Value sorted = ops::sort(axis ? number : ops::reshape(number, {count}), at);
        const auto element = [&](std::int64_t place) {
          Ints start(sorted.rank(), 0), limit = sorted.shape();
          start[static_cast<std::size_t>(at)] = place;
          limit[static_cast<std::size_t>(at)] = place + 1;
          return ops::squeeze(ops::slice(sorted, start, limit), {at});
        };
        const Value low = element((count - 1) / 2), last = element(count - 1);
        const Value half = ops::full_like(low, 0.5);
        const Value middle = count % 2 == 1 ? low : low * half + element(count / 2) * half;
        const Value result = ops::select_n(ops::ne(last, last), middle, last);  // NaN is last
        if (!keepdims) return result;
        Shape shape = number.shape();
        for (std::size_t i = 0; i < shape.size(); ++i)
          if (!axis || static_cast<std::int64_t>(i) == at) shape[i] = 1;
        return ops::reshape(result, shape);
      },
      where);
}

// Binary search by steps that are powers of two, the greatest first: a step is taken if the element there is
// still before the value.
Array searchsorted(const Array& sorted, const ArrayLike& values, std::string_view side, Where where) {
  if (rank_of(sorted, "searchsorted", where) != 1 || is_complex(sorted.dtype())) {
    refuse(ErrorKind::type, "searchsorted",
           detail::str("expected an Array of one axis, and no complex one, got ", sorted.type()), where);
  }
  if (side != "left" && side != "right") {
    refuse(ErrorKind::invalid_argument, "searchsorted",
           detail::str("expected side \"left\" or \"right\", got ", detail::in_quotes(side)), where);
  }
  const Operand wanted("searchsorted", values, sorted.dtype());
  const std::int64_t static_args[] = {side == "right" ? 1 : 0};
  const Input operands[] = {sorted, wanted.input()};
  return invoke(
      {"searchsorted", static_args}, operands,
      [&](Emitter& emitter, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[1].dtype());
        const Value axis = convert(v[0], common), value = convert(v[1], common);
        const std::int64_t n = axis.shape()[0];
        const Type places(n > std::numeric_limits<std::int32_t>::max() ? i64 : i32, value.shape());
        const auto before = [](Value a, Value b) {  // NaN is last
          const Value last = ops::logical_and(ops::ne(b, b), ops::eq(a, a));
          return ops::logical_or(ops::lt(a, b), last);
        };
        Value found = ops::full(emitter, places, 0.0);
        std::int64_t step = 1;
        while (step <= n / 2) step *= 2;
        for (; step > 0 && n > 0; step /= 2) {
          const Value next = found + ops::full(emitter, places, static_cast<double>(step));
          const Value there = ops::take(axis, next - ops::full(emitter, places, 1.0), 0);
          const Value fits =
              static_args[0] == 1 ? ops::logical_not(before(value, there)) : before(there, value);
          const Value inside = ops::le(next, ops::full(emitter, places, static_cast<double>(n)));
          found = ops::select_n(ops::logical_and(inside, fits), found, next);
        }
        return found;
      },
      where);
}

}  // namespace tidu
