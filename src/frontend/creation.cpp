// creation.cpp - Arrays from numbers.
#include <cmath>

#include "frontend/broadcast.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::refuse;

// The elements in row-major order, and the shape: that of the first item, which all others must have.
struct Flat {
  Shape shape;
  std::vector<double> numbers;
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

// f64 elements as an Array of `dtype`; integers keep to what a double holds exactly.
Array from_numbers(const Shape& shape, const std::vector<double>& numbers, DType dtype, Where where) {
  const Array made(Tensor::from(shape, std::span<const double>(numbers)));
  return dtype == f64 ? made : astype(made, dtype, where);
}

// An Array that no operand goes into.
template <class F>
Array make(const char* name, std::span<const std::int64_t> words, Where where, const F& body) {
  return invoke(
      {name, words}, {}, [&](Emitter& emitter, std::span<const Value>) { return body(emitter); }, where);
}

}  // namespace

Array array(const Nested& elements, std::optional<DType> dtype, Where where) {
  const Flat flat = flatten(elements, where);
  return from_numbers(flat.shape, flat.numbers, dtype.value_or(flat.dtype), where);
}

Array array(const Nested& elements, const Shape& shape, std::optional<DType> dtype, Where where) {
  return reshape(array(elements, dtype, where), shape, where);
}

namespace {

// `function` names what was called.
Array filled(const char* function, const Shape& shape, double value, DType dtype, Where where) try {
  const Type type(dtype, shape);
  if (value == 0.0 && !std::signbit(value)) return Array(Tensor::zeros(type));
  Tensor tensor(type);
  const Tensor one = frontend_detail::number(dtype, value);
  std::byte* to = tensor.mutable_bytes();
  const std::size_t width = size_of(dtype);
  for (std::int64_t i = 0; i < type.size(); ++i)
    std::copy_n(one.bytes(), width, to + static_cast<std::size_t>(i) * width);
  return Array(std::move(tensor));
} catch (const Error& error) {
  frontend_detail::raise_located(error, function, {}, where);
}

}  // namespace

Array full(const Shape& shape, double value, DType dtype, Where where) {
  return filled("full", shape, value, dtype, where);
}
Array zeros(const Shape& shape, DType dtype, Where where) {
  return filled("zeros", shape, 0.0, dtype, where);
}
Array ones(const Shape& shape, DType dtype, Where where) { return filled("ones", shape, 1.0, dtype, where); }
// Where x is.
Array full_like(const Array& x, double value, Where where) {
  Array made = full(x.shape(), value, x.dtype(), where);
  const frontend_detail::Body& body = x.required();
  if (frontend_detail::is_traced(body) || body.tensor.device() == 0) return made;
  return Array(frontend_detail::moved(made.required().tensor, body.tensor.device(),
                                      *frontend_detail::context().host.executor()));
}
Array zeros_like(const Array& x, Where where) { return full_like(x, 0.0, where); }
Array ones_like(const Array& x, Where where) { return full_like(x, 1.0, where); }

Array arange(std::int64_t n, DType dtype, Where where) {
  const std::int64_t words[] = {n, static_cast<std::int64_t>(dtype)};
  return make("arange", words, where, [&](Emitter& emitter) {
    return ops::iota(emitter, Type(dtype, {std::max<std::int64_t>(n, 0)}), 0);
  });
}

Array arange(double start, double stop, double step, DType dtype, Where where) {
  if (step == 0.0)
    refuse(ErrorKind::invalid_argument, "arange", "expected a step that is not 0, got 0", where);
  std::vector<double> numbers;
  const auto count = static_cast<std::int64_t>(std::max(0.0, std::ceil((stop - start) / step)));
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(start + static_cast<double>(i) * step);
  return from_numbers({count}, numbers, dtype, where);
}

Array linspace(double start, double stop, std::int64_t count, DType dtype, Where where) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(i + 1 == count && count > 1
                          ? stop
                          : start + (stop - start) * static_cast<double>(i) /
                                        static_cast<double>(std::max<std::int64_t>(count - 1, 1)));
  return from_numbers({std::max<std::int64_t>(count, 0)}, numbers, dtype, where);
}

Array eye(std::int64_t n, DType dtype, Where where) {
  const std::int64_t words[] = {n, static_cast<std::int64_t>(dtype)};
  return make("eye", words, where, [&](Emitter& emitter) {
    const Type type(i64, {n, n});
    const Value rows = ops::iota(emitter, type, 0);
    return ops::convert_element_type(ops::eq(rows, ops::iota(emitter, type, 1)), dtype);
  });
}

Array one_hot(const Array& indices, std::int64_t depth, DType dtype, Where where) {
  const std::int64_t words[] = {depth, static_cast<std::int64_t>(dtype)};
  const Input operands[] = {indices};
  return invoke(
      {"one_hot", words}, operands,
      [&](Emitter& emitter, std::span<const Value> v) {
        Shape shape = v[0].shape();
        shape.push_back(depth);
        const auto axis = static_cast<std::int64_t>(shape.size()) - 1;
        const Value positions = ops::iota(emitter, Type(v[0].dtype(), shape), axis);
        const Value given = frontend_detail::broadcast(ops::expand_dims(v[0], {axis}), shape);
        return ops::convert_element_type(ops::eq(given, positions), dtype);
      },
      where);
}

}  // namespace tidu
