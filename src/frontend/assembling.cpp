// assembling.cpp - functions of Arrays that combine several, or embed one in zeros; and differences of
// neighbours.
#include <array>
#include <cstdlib>

#include "frontend/broadcast.hpp"
#include "primitives/matrices.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::array_of;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::normal_axis;
using frontend_detail::promoted;
using frontend_detail::rank_of;
using frontend_detail::refuse;
using frontend_detail::require_value;

// Concatenates along an axis the results of `shaped` for the shape of each.
template <class Shaped>
Array stacked(const char* name, std::span<const Array> parts, Where where, const Shaped& shaped) {
  if (parts.empty())
    refuse(ErrorKind::invalid_argument, name, "expected at least one Array, got none", where);
  std::vector<Input> operands;
  for (const Array& part : parts) operands.emplace_back(part);
  return invoke(
      {name}, operands,
      [&](Emitter&, std::span<const Value> v) {
        std::vector<Value> values = promoted(v, v[0].dtype());
        std::int64_t axis = 0;
        for (Value& value : values) {
          const auto [shape, along] = shaped(value.shape());
          if (value.shape() != shape) value = ops::reshape(value, shape);
          axis = along;
        }
        return ops::concatenate(values, axis);
      },
      where);
}

}  // namespace

Array hstack(std::span<const Array> parts, Where where) {
  return stacked("hstack", parts, where, [](const Shape& shape) {
    return shape.empty() ? std::pair(Shape{1}, 0) : std::pair(shape, shape.size() == 1 ? 0 : 1);
  });
}

Array vstack(std::span<const Array> parts, Where where) {
  return stacked("vstack", parts, where, [](const Shape& shape) {
    if (shape.size() >= 2) return std::pair(shape, 0);
    return std::pair(Shape{1, shape.empty() ? 1 : shape[0]}, 0);
  });
}

std::vector<Array> meshgrid(std::span<const Array> axes, std::string_view indexing, Where where) {
  if (indexing != "xy" && indexing != "ij") {
    refuse(ErrorKind::invalid_argument, "meshgrid",
           detail::str("expected indexing \"xy\" or \"ij\", got ", detail::in_quotes(indexing)), where);
  }
  Shape shape;
  for (const Array& axis : axes) {
    if (rank_of(axis, "meshgrid", where) > 1) {
      refuse(ErrorKind::type, "meshgrid", detail::str("expected Arrays of one axis, got ", axis.type()),
             where);
    }
    shape.push_back(axis.size());
  }
  const bool exchanged = indexing == "xy" && axes.size() > 1;
  if (exchanged) std::swap(shape[0], shape[1]);
  std::vector<Array> grids;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t along = static_cast<std::int64_t>(exchanged && i < 2 ? 1 - i : i);
    Ints static_args{along};
    static_args.insert(static_args.end(), shape.begin(), shape.end());
    const Input operands[] = {axes[i]};
    grids.push_back(invoke(
        {"meshgrid", static_args}, operands,
        [&](Emitter&, std::span<const Value> v) {
          const Value axis = v[0].rank() == 0 ? ops::expand_dims(v[0], {0}) : v[0];
          return ops::broadcast_in_dim(axis, shape, {along});
        },
        where));
  }
  return grids;
}

Array diag(const ArrayLike& like, std::int64_t k) {
  const Where where = like.where();
  const Array x = array_of(like);
  const std::size_t rank = rank_of(x, "diag", where);
  if (rank != 1 && rank != 2) {
    refuse(ErrorKind::type, "diag", detail::str("expected an Array of one or two axes, got ", x.type()),
           where);
  }
  constexpr std::int64_t farthest = std::int64_t{1} << 31;
  if (rank == 1 && (k < -farthest || k > farthest)) {
    refuse(ErrorKind::invalid_argument, "diag",
           detail::str("expected a diagonal at most 2^31 from the main one, got ", k), where);
  }
  k = std::clamp(k, -farthest, farthest);  // for a matrix: diagonals beyond have no elements
  const std::int64_t static_args[] = {k};
  const Input operands[] = {x};
  return invoke(
      {"diag", static_args}, operands,
      [&](Emitter& emitter, std::span<const Value> v) {
        const std::int64_t above = std::max<std::int64_t>(k, 0), below = std::max<std::int64_t>(-k, 0);
        if (v[0].rank() == 2) {
          const std::int64_t rows = v[0].shape()[0], columns = v[0].shape()[1];
          const Value rest =
              ops::slice(v[0], {std::min(below, rows), std::min(above, columns)}, {rows, columns});
          const std::int64_t n = std::min(prim::rows_of(rest.type()), prim::columns_of(rest.type()));
          return prim::diagonal(prim::leading_block(rest, n, n));
        }
        const std::int64_t n = v[0].shape()[0], extent = n + above + below;
        const Value zero = ops::full(emitter, Type(v[0].dtype()), 0.0);
        const Value in_columns = ops::pad(v[0], zero, {{above, below, 0}});
        const Type positions(i64, {extent, extent});
        const Value columns = ops::iota(emitter, positions, 1);
        const Value wanted =
            ops::iota(emitter, positions, 0) + ops::full(emitter, positions, static_cast<double>(k));
        const Value everywhere = ops::broadcast_in_dim(in_columns, {extent, extent}, {1});
        return ops::select_n(ops::eq(columns, wanted), ops::full_like(everywhere, 0.0), everywhere);
      },
      where);
}

Array diff(const ArrayLike& like, std::int64_t n, std::int64_t axis) {
  const Where where = like.where();
  const Array x = array_of(like);
  const std::int64_t static_args[] = {n, normal_axis(axis, x, "diff", where)};
  if (n < 0)
    refuse(ErrorKind::invalid_argument, "diff", detail::str("expected a count of 0 or more, got ", n), where);
  if (n == 0) return array_of(like);
  const Input operands[] = {x};
  return invoke(
      {"diff", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        Value y = v[0];
        const auto at = static_cast<std::size_t>(static_args[1]);
        for (std::int64_t i = 0; i < n && y.shape()[at] > 0; ++i) {
          Ints start(y.rank(), 0), limit = y.shape();
          start[at] = 1;
          limit[at] -= 1;
          const Value next = ops::slice(y, start, y.shape());
          const Value there = ops::slice(y, Ints(y.rank(), 0), limit);
          y = is_bool(y.dtype()) ? ops::ne(next, there) : next - there;
        }
        return y;
      },
      where);
}

}  // namespace tidu
