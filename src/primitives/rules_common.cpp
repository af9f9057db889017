// rules_common.cpp - the type and batch rules that several families share.
#include "primitives/elementwise_rules.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

bool includes(Kinds kinds, Kinds kind) {
  return (static_cast<std::uint8_t>(kinds) & static_cast<std::uint8_t>(kind)) != 0;
}

Kinds kind_of(DType dtype) {
  if (is_bool(dtype)) return Kinds::booleans;
  if (is_integer(dtype)) return Kinds::integers;
  return is_floating(dtype) ? Kinds::floats : Kinds::complexes;
}

// "a floating or complex"
std::string words(Kinds kinds) {
  std::vector<std::string_view> names;
  if (includes(kinds, Kinds::booleans)) names.push_back("bool");
  if (includes(kinds, Kinds::integers)) names.push_back("integer");
  if (includes(kinds, Kinds::floats)) names.push_back("floating");
  if (includes(kinds, Kinds::complexes)) names.push_back("complex");
  std::string text = names[0] == "integer" ? "an " : "a ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

Shape with_axis(std::int64_t size, const Shape& shape) {
  Shape all{size};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

// 0, 1, …, count - 1, each plus `first`
Ints counting(std::size_t count, std::int64_t first) {
  Ints axes(count);
  for (std::size_t i = 0; i < count; ++i) axes[i] = static_cast<std::int64_t>(i) + first;
  return axes;
}

}  // namespace

void require_one_type(InferContext& c) {
  for (std::size_t i = 1; i < c.num_operands(); ++i) {
    c.require(c.operand(i) == c.operand(0), "expected operands of one type, got ", c.operand(0), " and ",
              c.operand(i), i == 1 ? "" : detail::str(" (operand ", i, ')'));
  }
}

void infer_same_type(InferContext& c) {
  require_one_type(c);
  c.result(c.operand(0));
}

void infer_comparison(InferContext& c) {
  require_one_type(c);
  c.result(c.operand(0).with_dtype(DType::boolean));
}

void require_kind(InferContext& c, std::size_t i, Kinds allowed) {
  if (includes(allowed, kind_of(c.operand(i).dtype()))) return;
  c.fail("expected ", words(allowed), " operand", c.num_operands() == 1 ? "" : detail::str(' ', i), ", got ",
         c.operand(i));
}

Type make_type(const InferContext& c, DType dtype, const Shape& shape) {
  try {
    return Type(dtype, shape);
  } catch (const Error& error) {
    c.fail(error.what());
  }
}

Value with_batch_axis(BatchContext& c, std::size_t operand) {
  if (c.batched(operand)) return c.operand(operand);
  const Shape& shape = c.operand_type(operand).shape();
  return ops::broadcast_in_dim(c.operand(operand), with_axis(c.size(), shape), counting(shape.size(), 1));
}

Values batch_elementwise(BatchContext& c) {
  // The operands' common shape, beside which scalars may stand: one that is not batched stays, one that is
  // gets every axis.
  std::size_t widest = 0;
  for (std::size_t i = 1; i < c.num_operands(); ++i) {
    if (c.operand_type(i).rank() > c.operand_type(widest).rank()) widest = i;
  }
  const Shape& shape = c.operand_type(widest).shape();
  Values operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const bool scalar = c.operand_type(i).rank() == 0 && !shape.empty();
    if (!scalar) {
      operands.push_back(with_batch_axis(c, i));
    } else if (!c.batched(i)) {
      operands.push_back(c.operand(i));
    } else {
      operands.push_back(ops::broadcast_in_dim(c.operand(i), with_axis(c.size(), shape), {0}));
    }
  }
  return c.emitter().emit(c.op(), operands);
}

std::optional<Value> sum(const std::optional<Value>& a, const std::optional<Value>& b) {
  if (a && b) return ops::add(*a, *b);
  return a ? a : b;
}

Value conjugate(Value x) { return is_complex(x.dtype()) ? ops::conj(x) : x; }

Value is_finite_number(Value x) {
  if (!is_complex(x.dtype())) return ops::is_finite(x);
  const Value real_part_is_finite = ops::is_finite(ops::real(x));
  return ops::logical_and(real_part_is_finite, ops::is_finite(ops::imag(x)));
}

}  // namespace tidu::prim
