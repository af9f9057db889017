// standard.cpp - the standard set: all records of this module, and the operations that transforms emit.
#include <numeric>

#include "tidu/primitives/collectives.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu {
namespace {

Value make_zeros(Emitter& emitter, Type type) { return ops::full(emitter, type, 0.0, {}); }
Value make_ones(Emitter& emitter, Type type) { return ops::full(emitter, type, 1.0, {}); }

Shape joined(Shape first, const Shape& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Shape rest_of(const Shape& shape) { return Shape(shape.begin() + 1, shape.end()); }

Value broadcast_leading(Value x, std::int64_t size) {
  Ints dimensions(x.rank());
  std::iota(dimensions.begin(), dimensions.end(), 1);
  return ops::broadcast_in_dim(x, joined({size}, x.shape()), dimensions, {});
}

// Row r, element i: r == offset + i.
Value basis(Emitter& emitter, Type type, std::int64_t rows, std::int64_t offset) {
  const Type indices(DType::i64, {rows, type.size()});
  const Value row = ops::iota(emitter, indices, 0, {});
  Value element = ops::iota(emitter, indices, 1, {});
  if (offset != 0) {
    element = ops::add(element, ops::full(emitter, indices, Literal::scalar(DType::i64, offset), {}), {});
  }
  const Value hot = ops::convert_element_type(ops::eq(row, element, {}), type.dtype(), {});
  return type.rank() == 1 ? hot : ops::reshape(hot, joined({rows}, type.shape()), {});
}

Value some_rows(Value x, std::int64_t offset, std::int64_t count) {
  if (offset == 0 && count == x.shape()[0]) return x;
  Ints start(x.rank(), 0);
  Ints limit = x.shape();
  start[0] = offset;
  limit[0] = offset + count;
  return ops::slice(x, start, limit, Ints(x.rank(), 1), {});
}

Value reshaped(Value x, const Shape& shape) { return x.shape() == shape ? x : ops::reshape(x, shape, {}); }

Value leading_block(Value x, std::int64_t offset, const Shape& shape) {
  return reshaped(some_rows(x, offset, num_elements(shape)), joined(shape, rest_of(x.shape())));
}

Value trailing_block(Value x, std::int64_t offset, const Shape& shape) {
  const Shape result = joined(rest_of(x.shape()), shape);
  Value rows = some_rows(x, offset, num_elements(shape));
  if (rows.rank() > 1) {
    Ints permutation(rows.rank());
    std::iota(permutation.begin(), permutation.end() - 1, 1);
    permutation.back() = 0;
    rows = ops::transpose(rows, permutation, {});
  }
  return reshaped(rows, result);
}

PrimitiveSet make_standard() {
  std::vector<const Primitive*> all = prim::elementwise_primitives();
  const std::vector<const Primitive*> structural = prim::structural_primitives();
  all.insert(all.end(), structural.begin(), structural.end());
  const std::vector<const Primitive*> custom = prim::custom_primitives();
  all.insert(all.end(), custom.begin(), custom.end());
  const std::vector<const Primitive*> control_flow = prim::control_flow_primitives();
  all.insert(all.end(), control_flow.begin(), control_flow.end());
  const std::vector<const Primitive*> linalg = prim::linalg_primitives();
  all.insert(all.end(), linalg.begin(), linalg.end());
  const std::vector<const Primitive*> collectives = prim::collective_primitives();
  all.insert(all.end(), collectives.begin(), collectives.end());
  PrimitiveSet::TransformOps transform_ops;
  transform_ops.add = &prim::add;
  transform_ops.neg = &prim::neg;
  transform_ops.sub = &prim::sub;
  transform_ops.zeros = make_zeros;
  transform_ops.ones = make_ones;
  transform_ops.broadcast = broadcast_leading;
  transform_ops.basis = basis;
  transform_ops.leading_block = leading_block;
  transform_ops.trailing_block = trailing_block;
  transform_ops.convert = [](Value x, DType dtype) { return ops::convert_element_type(x, dtype, {}); };
  transform_ops.constant = [](Emitter& emitter, const Literal& value) {
    return ops::constant(emitter, value, {});
  };
  return PrimitiveSet(std::move(all), transform_ops);
}

}  // namespace

const PrimitiveSet& standard_primitives() {
  static const PrimitiveSet& set = *new PrimitiveSet(make_standard());  // outlives every static
  return set;
}

}  // namespace tidu
