// primitive.cpp - linearity, type inference with its checks, and PrimitiveSet.
#include "tidu/graph/primitive.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "graph/foreign_exception.hpp"
#include "graph/nearest.hpp"
#include "graph/place.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/primitive_set.hpp"
#include "tidu/graph/value.hpp"

namespace tidu {

bool Linearity::allows(std::span<const bool> active) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (!active[i]) continue;
    ++count;
    if (!includes(i)) return false;
  }
  if (count == 0) return true;
  return kind == Kind::joint || (kind == Kind::bilinear && count == 1);
}

void infer_types(const Op& op, std::span<const Type> operands, std::vector<Type>& results) {
  const Primitive& primitive = op.primitive();
  InferContext context(op, operands, results);
  if (primitive.arity != variadic && operands.size() != static_cast<std::size_t>(primitive.arity)) {
    context.fail("expected ", primitive.arity, " operand", primitive.arity == 1 ? "" : "s", ", got ",
                 operands.size());
  }
  if (primitive.has_trait(Trait::inexact)) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!is_inexact(operands[i].dtype())) {
        context.fail("expected a floating or complex operand ", i, ", got ", operands[i]);
      }
    }
  }
  if (primitive.infer == nullptr) {
    throw Error(ErrorKind::internal, detail::str('[', primitive.name, "] the record has no type rule"));
  }
  try {
    primitive.infer(context);
  } catch (...) {
    const std::string got = detail::foreign_exception();
    throw Error(ErrorKind::internal,
                detail::str('[', primitive.name, "] expected its type rule to run, got ", got));
  }
  if (primitive.num_outputs != variadic &&
      results.size() != static_cast<std::size_t>(primitive.num_outputs)) {
    throw Error(ErrorKind::internal, detail::str('[', primitive.name, "] its type rule gave ", results.size(),
                                                 " results, the record says ", primitive.num_outputs));
  }
}

std::vector<Type> infer_types(const Op& op, std::span<const Type> operands) {
  std::vector<Type> results;
  infer_types(op, operands, results);
  return results;
}

namespace {

std::size_t slot_of(const Primitive* primitive, std::size_t slots) {
  return detail::fold(std::bit_cast<std::uintptr_t>(primitive), 0x9e3779b97f4a7c15ULL) & (slots - 1);
}

}  // namespace

namespace {

PrimitiveSet::TransformOps minimal_ops(const Primitive* adder, PrimitiveSet::Zeros make_zeros) {
  PrimitiveSet::TransformOps transform_ops;
  transform_ops.add = adder;
  transform_ops.zeros = make_zeros;
  return transform_ops;
}

}  // namespace

PrimitiveSet::PrimitiveSet(std::vector<const Primitive*> primitives, const Primitive* adder, Zeros make_zeros)
    : PrimitiveSet(std::move(primitives), minimal_ops(adder, make_zeros)) {}

PrimitiveSet::PrimitiveSet(std::vector<const Primitive*> primitives, const TransformOps& transform_ops) {
  auto data = std::make_shared<Data>();
  data->by_name = primitives;
  std::sort(data->by_name.begin(), data->by_name.end(),
            [](const Primitive* a, const Primitive* b) { return a->name < b->name; });
  for (std::size_t i = 1; i < data->by_name.size(); ++i) {
    if (data->by_name[i - 1]->name == data->by_name[i]->name) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("PrimitiveSet: expected names to be unique, got two records named \"",
                              data->by_name[i]->name, '"'));
    }
  }
  data->by_address.resize(std::bit_ceil(4 * primitives.size() + 4), nullptr);
  for (const Primitive* primitive : primitives) {
    std::size_t slot = slot_of(primitive, data->by_address.size());
    while (data->by_address[slot] != nullptr) slot = (slot + 1) & (data->by_address.size() - 1);
    data->by_address[slot] = primitive;
  }
  data->primitives = std::move(primitives);
  data->transform_ops = transform_ops;
  data_ = std::move(data);
  if (transform_ops.add != nullptr && !contains(transform_ops.add)) {
    throw Error(ErrorKind::invalid_argument, detail::str("PrimitiveSet: expected the primitive that adds, \"",
                                                         transform_ops.add->name, "\", to be in the set"));
  }
}

