// vector_lowering.cpp - from operations to instructions on vectors.
#include <bit>
#include <cstring>
#include <limits>
#include <numbers>
#include <string_view>
#include <unordered_map>

#include "cpu/fusion/vector_ir.hpp"
#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/special.hpp"

namespace tidu::cpu_detail {
namespace {

// Adds steps to a code; the names are those of values.
class Steps {
 public:
  using VirtualRegister = std::uint16_t;
  explicit Steps(VectorProgram& code) : code_(code) {}

  VirtualRegister immediate(double value) {
    return with_bits(code_.dtype == f32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                        : std::bit_cast<std::uint64_t>(value));
  }
  VirtualRegister integer(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return with_bits(code_.dtype == f32 ? bits & 0xffffffffU : bits);
  }
  VirtualRegister with_bits(std::uint64_t bits) {
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      const VectorInst& step = code_.steps[i];
      if (step.op == VectorOp::immediate && step.bits == bits) return static_cast<VirtualRegister>(i);
    }
    return code_.add({.op = VectorOp::immediate, .bits = bits});
  }
  VirtualRegister of(VectorOp op, VirtualRegister a, VirtualRegister b = no_register,
                     VirtualRegister c = no_register) {
    return code_.add({.op = op, .a = a, .b = b, .c = c});
  }
  VirtualRegister call(VectorFunction function, VirtualRegister a, VirtualRegister b = no_register) {
    return code_.add({.op = VectorOp::call, .a = a, .b = b, .index = static_cast<std::uint32_t>(function)});
  }
  bool is_mask(VirtualRegister value) const { return code_.is_mask(value); }
  DType dtype() const { return code_.dtype; }

