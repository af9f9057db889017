// matmuls.cpp - matmuls of Arrays with NumPy's names and rules, all by dot_general.
#include <algorithm>
#include <array>

#include "frontend/broadcast.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {

// Counts of pairs, of which those that f32 rounds stay above 0.
Value frontend_detail::dot_general(Value x, Value y, const ops::DotDimensionNumbers& dims) {
  if (!is_bool(x.dtype())) return ops::dot_general(x, y, dims);
  return as_bool(ops::dot_general(convert(x, f32), convert(y, f32), dims));
}

namespace {

using frontend_detail::broadcast;
using frontend_detail::broadcast_shapes;
using frontend_detail::convert;
using frontend_detail::dot_general;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::Operand;

[[noreturn]] void refuse_types(const char* name, Value x, Value y, const std::string& expected) {
  throw Error(ErrorKind::type,
              detail::str('[', name, "] expected ", expected, ", got ", x.type(), " and ", y.type()));
}

Ints last(Value x, std::int64_t from_end) { return {static_cast<std::int64_t>(x.rank()) - from_end}; }

Value matmul_of(Value x, Value y) {
  if (x.rank() == 0 || y.rank() == 0)
    refuse_types("matmul", x, y, "operands with at least one dimension (multiply by a scalar with *)");
  const std::int64_t inner = y.rank() == 1 ? 1 : 2;
  if (x.shape().back() != y.shape()[y.rank() - static_cast<std::size_t>(inner)])
    refuse_types("matmul", x, y, "the last extent of the first to be the inner extent of the second");
  // Without leading axes on the second operand those of the first are free ones.
  if (y.rank() <= 2) return dot_general(x, y, {last(x, 1), last(y, inner), {}, {}});
  const auto leading = [](const Shape& shape, std::size_t matrix) {
    return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(std::min(shape.size(), matrix)));
  };
  const std::size_t matrix = x.rank() == 1 ? 1 : 2;
  const Shape batch = broadcast_shapes(leading(x.shape(), matrix), leading(y.shape(), 2), "matmul");
  const auto with_batch = [&](Value v, std::size_t rest) {
    Shape shape = batch;
    shape.insert(shape.end(), v.shape().end() - static_cast<std::ptrdiff_t>(rest), v.shape().end());
    return broadcast(v, shape);
  };
  const Value a = with_batch(x, matrix), b = with_batch(y, 2);
  Ints axes;
  for (std::size_t i = 0; i < batch.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return dot_general(a, b, {last(a, 1), last(b, 2), axes, axes});
}

Value product_of(Value x, Value y) { return is_bool(x.dtype()) ? ops::logical_and(x, y) : x * y; }

// One of the two is a scalar.
Value with_scalar(Value x, Value y) {
  const Shape& shape = x.rank() == 0 ? y.shape() : x.shape();
  const Value left = broadcast(x, shape);
  return product_of(left, broadcast(y, shape));
}

template <class F>
Array product(const char* name, const Array& x, const Array& y, Where where, const F& body) {
  const Input operands[] = {x, y};
  return invoke(
      {name}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[1].dtype());
        const Value left = convert(v[0], common);
        return body(left, convert(v[1], common));
      },
      where);
}

}  // namespace

Array matmul(const Array& x, const Array& y, Where where) {
  return product("matmul", x, y, where, matmul_of);
}

Array dot(const Array& x, const Array& y, Where where) {
  return product("dot", x, y, where, [](Value a, Value b) {
    if (a.rank() == 0 || b.rank() == 0) return with_scalar(a, b);
    const std::int64_t inner = b.rank() == 1 ? 1 : 2;
    if (a.shape().back() != b.shape()[b.rank() - static_cast<std::size_t>(inner)])
      refuse_types("dot", a, b, "the last extent of the first to be the inner extent of the second");
    return dot_general(a, b, {last(a, 1), last(b, inner), {}, {}});
  });
}

Array outer(const Array& x, const Array& y, Where where) {
  return product("outer", x, y, where, [](Value a, Value b) {
    const Value column = ops::reshape(a, {a.type().size()});
    return dot_general(column, ops::reshape(b, {b.type().size()}), {});
  });
}

