// creation.cpp - Arrays from numbers.
#include <cmath>
#include <limits>

#include "frontend/broadcast.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/trace.hpp"

namespace tidu {
namespace {

using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::refuse;

// The elements in row-major order, and the shape: that of the first item, which all others must have.
struct Flat {
  Shape shape;
  std::vector<Number> numbers;
  DType dtype = bool_;
};

void flatten_into(const Nested& nested, std::size_t depth, Flat& flat, Where where) {
  if (!nested.is_list()) {
    if (depth != flat.shape.size())
      refuse(ErrorKind::invalid_argument, "array", "expected lists of one depth, got a number beside a list",
             where);
    flat.numbers.push_back(nested.number());
    flat.dtype = promote(flat.dtype, nested.dtype());
    return;
  }
  const auto extent = static_cast<std::int64_t>(nested.items().size());
  if (depth == flat.shape.size() || flat.shape[depth] != extent) {
    refuse(ErrorKind::invalid_argument, "array",
           depth == flat.shape.size()
               ? std::string("expected lists of one depth, got a list beside a number")
               : detail::str("expected lists of one length at depth ", depth, ", got one of ",
                             flat.shape[depth], " and one of ", extent),
           where);
  }
  for (const Nested& item : nested.items()) flatten_into(item, depth + 1, flat, where);
}

Flat flatten(const Nested& nested, Where where) {
  Flat flat;
  for (const Nested* at = &nested; at->is_list(); at = &at->items()[0]) {
    flat.shape.push_back(static_cast<std::int64_t>(at->items().size()));
    if (at->items().empty()) break;
  }
  flatten_into(nested, 0, flat, where);
  if (flat.numbers.empty()) flat.dtype = f64;
  return flat;
}

// The numbers at(0), at(1), ... as an Array of `dtype`.
template <class At>
Array from_numbers(const char* function, const Shape& shape, DType dtype, Where where, const At& at) try {
  const auto fill = [&]<class T>(Tensor made, const auto& element) {
    const std::span<T> to = made.mutable_elements<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(element(at(i)));
    return Array(std::move(made));
  };
  const auto whole = [&](const Number& value) { return frontend_detail::whole_element(dtype, value); };
  if (dtype == i64) return fill.template operator()<std::int64_t>(Tensor(Type(dtype, shape)), whole);
  if (dtype == i32) return fill.template operator()<std::int32_t>(Tensor(Type(dtype, shape)), whole);
  const Array made = fill.template operator()<double>(Tensor(Type(f64, shape)), [&](const Number& value) {
    return frontend_detail::real_element(dtype, value);
  });
  return dtype == f64 ? made : astype(made, dtype, where);
} catch (const Error& error) {
  frontend_detail::raise_located(error, function, std::span<const Type>(), where);
}

// An Array that no operand goes into.
template <class F>
Array make(const char* name, std::span<const std::int64_t> static_args, Where where, const F& body) {
  return invoke(
      {name, static_args}, {}, [&](Emitter& emitter, std::span<const Value>) { return body(emitter); },
      where);
}

}  // namespace

Array array(const Nested& elements, std::optional<DType> dtype, Where where) {
  const Flat flat = flatten(elements, where);
  return from_numbers("array", flat.shape, dtype.value_or(flat.dtype), where,
                      [&](std::size_t i) { return flat.numbers[i]; });
}

Array array(const Nested& elements, const Shape& shape, std::optional<DType> dtype, Where where) {
  return reshape(array(elements, dtype, where), shape, where);
}

namespace {

// `function` is the name of the called function.
Array filled(const char* function, const Shape& shape, const Number& value, DType dtype, Where where) try {
  const Type type(dtype, shape);
  if (value.value() == 0.0 && !std::signbit(value.value())) return Array(Tensor::zeros(type));
  Tensor tensor(type);
  const Tensor one = frontend_detail::number(dtype, value);
  std::byte* to = tensor.mutable_bytes();
  const std::size_t width = size_of(dtype);
  for (std::int64_t i = 0; i < type.size(); ++i)
    std::copy_n(one.bytes(), width, to + static_cast<std::size_t>(i) * width);
  return Array(std::move(tensor));
} catch (const Error& error) {
  frontend_detail::raise_located(error, function, std::span<const Type>(), where);
}

}  // namespace

Array full(const Shape& shape, Number value, DType dtype, Where where) {
  return filled("full", shape, value, dtype, where);
}
Array zeros(const Shape& shape, DType dtype, Where where) {
  return filled("zeros", shape, 0.0, dtype, where);
}
Array ones(const Shape& shape, DType dtype, Where where) { return filled("ones", shape, 1.0, dtype, where); }
// The device of x, as far as it is known for a lazy or traced x.
Array full_like(const Array& x, Number value, Where where) {
  frontend_detail::require_value(x, "full_like", where);
  Array made = full(x.shape(), value, x.dtype(), where);
  const std::uint32_t device = frontend_detail::device_of(x);
  if (device == 0 || device == frontend_detail::unknown_device) return made;
  return Array(
      frontend_detail::moved(made.required().tensor, device, *frontend_detail::context().host.executor()));
}
Array zeros_like(const Array& x, Where where) {
  frontend_detail::require_value(x, "zeros_like", where);
  return full_like(x, 0.0, where);
}
Array ones_like(const Array& x, Where where) {
  frontend_detail::require_value(x, "ones_like", where);
  return full_like(x, 1.0, where);
}

Array arange(std::int64_t n, DType dtype, Where where) {
  const std::int64_t static_args[] = {n, static_cast<std::int64_t>(dtype)};
  return make("arange", static_args, where, [&](Emitter& emitter) {
    return ops::iota(emitter, Type(dtype, {std::max<std::int64_t>(n, 0)}), 0);
  });
}

Array arange(Number start, Number stop, Number step, DType dtype, Where where) {
  if (step.value() == 0.0)
    refuse(ErrorKind::invalid_argument, "arange", "expected a step that is not 0, got 0", where);
  const double steps = std::ceil((stop.value() - start.value()) / step.value());
  constexpr double limit = 0x1p62;  // of elements, which no memory holds
  if (!(steps < limit))
    refuse(ErrorKind::invalid_argument, "arange",
           detail::str("expected numbers that come to an end, got ", start.value(), ", ",
                       start.value() + step.value(), ", ... to ", stop.value()),
           where);
  if (!start.is_whole() || !stop.is_whole() || !step.is_whole()) {
    return from_numbers(
        "arange", {static_cast<std::int64_t>(std::max(0.0, steps))}, dtype, where,
        [&](std::size_t i) -> Number { return start.value() + static_cast<double>(i) * step.value(); });
  }
  __extension__ using Wide = __int128;
  const Wide first = start.whole(), by = step.whole(), span = stop.whole() - first;
  const auto count = static_cast<std::int64_t>((span + by + (by > 0 ? -1 : 1)) / by);
  return from_numbers(
      "arange", {std::max<std::int64_t>(count, 0)}, dtype, where,
      [&](std::size_t i) -> Number { return static_cast<std::int64_t>(first + static_cast<Wide>(i) * by); });
}

Array linspace(double start, double stop, std::int64_t count, DType dtype, Where where) {
  if (count < 0) {
    refuse(ErrorKind::invalid_argument, "linspace", detail::str("expected a count of 0 or more, got ", count),
           where);
  }
  const auto gaps = static_cast<double>(std::max<std::int64_t>(count - 1, 1));
  const bool is_far = !std::isfinite((stop - start) * gaps) && std::isfinite(start) && std::isfinite(stop);
  return from_numbers("linspace", {count}, dtype, where, [&](std::size_t i) -> Number {
    const bool last = count > 1 && i + 1 == static_cast<std::size_t>(count);
    const double part = static_cast<double>(i) / gaps;
    const double number = last     ? stop
                          : is_far ? start * (1 - part) + stop * part
                                   : start + (stop - start) * static_cast<double>(i) / gaps;
    return is_integer(dtype) ? std::floor(number) : number;
  });
}

Array eye(std::int64_t n, DType dtype, Where where) {
  const std::int64_t static_args[] = {n, static_cast<std::int64_t>(dtype)};
  return make("eye", static_args, where, [&](Emitter& emitter) {
    const Type type(i64, {n, n});
    const Value rows = ops::iota(emitter, type, 0);
    return ops::convert_element_type(ops::eq(rows, ops::iota(emitter, type, 1)), dtype);
  });
}

Array one_hot(const Array& indices, std::int64_t depth, DType dtype, Where where) {
  const std::int64_t static_args[] = {depth, static_cast<std::int64_t>(dtype)};
  const Input operands[] = {indices};
  return invoke(
      {"one_hot", static_args}, operands,
      [&](Emitter& emitter, std::span<const Value> v) {
        Shape shape = v[0].shape();
        shape.push_back(depth);
        const auto axis = static_cast<std::int64_t>(shape.size()) - 1;
        // Elements of one size are compared and selected in one pass; indices out of range stay so.
        Value index = v[0];
        const bool small = dtype == f32 || dtype == i32 || dtype == f16 || dtype == bf16 || dtype == bool_;
        if (index.dtype() == i64 && small && depth >= 0 && depth < std::numeric_limits<std::int32_t>::max()) {
          const auto number = [&](std::int64_t n) {
            return ops::full(emitter, Type(i64), Literal::scalar(i64, n));
          };
          index = ops::convert_element_type(ops::clamp(number(-1), index, number(depth)), i32);
        }
        const Value positions = ops::iota(emitter, Type(index.dtype(), shape), axis);
        const Value given = frontend_detail::broadcast(ops::expand_dims(index, {axis}), shape);
        return ops::convert_element_type(ops::eq(given, positions), dtype);
      },
      where);
}

}  // namespace tidu
