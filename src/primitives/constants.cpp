// constants.cpp - records of the operations without operands, and the functions that emit them.
#include <array>
#include <bit>
#include <optional>

#include "graph/place.hpp"
#include "graph/thread_kept.hpp"
#include "primitives/elementwise_rules.hpp"
#include "primitives/factor_rules.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec constant_attributes[] = {{.name = "value", .kind = AttributeKind::literal}};
constexpr AttributeSpec iota_attributes[] = {{.name = "dtype", .kind = AttributeKind::dtype},
                                             {.name = "shape", .kind = AttributeKind::ints},
                                             {.name = "dimension", .kind = AttributeKind::integer}};
constexpr AttributeSpec full_attributes[] = {{.name = "value", .kind = AttributeKind::number},
                                             {.name = "dtype", .kind = AttributeKind::dtype},
                                             {.name = "shape", .kind = AttributeKind::ints}};

constexpr Primitive nullary(std::string_view name, std::span<const AttributeSpec> attributes,
                            Primitive::InferRule infer) {
  return {.name = name,
          .arity = 0,
          .attributes = attributes,
          .traits = Trait::constant | Trait::no_tangent,
          .infer = infer};
}

Type attribute_type(InferContext& c) { return make_type(c, c.op().dtype("dtype"), c.op().ints("shape")); }

}  // namespace

constinit const Primitive constant = nullary(
    "constant", constant_attributes, [](InferContext& c) { c.result(c.op().literal("value").type()); });

constinit const Primitive iota = [] {
  Primitive primitive = nullary("iota", iota_attributes, [](InferContext& c) {
    const Type type = attribute_type(c);
    const std::int64_t dimension = c.op().integer("dimension");
    c.require(!is_bool(type.dtype()), "expected a dtype of numbers, got ", type);
    c.require(dimension >= 0 && dimension < static_cast<std::int64_t>(type.rank()),
              "expected dimension to be an axis of ", type, ", got ", dimension);
    c.result(type);
  });
  primitive.factors = factors_of_iota;
  primitive.resize = resize_shape;
  return primitive;
}();

constinit const Primitive full = [] {
  Primitive primitive =
      nullary("full", full_attributes, [](InferContext& c) { c.result(attribute_type(c)); });
  primitive.traits = primitive.traits | Trait::repeats;
  primitive.factors = factors_of_full;
  primitive.resize = resize_shape;
  return primitive;
}();

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Op full_op(Type type, Literal value) {
  return Op::make(prim::full,
                  {{"value", std::move(value)}, {"dtype", type.dtype()}, {"shape", type.shape()}});
}

// The ops of the constants that this thread used last, by type and bits of the value.
struct RecentFull {
  const void* type = nullptr;
  std::uint64_t bits = 0;
  std::optional<Op> op;
};
constexpr std::size_t recent_fulls = 256;
using RecentFulls = std::array<RecentFull, recent_fulls>;

std::size_t slot_of(const void* type, std::uint64_t bits) {
  const std::uint64_t mixed = (std::bit_cast<std::uintptr_t>(type) ^ bits) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::size_t>(mixed >> 32) % recent_fulls;
}

}  // namespace

Value constant(Emitter& emitter, const Literal& value, Where where) {
  return emitter.emit_one(Op::make(prim::constant, {{"value", value}}), {}, where);
}

Value iota(Emitter& emitter, Type type, std::int64_t dimension, Where where) {
  const Op op =
      Op::make(prim::iota, {{"dtype", type.dtype()}, {"shape", type.shape()}, {"dimension", dimension}});
  return emitter.emit_one(op, {}, where);
}

Value full(Emitter& emitter, Type type, double value, Where where) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  RecentFull& entry = tidu::detail::ThreadKept<RecentFulls>::get()[slot_of(type.identity(), bits)];
  if (entry.type != type.identity() || entry.bits != bits) {
    Op op = full_op(type, Literal::scalar(type.dtype(), value));
    entry = {type.identity(), bits, std::move(op)};
  }
  const Op op = *entry.op;  // the emitter may come back here and take the entry
  return emitter.emit_one(op, {}, where);
}

Value full(Emitter& emitter, Type type, const Literal& scalar, Where where) {
  return emitter.emit_one(full_op(type, scalar), {}, where);
}

Value full_like(Value x, double value, Where where) {
  if (x.emitter() == nullptr) {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str("[full] expected a value that belongs to an emitter, got a default-constructed Value",
                    detail::at_place(where)));
  }
  return full(*x.emitter(), x.type(), value, where);
}

}  // namespace tidu::ops
