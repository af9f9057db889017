// indexing.cpp - functions of Arrays that write elements among others: at positions that are data, in
// padding, and along diagonals.
#include <algorithm>

#include "frontend/broadcast.hpp"
#include "primitives/matrices.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::convert;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::normal_axis;
using frontend_detail::Operand;
using frontend_detail::promoted;
using frontend_detail::rank_of;
using frontend_detail::refuse;

void require_starts(const char* name, const Array& x, std::span<const Array> starts, Where where) {
  if (starts.size() == rank_of(x, name, where)) return;
  refuse(
      ErrorKind::invalid_argument, name,
      detail::str("expected a start for each of ", x.ndim(), " axes of ", x.type(), ", got ", starts.size()),
      where);
}

// x where column - row, compared with k, is as `keep` says; zero elsewhere.
template <class Keep>
Array triangle(const char* name, const Array& x, std::int64_t k, Where where, Keep keep) {
  if (rank_of(x, name, where) < 2) {
    refuse(ErrorKind::type, name, detail::str("expected an Array of two axes or more, got ", x.type()),
           where);
  }
  const std::int64_t static_args[] = {k};
  const Input operands[] = {x};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter& emitter, std::span<const Value> v) {
        const auto rank = static_cast<std::int64_t>(v[0].rank());
        // Positions have the size of x's elements, so that one pass processes both, but i32 must hold them. A
        // diagonal outside the matrix may be replaced by one farther out.
        constexpr std::int64_t max_in_i32 = std::int64_t{1} << 29;
        const std::int64_t rows = prim::rows_of(v[0].type()), columns = prim::columns_of(v[0].type());
        const bool wide = v[0].dtype() == f64 || v[0].dtype() == i64 || std::max(rows, columns) >= max_in_i32;
        const Type positions(wide ? i64 : i32, v[0].shape());
        const Value row = ops::iota(emitter, positions, rank - 2);
        const Value shift = ops::full(emitter, positions, static_cast<double>(std::clamp(k, -rows, columns)));
        const Value last_kept = row + shift;
        const Value kept = keep(ops::iota(emitter, positions, rank - 1), last_kept, Where{});
        const Value zero = ops::full_like(v[0], 0.0);
        return ops::select_n(kept, zero, v[0]);
      },
      where);
}

}  // namespace

Array dynamic_slice(const Array& x, std::span<const Array> starts, const Shape& sizes, Where where) {
  require_starts("dynamic_slice", x, starts, where);
  std::vector<Input> operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return invoke(
      {"dynamic_slice", sizes}, operands,
      [&](Emitter&, std::span<const Value> v) {
        return ops::dynamic_slice(v[0], promoted(v.subspan(1), i32), sizes);
      },
      where);
}

Array dynamic_update_slice(const Array& x, const Array& update, std::span<const Array> starts, Where where) {
  require_starts("dynamic_update_slice", x, starts, where);
  std::vector<Input> operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return invoke(
      {"dynamic_update_slice"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[1].dtype());
        const Value into = convert(v[0], common);
        const Value part = convert(v[1], common);
        return ops::dynamic_update_slice(into, part, promoted(v.subspan(2), i32));
      },
      where);
}

Array scatter_add(const Array& x, const Array& indices, const Array& updates, std::int64_t axis,
                  Where where) {
  const std::int64_t static_args[] = {normal_axis(axis, x, "scatter_add", where)};
  const Input operands[] = {x, indices, updates};
  return invoke(
      {"scatter_add", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[2].dtype());
        const Value into = convert(v[0], common);
        return ops::scatter_add(into, v[1], convert(v[2], common), static_args[0]);
      },
      where);
}

Array scatter_add_along_axis(const Array& x, const Array& indices, const Array& updates, std::int64_t axis,
                             Where where) {
  const std::int64_t static_args[] = {normal_axis(axis, x, "scatter_add_along_axis", where)};
  const Input operands[] = {x, indices, updates};
  return invoke(
      {"scatter_add_along_axis", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[2].dtype());
        const Value into = convert(v[0], common);
        return ops::scatter_add_along_axis(into, v[1], convert(v[2], common), static_args[0]);
      },
      where);
}

Array pad(const Array& x, std::span<const PadWidth> widths, const ArrayLike& value, Where where) {
  if (widths.size() != rank_of(x, "pad", where) && widths.size() != 1) {
    refuse(ErrorKind::invalid_argument, "pad",
           detail::str("expected one width or one for each of ", x.ndim(), " axes of ", x.type(), ", got ",
                       widths.size()),
           where);
  }
  Ints static_args;
  for (const PadWidth& width : widths)
    static_args.insert(static_args.end(), {width.low, width.high, width.interior});
  const Operand padding("pad", value, x.dtype());
  const Input operands[] = {x, padding.input()};
  return invoke(
      {"pad", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[1].dtype());
        IntLists config;
        for (std::size_t i = 0; i < v[0].rank(); ++i) {
          const PadWidth& width = widths[widths.size() == 1 ? 0 : i];
          config.push_back({width.low, width.high, width.interior});
        }
        const Value inside = convert(v[0], common);
        return ops::pad(inside, convert(v[1], common), config);
      },
      where);
}

Array tril(const Array& x, std::int64_t k, Where where) { return triangle("tril", x, k, where, ops::le); }
Array triu(const Array& x, std::int64_t k, Where where) { return triangle("triu", x, k, where, ops::ge); }

Array diagonal(const Array& x, Where where) {
  if (rank_of(x, "diagonal", where) < 2) {
    refuse(ErrorKind::type, "diagonal", detail::str("expected an Array of two axes or more, got ", x.type()),
           where);
  }
  const Input operands[] = {x};
  return invoke(
      {"diagonal"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const std::int64_t n = std::min(prim::rows_of(v[0].type()), prim::columns_of(v[0].type()));
        return prim::diagonal(prim::leading_block(v[0], n, n));
      },
      where);
}

}  // namespace tidu