const Primitive* PrimitiveSet::find(std::string_view name) const {
  const auto it = std::lower_bound(data_->by_name.begin(), data_->by_name.end(), name,
                                   [](const Primitive* a, std::string_view b) { return a->name < b; });
  return it != data_->by_name.end() && (*it)->name == name ? *it : nullptr;
}

bool PrimitiveSet::contains(const Primitive* primitive) const {
  const auto& slots = data_->by_address;
  for (std::size_t slot = slot_of(primitive, slots.size()); slots[slot] != nullptr;
       slot = (slot + 1) & (slots.size() - 1)) {
    if (slots[slot] == primitive) return true;
  }
  return false;
}

const Primitive& PrimitiveSet::resolve(const Primitive& primitive) const {
  if (contains(&primitive)) return primitive;
  const Primitive* found = find(primitive.name);
  if (found == nullptr) {
    throw Error(
        ErrorKind::unknown_primitive,
        detail::str('[', primitive.name, "] expected a primitive of the graph's set, which has no such name",
                    detail::nearest_primitives(primitive.name, *this)));
  }
  return *found;
}

PrimitiveSet PrimitiveSet::with(const std::vector<const Primitive*>& more) const {
  std::vector<const Primitive*> all = primitives();
  all.insert(all.end(), more.begin(), more.end());
  return PrimitiveSet(std::move(all), transform_ops());
}

PrimitiveSet PrimitiveSet::replacing(const Primitive* replacement) const {
  std::vector<const Primitive*> all = primitives();
  const Primitive* old = find(replacement->name);
  if (old == nullptr) {
    throw Error(
        ErrorKind::unknown_primitive,
        detail::str("PrimitiveSet::replacing: expected a name of the set, got \"", replacement->name, '"'));
  }
  std::replace(all.begin(), all.end(), old, replacement);
  TransformOps changed = transform_ops();
  for (const Primitive** each : {&changed.add, &changed.neg, &changed.sub}) {
    if (*each == old) *each = replacement;
  }
  return PrimitiveSet(std::move(all), changed);
}

namespace {

Emitter& emitter_of(const Op& op, std::span<const Value> operands, Where where) {
  if (operands.empty() || operands[0].emitter() == nullptr) {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str('[', op.name(), "] expected operands that belong to an emitter, got ",
                    operands.empty() ? "none" : "a default-constructed Value", detail::at_place(where)));
  }
  return *operands[0].emitter();
}

}  // namespace

std::uint32_t Emitter::next_serial() {
  static std::atomic<std::uint32_t> serial{0};
  return serial.fetch_add(1, std::memory_order_relaxed) + 1;
}

void detail::refuse_unset_value() {
  throw Error(ErrorKind::invalid_argument,
              "[Value] expected a value that belongs to an emitter, got a default-constructed Value");
}

Values emit(const Op& op, std::span<const Value> operands, Where where) {
  return emitter_of(op, operands, where).emit(op, operands, where);
}

Value emit_one(const Op& op, std::span<const Value> operands, Where where) {
  return emitter_of(op, operands, where).emit_one(op, operands, where);
}

Value emit1(const Op& op, std::initializer_list<Value> operands, Where where) {
  return emit_one(op, std::span(operands.begin(), operands.size()), where);
}

Value zeros(Emitter& emitter, Type type) {
  if (emitter.primitives().zeros() == nullptr) {
    throw Error(ErrorKind::unknown_primitive,
                detail::str("expected a primitive set that can make zeros of ", type));
  }
  return emitter.primitives().zeros()(emitter, type);
}

}  // namespace tidu