 private:
  VectorProgram& code_;
};

using VirtualRegister = Steps::VirtualRegister;
using Registers = std::span<const VirtualRegister>;
using Rule = VirtualRegister (*)(Steps& s, const Op& op, Registers x);

template <VectorOp op>
VirtualRegister one(Steps& s, const Op&, Registers x) {
  return s.of(op, x[0]);
}
template <VectorOp op>
VirtualRegister two(Steps& s, const Op&, Registers x) {
  return s.of(op, x[0], x[1]);
}
template <VectorFunction function>
VirtualRegister call(Steps& s, const Op&, Registers x) {
  return s.call(function, x[0], function >= VectorFunction::first_of_two ? x[1] : no_register);
}

VirtualRegister square(Steps& s, const Op&, Registers x) { return s.of(VectorOp::mul, x[0], x[0]); }
VirtualRegister multiply_no_nan(Steps& s, const Op& op, Registers x) {
  const VirtualRegister product = s.of(VectorOp::multiply_no_nan, x[0], x[1]);
  if (!op.boolean("both")) return product;
  return s.of(VectorOp::select, s.of(VectorOp::equal, x[1], s.immediate(0)), product, x[1]);
}
VirtualRegister reciprocal(Steps& s, const Op&, Registers x) {
  return s.of(VectorOp::div, s.immediate(1), x[0]);
}
VirtualRegister rsqrt(Steps& s, const Op&, Registers x) {
  const VirtualRegister root = s.of(VectorOp::sqrt, x[0]);
  return s.of(VectorOp::div, s.immediate(1), root);
}
// 1 / (1 + e^-|x|), below 0 e^-|x| times that: e^-x may be infinite where the result is a number.
VirtualRegister logistic(Steps& s, const Op&, Registers x) {
  const VirtualRegister one = s.immediate(1);
  const VirtualRegister power = s.call(VectorFunction::exp, s.of(VectorOp::bits_or, x[0], s.immediate(-0.0)));
  const VirtualRegister negative = s.of(VectorOp::less, x[0], s.immediate(0));
  const VirtualRegister above = s.of(VectorOp::select, negative, one, power);
  return s.of(VectorOp::div, above, s.of(VectorOp::add, one, power));
}
VirtualRegister polynomial(Steps& s, VirtualRegister x, std::span<const double> coefficients) {
  VirtualRegister sum = s.immediate(coefficients[0]);
  for (const double next : coefficients.subspan(1))
    sum = s.of(VectorOp::add, s.of(VectorOp::mul, sum, x), s.immediate(next));
  return sum;
}
// A step of Halley's method for |x| in f64: a y that is 1e-7 off gets all of its digits.
VirtualRegister refine_erf_inv(Steps& s, VirtualRegister size, VirtualRegister y) {
  // 1 - |x| is exact where it matters, and erfc keeps its digits there.
  const VirtualRegister one = s.immediate(1), is_small = s.of(VectorOp::less, size, s.immediate(0.5));
  const VirtualRegister below = s.of(VectorOp::sub, s.call(VectorFunction::erf, y), size);
  const VirtualRegister above =
      s.of(VectorOp::sub, s.of(VectorOp::sub, one, size), s.call(VectorFunction::erfc, y));
  const VirtualRegister error = s.of(VectorOp::select, is_small, above, below);
  const VirtualRegister power = s.call(VectorFunction::exp, s.of(VectorOp::neg, s.of(VectorOp::mul, y, y)));
  const VirtualRegister slope = s.of(VectorOp::mul, s.immediate(2 * std::numbers::inv_sqrtpi), power);
  const VirtualRegister newton = s.of(VectorOp::div, error, slope);
  const VirtualRegister bend = s.of(VectorOp::add, one, s.of(VectorOp::mul, y, newton));
  return s.of(VectorOp::sub, y, s.of(VectorOp::div, newton, bend));
}
VirtualRegister erf_inv(Steps& s, const Op&, Registers x) {
  const VirtualRegister one = s.immediate(1), size = s.of(VectorOp::abs, x[0]);
  const VirtualRegister product =
      s.of(VectorOp::mul, s.of(VectorOp::sub, one, size), s.of(VectorOp::add, one, size));
  const VirtualRegister w = s.of(VectorOp::neg, s.call(VectorFunction::log, product));
  const VirtualRegister near = polynomial(s, s.of(VectorOp::sub, w, s.immediate(2.5)), erf_inv_near);
  const VirtualRegister root = s.of(VectorOp::sqrt, w);
  VirtualRegister far = polynomial(s, s.of(VectorOp::sub, root, s.immediate(3)), erf_inv_far);
  if (s.dtype() == f64) {
    const VirtualRegister end = polynomial(s, s.of(VectorOp::sub, root, s.immediate(5)), erf_inv_end);
    far = s.of(VectorOp::select, s.of(VectorOp::less, w, s.immediate(16)), end, far);
  }
  const VirtualRegister is_near = s.of(VectorOp::less, w, s.immediate(5));
  VirtualRegister slope = s.of(VectorOp::select, is_near, far, near);
  if (s.dtype() == f64) {
    const VirtualRegister refined = refine_erf_inv(s, size, s.of(VectorOp::mul, slope, size));
    const VirtualRegister is_tiny = s.of(VectorOp::less, size, s.immediate(1e-8));
    slope = s.of(VectorOp::select, is_tiny, s.of(VectorOp::div, refined, size),
                 s.immediate(0.5 / std::numbers::inv_sqrtpi));
  }
  const VirtualRegister is_end = s.of(VectorOp::equal, size, one);
  const VirtualRegister infinity = s.immediate(std::numeric_limits<double>::infinity());
  return s.of(VectorOp::mul, x[0], s.of(VectorOp::select, is_end, slope, infinity));
}
// Zeros and NaN stay what they are.
VirtualRegister sign(Steps& s, const Op&, Registers x) {
  const VirtualRegister zero = s.immediate(0);
  const VirtualRegister negative = s.of(VectorOp::less, x[0], zero);
  const VirtualRegister below = s.of(VectorOp::select, negative, x[0], s.immediate(-1));
  const VirtualRegister positive = s.of(VectorOp::less, zero, x[0]);
  return s.of(VectorOp::select, positive, below, s.immediate(1));
}
VirtualRegister is_finite(Steps& s, const Op&, Registers x) {
  const VirtualRegister size = s.of(VectorOp::abs, x[0]);
  return s.of(VectorOp::less, size, s.immediate(std::numeric_limits<double>::infinity()));
}
VirtualRegister clamp(Steps& s, const Op&, Registers x) {
  const VirtualRegister above = s.of(VectorOp::max, x[1], x[0]);
  return s.of(VectorOp::min, above, x[2]);
}
VirtualRegister select(Steps& s, const Op&, Registers x) {
  if (x.size() != 3 || !s.is_mask(x[0])) return no_register;
  return s.of(s.is_mask(x[1]) ? VectorOp::select_mask : VectorOp::select, x[0], x[1], x[2]);
}
VirtualRegister round(Steps& s, const Op& op, Registers x) {
  return op.string("rounding_method") == "away_from_zero" ? no_register : s.of(VectorOp::round, x[0]);
}
// As detail::truncated: to_integer gives the smallest integer for numbers that are too large, and inverting
// all its bits gives the largest. The bits of NaN are cleared.
VirtualRegister truncate(Steps& s, VirtualRegister x) {
  if (s.dtype() != f32) return no_register;
  const VirtualRegister large = s.of(VectorOp::less_equal, s.immediate(0x1p31), x);
  const VirtualRegister whole = s.of(VectorOp::bits_xor, s.of(VectorOp::to_integer, x), large);
  return s.of(VectorOp::bits_and, whole, s.of(VectorOp::equal, x, x));
}
VirtualRegister convert(Steps& s, const Op& op, Registers x) {
  const DType to = op.dtype("new_dtype");
  if (is_integer(to)) return truncate(s, x[0]);
  const bool to_mask = to == bool_;
  if (s.is_mask(x[0]) == to_mask) return x[0];
  if (to_mask) return s.of(VectorOp::not_equal, x[0], s.immediate(0));
  const VirtualRegister zero = s.immediate(0);
  return s.of(VectorOp::select, x[0], zero, s.immediate(1));
}
// In the order of the loop for other dtypes.
auto emitting(Steps& s, VectorOp op) {
  return [&s, op](VirtualRegister x, VirtualRegister y) { return s.of(op, x, y); };
}
VirtualRegister integer_pow(Steps& s, const Op& op, Registers x) {
  const std::int64_t y = op.integer("y");
  if (y < -64 || y > 64) return no_register;
  const auto n = static_cast<std::uint64_t>(y < 0 ? -y : y);
  const auto product = emitting(s, VectorOp::mul);
  if (y > 0) return power_of(x[0], n, product);
  const VirtualRegister one = s.immediate(1);
  return y == 0 ? one : inverse_power_of(one, x[0], n, product, emitting(s, VectorOp::div));
}
template <VectorOp op, bool swapped = false>
VirtualRegister compare(Steps& s, const Op&, Registers x) {
  if (!s.is_mask(x[0])) return swapped ? s.of(op, x[1], x[0]) : s.of(op, x[0], x[1]);
  if (op == VectorOp::equal) return s.of(VectorOp::mask_not, s.of(VectorOp::mask_xor, x[0], x[1]));
  return op == VectorOp::not_equal ? s.of(VectorOp::mask_xor, x[0], x[1]) : no_register;
}

// Operations on integers.
VirtualRegister integer_neg(Steps& s, const Op&, Registers x) {
  return s.of(VectorOp::integer_sub, s.integer(0), x[0]);
}
VirtualRegister integer_abs(Steps& s, const Op& op, Registers x) {
  return s.of(VectorOp::integer_max, x[0], integer_neg(s, op, x));
}
VirtualRegister integer_sign(Steps& s, const Op&, Registers x) {
  return s.of(VectorOp::integer_min, s.of(VectorOp::integer_max, x[0], s.integer(-1)), s.integer(1));
}
VirtualRegister integer_square(Steps& s, const Op&, Registers x) {
  return s.of(VectorOp::integer_mul, x[0], x[0]);
}
VirtualRegister integer_clamp(Steps& s, const Op&, Registers x) {
  return s.of(VectorOp::integer_min, s.of(VectorOp::integer_max, x[1], x[0]), x[2]);
}
VirtualRegister integer_not(Steps& s, const Op&, Registers x) {
  return s.of(VectorOp::bits_xor, x[0], s.integer(-1));
}
VirtualRegister pow_of_integers(Steps& s, const Op& op, Registers x) {
  const std::int64_t y = op.integer("y");
  if (y < 0 || y > 64) return no_register;
  if (y == 0) return s.integer(1);
  return power_of(x[0], static_cast<std::uint64_t>(y), emitting(s, VectorOp::integer_mul));
}
template <VectorOp op, bool swapped, bool negated>
VirtualRegister integer_compare(Steps& s, const Op&, Registers x) {
  const VirtualRegister is = swapped ? s.of(op, x[1], x[0]) : s.of(op, x[0], x[1]);
  return negated ? s.of(VectorOp::mask_not, is) : is;
}
VirtualRegister integer_convert(Steps& s, const Op& op, Registers x) {
  const DType to = op.dtype("new_dtype");
  if (to == bool_) return s.of(VectorOp::mask_not, s.of(VectorOp::integer_equal, x[0], s.integer(0)));
  if (to == bf16) return no_register;  // which is not to be rounded to f32 first; all that f16 has, f32 has
  if (!is_integer(to)) return s.of(VectorOp::to_floating, x[0]);
  if (!s.is_mask(x[0])) return x[0];
  const VirtualRegister zero = s.integer(0);
  return s.of(VectorOp::select, x[0], zero, s.integer(1));
}

enum class Takes : std::uint8_t { elements, masks, either };
struct Row {
  std::string_view name;
  Rule rule;
  Takes takes = Takes::elements;
};
constexpr Row lowering_rows[] = {
    {"add", two<VectorOp::add>},
    {"sub", two<VectorOp::sub>},
    {"mul", two<VectorOp::mul>},
    {"div", two<VectorOp::div>},
    {"multiply_no_nan", multiply_no_nan},
    {"divide_no_nan", two<VectorOp::divide_no_nan>},
    {"max", two<VectorOp::max>},
    {"min", two<VectorOp::min>},
    {"neg", one<VectorOp::neg>},
    {"abs", one<VectorOp::abs>},
    {"sqrt", one<VectorOp::sqrt>},
    {"floor", one<VectorOp::floor>},
    {"ceil", one<VectorOp::ceil>},
    {"round", round},
    {"square", square},
    {"reciprocal", reciprocal},
    {"rsqrt", rsqrt},
    {"logistic", logistic},
    {"sign", sign},
    {"is_finite", is_finite},
    {"clamp", clamp},
    {"select_n", select, Takes::either},
    {"convert_element_type", convert, Takes::either},
    {"integer_pow", integer_pow},
    {"eq", compare<VectorOp::equal>, Takes::either},
    {"ne", compare<VectorOp::not_equal>, Takes::either},
    {"lt", compare<VectorOp::less>},
    {"le", compare<VectorOp::less_equal>},
    {"gt", compare<VectorOp::less, true>},
    {"ge", compare<VectorOp::less_equal, true>},
    {"and", two<VectorOp::mask_and>, Takes::masks},
    {"or", two<VectorOp::mask_or>, Takes::masks},
    {"xor", two<VectorOp::mask_xor>, Takes::masks},
    {"not", one<VectorOp::mask_not>, Takes::masks},
    {"exp", call<VectorFunction::exp>},
    {"exp2", call<VectorFunction::exp2>},
    {"expm1", call<VectorFunction::expm1>},
    {"log", call<VectorFunction::log>},
    {"log1p", call<VectorFunction::log1p>},
    {"sin", call<VectorFunction::sin>},
    {"cos", call<VectorFunction::cos>},
    {"tan", call<VectorFunction::tan>},
    {"asin", call<VectorFunction::asin>},
    {"acos", call<VectorFunction::acos>},
    {"atan", call<VectorFunction::atan>},
    {"sinh", call<VectorFunction::sinh>},
    {"cosh", call<VectorFunction::cosh>},
    {"tanh", call<VectorFunction::tanh>},
    {"asinh", call<VectorFunction::asinh>},
    {"acosh", call<VectorFunction::acosh>},
    {"atanh", call<VectorFunction::atanh>},
    {"cbrt", call<VectorFunction::cbrt>},
    {"erf", call<VectorFunction::erf>},
    {"erfc", call<VectorFunction::erfc>},
    {"erf_inv", erf_inv},
    {"pow", call<VectorFunction::pow>},
    {"atan2", call<VectorFunction::atan2>},
};

constexpr Row integer_rows[] = {
    {"add", two<VectorOp::integer_add>},
    {"sub", two<VectorOp::integer_sub>},
    {"mul", two<VectorOp::integer_mul>},
    {"max", two<VectorOp::integer_max>},
    {"min", two<VectorOp::integer_min>},
    {"neg", integer_neg},
    {"abs", integer_abs},
    {"sign", integer_sign},
    {"square", integer_square},
    {"clamp", integer_clamp},
    {"and", two<VectorOp::bits_and>},
    {"or", two<VectorOp::bits_or>},
    {"xor", two<VectorOp::bits_xor>},
    {"not", integer_not},
    {"integer_pow", pow_of_integers},
    {"select_n", select, Takes::either},
    {"convert_element_type", integer_convert, Takes::either},
    {"eq", integer_compare<VectorOp::integer_equal, false, false>},
    {"ne", integer_compare<VectorOp::integer_equal, false, true>},
    {"lt", integer_compare<VectorOp::integer_less, false, false>},
    {"le", integer_compare<VectorOp::integer_less, true, true>},
    {"gt", integer_compare<VectorOp::integer_less, true, false>},
    {"ge", integer_compare<VectorOp::integer_less, false, true>},
};

using Table = std::unordered_map<std::string_view, const Row*>;
const Table* table_of(std::span<const Row> rows_of) {
  auto* table = new Table;
  for (const Row& row : rows_of) table->emplace(row.name, &row);
  return table;
}
const Row* row_of(std::string_view name, DType dtype) {
  static const Table* const of_floating = table_of(lowering_rows);
  static const Table* const of_integers = table_of(integer_rows);
  const Table& table = dtype == i32 || dtype == i64 ? *of_integers : *of_floating;
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace

VectorOp load_op(Type type) {
  const bool mask = type.dtype() == bool_;
  if (type.size() == 1) return mask ? VectorOp::splat_mask : VectorOp::splat;
  return mask ? VectorOp::load_mask : VectorOp::load;
}

std::uint16_t add_immediate(VectorProgram& code, const Literal& literal) {
  VectorInst constant{.op = VectorOp::immediate};
  if (literal.type().dtype() != bool_) {
    std::memcpy(&constant.bits, literal.bytes(), size_of(code.dtype));
    return code.add(constant);
  }
  // Masks come from comparisons: 0 <= 0 and 0 < 0.
  const bool set = *literal.bytes() != std::byte{0};
  const std::uint16_t zero = code.add(constant);
  return code.add({.op = set ? VectorOp::less_equal : VectorOp::less, .a = zero, .b = zero});
}

DType computed_dtype(std::span<const DType> operands, DType result) {
  DType dtype = result;
  for (const DType operand : operands) {
    if (operand != bool_) dtype = operand;
  }
  return dtype;
}

std::optional<std::uint16_t> add_operation(VectorProgram& code, const Op& op, DType dtype,
                                           std::span<const std::uint16_t> operands, DType result) {
  const Row* row = row_of(op.name(), dtype);
  if (row == nullptr || (result != bool_ && element_dtype(result) != code.dtype)) return std::nullopt;
  for (const std::uint16_t x : operands) {
    if (row->takes != Takes::either && code.is_mask(x) != (row->takes == Takes::masks)) return std::nullopt;
  }
  const std::size_t before = code.steps.size();
  Steps steps(code);
  const VirtualRegister value = row->rule(steps, op, operands);
  if (value == no_register || code.steps.size() >= no_register) {
    code.steps.resize(before);
    return std::nullopt;
  }
  return value;
}

bool has_vector_code(const Op& op, std::span<const DType> operands, DType result, DType dtype) {
  VectorProgram code;
  code.dtype = dtype;
  std::vector<std::uint16_t> lanes;
  for (const DType operand : operands) {
    if (operand != bool_ && element_dtype(operand) != dtype) return false;
    lanes.push_back(code.add({.op = operand == bool_ ? VectorOp::load_mask : VectorOp::load}));
  }
  return add_operation(code, op, computed_dtype(operands, result), lanes, result).has_value();
}

}  // namespace tidu::cpu_detail
