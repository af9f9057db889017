// primitives.cpp - the records of the two primitives, each with all of its rules. A rule emits operations by
// the same functions as all other code, so it works in every mode, at every order and on every executor.
#include "primitives.hpp"

#include <algorithm>
#include <cstring>
#include <tidu/tidu.hpp>

namespace demo {
namespace {

using namespace tidu;

constexpr AttributeSpec rms_norm_attributes[] = {{"axis", AttributeKind::integer}};
constexpr AttributeSpec circulant_attributes[] = {{"weights", AttributeKind::literal}};

void infer_rms_norm(InferContext& c) {
  const Type x = c.operand(0);
  const std::int64_t axis = c.op().integer("axis");
  c.require(is_floating(x.dtype()), "expected a floating operand, got ", x);
  c.require(axis >= 0 && axis < static_cast<std::int64_t>(x.rank()), "expected axis in [0, ", x.rank(),
            "), got ", axis);
  c.require(x.dim(static_cast<std::size_t>(axis)) > 0, "expected elements along axis ", axis, ", got ", x);
  c.result(x);
}

// The mean of x along `axis`, repeated along it.
Value mean_along(Value x, std::int64_t axis) {
  const auto extent = static_cast<double>(x.shape()[static_cast<std::size_t>(axis)]);
  const Value sum = ops::expand_dims(ops::reduce_sum(x, {axis}), {axis});
  Ints same_axes;
  for (std::size_t i = 0; i < x.rank(); ++i) same_axes.push_back(static_cast<std::int64_t>(i));
  return ops::broadcast_in_dim(sum * ops::full_like(sum, 1 / extent), x.shape(), same_axes);
}

// With r = (mean(x^2) + epsilon)^(-1/2):   y = r x,   dy = r (dx - y mean(y dx))
Derivatives jvp_rms_norm(JvpContext& c) {
  const std::int64_t axis = c.op().integer("axis");
  const Value x = c.primal(0), y = c.result(), dx = *c.tangent(0);
  const Value r = ops::rsqrt(mean_along(ops::square(x), axis) + ops::full_like(x, epsilon));
  return r * (dx - y * mean_along(y * dx, axis));
}

void infer_circulant(InferContext& c) {
  const Type x = c.operand(0), weights = c.op().literal("weights").type();
  c.require(is_floating(x.dtype()) && x.rank() > 0 && x.shape().back() > 0,
            "expected a floating operand with elements along a last axis, got ", x);
  const Type wanted(x.dtype(), {x.shape().back()});
  c.require(weights == wanted, "expected weights ", wanted, " for ", x, ", got ", weights);
  c.result(x);
}

// w_(-k mod n): the weights of the transposed matrix.
Literal reversed(const Literal& weights) {
  const std::size_t size = size_of(weights.type().dtype());
  std::vector<std::byte> bytes(weights.bytes(), weights.bytes() + weights.type().bytes());
  std::vector<std::byte> result(bytes);
  for (std::size_t at = size; at < bytes.size(); at += size)
    std::memcpy(&result[at], &bytes[bytes.size() - at], size);
  return Literal(weights.type(), result);
}

}  // namespace

// Not linear, so it has a JVP and no transpose: a VJP is the JVP transposed.
constinit const Primitive rms_norm{.name = "demo.rms_norm",
                                   .attributes = rms_norm_attributes,
                                   .infer = infer_rms_norm,
                                   .jvp = jvp_rms_norm,
                                   .batch = [](BatchContext& c) -> Values {
                                     return apply_rms_norm(c.operand(0), c.op().integer("axis") + 1);
                                   }};

// Linear, so its JVP follows, and it has a transpose. A leading axis more is one that it does not look at.
constinit const Primitive circulant{
    .name = "demo.circulant",
    .attributes = circulant_attributes,
    .linearity = linearity::linear,
    .infer = infer_circulant,
    .transpose = [](TransposeContext& c) -> Derivatives {
      return apply_circulant(*c.cotangent(), reversed(c.op().literal("weights")));
    },
    .batch = [](BatchContext& c) -> Values { return emit1(c.op(), {c.operand(0)}); }};

Value apply_rms_norm(Value x, std::int64_t axis, Where where) {
  return emit1(Op::make(rms_norm, {{"axis", axis}}), {x}, where);
}

Value apply_circulant(Value x, const Literal& weights, Where where) {
  return emit1(Op::make(circulant, {{"weights", weights}}), {x}, where);
}

const PrimitiveSet& primitives() {
  static const PrimitiveSet set = standard_primitives().with({&rms_norm, &circulant});
  return set;
}

}  // namespace demo
