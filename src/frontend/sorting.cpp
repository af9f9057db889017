// sorting.cpp - functions of Arrays that put elements in order.
#include <limits>

#include "frontend/broadcast.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::invoke_many;
using frontend_detail::normal_axis;
using frontend_detail::refuse;

// What the list holds, which was made of two.
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
  const std::int64_t words[] = {normal_axis(axis, x, "sort", where)};
  const Input operands[] = {x};
  return invoke(
      {"sort", words}, operands,
      [&](Emitter&, std::span<const Value> v) { return ops::sort(v[0], words[0]); }, where);
}

Array argsort(const Array& x, std::int64_t axis, Where where) {
  const std::int64_t words[] = {normal_axis(axis, x, "argsort", where)};
  if (x.shape()[static_cast<std::size_t>(words[0])] > std::numeric_limits<std::int32_t>::max()) {
    refuse(ErrorKind::type, "argsort", detail::str("expected an extent that an i32 holds, got ", x.type()),
           where);
  }
  const Input operands[] = {x};
  return invoke(
      {"argsort", words}, operands,
      [&](Emitter& emitter, std::span<const Value> v) {
        const Value positions = ops::iota(emitter, Type(i32, v[0].shape()), words[0]);
        return ops::sort(std::array{v[0], positions}, words[0], 1)[1];
      },
      where);
}

std::vector<Array> sort_all(std::span<const Array> operands, std::int64_t axis, std::int64_t num_keys,
                            Where where) {
  if (operands.empty())
    refuse(ErrorKind::invalid_argument, "sort_all", "expected at least one Array, got none", where);
  const std::int64_t words[] = {normal_axis(axis, operands[0], "sort_all", where), num_keys};
  return invoke_many(
      {"sort_all", words}, operands,
      [&](Emitter&, std::span<const Value> v) { return ops::sort(v, words[0], words[1]); }, where);
}

std::pair<Array, Array> sort_key_val(const Array& keys, const Array& values, std::int64_t axis, Where where) {
  const std::int64_t words[] = {normal_axis(axis, keys, "sort_key_val", where)};
  return pair_of(invoke_many(
      {"sort_key_val", words}, std::array{keys, values},
      [&](Emitter&, std::span<const Value> v) { return ops::sort(v, words[0], 1); }, where));
}

std::pair<Array, Array> top_k(const Array& x, std::int64_t k, std::int64_t axis, Where where) {
  const std::int64_t words[] = {k, normal_axis(axis, x, "top_k", where)};
  return pair_of(invoke_many(
      {"top_k", words}, std::span(&x, 1),
      [&](Emitter&, std::span<const Value> v) {
        Values both = ops::top_k(last_axis_at(v[0], words[1]), k);
        for (Value& value : both) value = last_axis_at(value, words[1]);
        return both;
      },
      where));
}

}  // namespace tidu