Array inner(const ArrayLike& x, const ArrayLike& y) {
  return product("inner", Operand::beside("inner", x, y), Operand::beside("inner", y, x), x.where(),
                 [](Value a, Value b) {
                   if (a.rank() == 0 || b.rank() == 0) return with_scalar(a, b);
                   if (a.shape().back() != b.shape().back())
                     refuse_types("inner", a, b, "the last extents of the two to be equal");
                   return dot_general(a, b, {last(a, 1), last(b, 1), {}, {}});
                 });
}

Array kron(const ArrayLike& x, const ArrayLike& y) {
  return product("kron", Operand::beside("kron", x, y), Operand::beside("kron", y, x), x.where(),
                 [](Value a, Value b) {
                   const std::size_t rank = std::max(a.rank(), b.rank());
                   Shape wide_a, wide_b, wide, shape;
                   for (std::size_t i = 0; i < rank; ++i) {
                     const std::int64_t m = i + a.rank() < rank ? 1 : a.shape()[i + a.rank() - rank];
                     const std::int64_t n = i + b.rank() < rank ? 1 : b.shape()[i + b.rank() - rank];
                     wide_a.insert(wide_a.end(), {m, 1});
                     wide_b.insert(wide_b.end(), {1, n});
                     wide.insert(wide.end(), {m, n});
                     shape.push_back(m * n);
                   }
                   const Value left = broadcast(ops::reshape(a, wide_a), wide);
                   const Value right = broadcast(ops::reshape(b, wide_b), wide);
                   return ops::reshape(product_of(left, right), shape);
                 });
}

Array cross(const ArrayLike& left, const ArrayLike& right, std::int64_t axis) {
  const std::int64_t static_args[] = {axis};
  const Where where = left.where();
  const Array x = Operand::beside("cross", left, right), y = Operand::beside("cross", right, left);
  const Input operands[] = {x, y};
  return invoke(
      {"cross", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[1].dtype());
        const auto along = [&](Value a) {
          const auto rank = static_cast<std::int64_t>(a.rank());
          const std::int64_t at = axis < 0 ? axis + rank : axis;
          if (at < 0 || at >= rank || a.shape()[static_cast<std::size_t>(at)] != 3)
            refuse_types("cross", v[0], v[1], detail::str("an extent of 3 along axis ", axis, " of both"));
          return at;
        };
        const std::int64_t from_end = static_cast<std::int64_t>(v[0].rank()) - along(v[0]);
        if (static_cast<std::int64_t>(v[1].rank()) - along(v[1]) != from_end)
          refuse_types("cross", v[0], v[1], detail::str("axis ", axis, " to be the same of both"));
        const Shape shape = broadcast_shapes(v[0].shape(), v[1].shape(), "cross");
        const Value a = broadcast(convert(v[0], common), shape), b = broadcast(convert(v[1], common), shape);
        const std::int64_t at = static_cast<std::int64_t>(shape.size()) - from_end;
        // Component k of three, and all of them from k on, in a circle.
        const auto component = [&](Value c, std::int64_t k) {
          Ints start(shape.size(), 0), limit = shape;
          start[static_cast<std::size_t>(at)] = k;
          limit[static_cast<std::size_t>(at)] = k + 1;
          return ops::slice(c, start, limit);
        };
        const auto from = [&](Value c, std::int64_t k) {
          Ints start(shape.size(), 0), middle = start, until = shape;
          middle[static_cast<std::size_t>(at)] = until[static_cast<std::size_t>(at)] = k;
          const Value first = ops::slice(c, middle, shape);
          return ops::concatenate(std::array{first, ops::slice(c, start, until)}, at);
        };
        if (from_end > 1) return from(a, 1) * from(b, 2) - from(a, 2) * from(b, 1);
        // Lines of three elements are short; columns are not.
        std::array<Value, 3> parts;
        for (std::int64_t k = 0; k < 3; ++k) {
          const std::int64_t next = (k + 1) % 3, last = (k + 2) % 3;
          parts[static_cast<std::size_t>(k)] =
              component(a, next) * component(b, last) - component(a, last) * component(b, next);
        }
        return ops::concatenate(parts, at);
      },
      where);
}

}  // namespace tidu
