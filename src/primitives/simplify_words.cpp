// simplify_words.cpp - queries and emitting functions that many simplify rules share, and the rule of all
// element-wise operations.
#include <bit>
#include <cmath>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

constexpr std::size_t max_axes = 64;

// An operand of an element-wise operation as it was before it was broadcast.
struct Narrow {
  std::optional<Literal> element;  // of a literal repeated
  Value inner;                     // otherwise
  std::uint64_t axes = 0;          // of the result, along which its elements differ
};

std::optional<Narrow> narrow(const SimplifyContext& c, Value operand, const Shape& shape) {
  if (operand.rank() == 0) return Narrow{std::nullopt, operand, 0};
  if (auto element = c.splat(operand)) return Narrow{std::move(element), {}, 0};
  const auto made = c.producer(operand, broadcast_in_dim);
  if (!made) return std::nullopt;
  Narrow result{std::nullopt, c.input(*made), 0};
  const Op op = made->op();
  const Ints& placed = op.ints("broadcast_dimensions");
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const auto axis = static_cast<std::size_t>(placed[i]);
    if (result.inner.shape()[i] != 1 || shape[axis] == 1) result.axes |= std::uint64_t{1} << axis;
  }
  return result;
}

// f(broadcast x, broadcast y, literal) = broadcast f(x, y, literal), along fewer axes than the result has
Values before_broadcasts(SimplifyContext& c) {
  const Type type = c.result_type();
  const Shape& shape = type.shape();
  std::vector<Narrow> operands;
  std::uint64_t axes = 0;
  bool arrays = false,
       unshared = false;  // of those that were broadcast: more than an element, read here only
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    std::optional<Narrow> operand = narrow(c, c.operand(i), shape);
    if (!operand) return unchanged();
    axes |= operand->axes;
    if (!operand->element && operand->inner.type().size() > 1) {
      arrays = true;
      unshared = unshared || !c.shared(i);
    }
    operands.push_back(std::move(*operand));
  }
  Ints kept;
  Shape inner;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (((axes >> axis) & 1U) == 0) continue;
    kept.push_back(static_cast<std::int64_t>(axis));
    inner.push_back(shape[axis]);
  }
  if ((arrays && !unshared) || num_elements(inner) >= type.size()) return unchanged();
  Values narrowed;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Narrow& operand = operands[i];
    if (c.operand(i).rank() == 0) {
      narrowed.push_back(operand.inner);
    } else if (operand.element) {
      narrowed.push_back(filled(c, Type(c.operand(i).dtype(), inner), *operand.element));
    } else {
      Ints placed;
      Shape own;
      for (std::size_t k = 0; k < kept.size(); ++k) {
        if (((operand.axes >> kept[k]) & 1U) == 0) continue;
        placed.push_back(static_cast<std::int64_t>(k));
        own.push_back(inner[k]);
      }
      narrowed.push_back(ops::broadcast_in_dim(ops::reshape(operand.inner, own), inner, placed));
    }
  }
  const Value result = c.emitter().emit_one(c.op(), narrowed);
  return ops::broadcast_in_dim(result, shape, kept);
}

}  // namespace

bool is_number(const SimplifyContext& c, Value value, double number) {
  const std::optional<Literal> element = c.splat(value);
  if (!element) return false;
  const std::complex<double> x = element->at(0);
  if (!is_inexact(value.dtype())) return x.real() == number;
  if (!same_bits(x.real(), number)) return false;
  return !is_complex(value.dtype()) || same_bits(x.imag(), std::copysign(0.0, number));
}

std::optional<double> number_of(const SimplifyContext& c, Value value) {
  constexpr double exact = 0x1p53;
  if (is_complex(value.dtype())) return std::nullopt;
  const std::optional<Literal> element = c.splat(value);
  if (!element) return std::nullopt;
  const double x = element->at(0).real();
  if (is_integer(value.dtype()) && !(std::fabs(x) < exact)) return std::nullopt;
  return x;
}

Value filled(const SimplifyContext& c, Type type, const Literal& element) {
  return ops::full(c.emitter(), type, element);
}

Values filled_like_operands(const SimplifyContext& c) {
  std::optional<Literal> element;
  for (const Value operand : c.operands()) {
    std::optional<Literal> next = c.splat(operand);
    if (!next || (element && !(*element == *next))) return unchanged();
    element = std::move(next);
  }
  return element ? Values(filled(c, c.result_type(), *element)) : unchanged();
}

Values simplify_elementwise(SimplifyContext& c) {
  if (c.num_results() != 1) return unchanged();
  const Type type = c.result_type();
  if (type.rank() == 0 || type.rank() > max_axes || type.size() <= 1) return unchanged();
  Values results = before_broadcasts(c);
  return results.empty() ? before_transposes(c) : results;
}

}  // namespace tidu::prim
