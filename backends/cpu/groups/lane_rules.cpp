// lane_rules.cpp - from operations to steps over lanes.
#include <bit>
#include <limits>
#include <numbers>
#include <string_view>
#include <unordered_map>

#include "cpu/groups/lanes.hpp"
#include "cpu/kernels/special.hpp"

namespace tidu::cpu_detail {
namespace {

// Adds steps to a code; the names are those of values.
class Steps {
 public:
  using Lane = std::uint16_t;
  explicit Steps(LaneCode& code) : code_(code) {}

  Lane immediate(double value) {
    return with_bits(code_.dtype == f32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                        : std::bit_cast<std::uint64_t>(value));
  }
  Lane whole(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return with_bits(code_.dtype == f32 ? bits & 0xffffffffU : bits);
  }
  Lane with_bits(std::uint64_t bits) {
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      const LaneStep& step = code_.steps[i];
      if (step.op == LaneOp::immediate && step.bits == bits) return static_cast<Lane>(i);
    }
    return code_.add({.op = LaneOp::immediate, .bits = bits});
  }
  Lane of(LaneOp op, Lane a, Lane b = no_lane, Lane c = no_lane) {
    return code_.add({.op = op, .a = a, .b = b, .c = c});
  }
  Lane call(LaneFunction function, Lane a, Lane b = no_lane) {
    return code_.add({.op = LaneOp::call, .a = a, .b = b, .index = static_cast<std::uint32_t>(function)});
  }
  bool is_mask(Lane value) const { return code_.is_mask(value); }
  DType dtype() const { return code_.dtype; }

 private:
  LaneCode& code_;
};

using Lane = Steps::Lane;
using Lanes = std::span<const Lane>;
using Rule = Lane (*)(Steps& s, const Op& op, Lanes x);

template <LaneOp op>
Lane one(Steps& s, const Op&, Lanes x) {
  return s.of(op, x[0]);
}
template <LaneOp op>
Lane two(Steps& s, const Op&, Lanes x) {
  return s.of(op, x[0], x[1]);
}
template <LaneFunction function>
Lane call(Steps& s, const Op&, Lanes x) {
  return s.call(function, x[0], function >= LaneFunction::first_of_two ? x[1] : no_lane);
}

Lane square(Steps& s, const Op&, Lanes x) { return s.of(LaneOp::mul, x[0], x[0]); }
Lane multiply_no_nan(Steps& s, const Op& op, Lanes x) {
  const Lane product = s.of(LaneOp::multiply_no_nan, x[0], x[1]);
  if (!op.boolean("both")) return product;
  return s.of(LaneOp::select, s.of(LaneOp::equal, x[1], s.immediate(0)), product, x[1]);
}
Lane reciprocal(Steps& s, const Op&, Lanes x) { return s.of(LaneOp::div, s.immediate(1), x[0]); }
Lane rsqrt(Steps& s, const Op&, Lanes x) {
  const Lane root = s.of(LaneOp::sqrt, x[0]);
  return s.of(LaneOp::div, s.immediate(1), root);
}
// 1 / (1 + e^-|x|), below 0 e^-|x| times that: e^-x may be infinite where the result is a number.
Lane logistic(Steps& s, const Op&, Lanes x) {
  const Lane one = s.immediate(1);
  const Lane power = s.call(LaneFunction::exp, s.of(LaneOp::bits_or, x[0], s.immediate(-0.0)));
  const Lane negative = s.of(LaneOp::less, x[0], s.immediate(0));
  const Lane above = s.of(LaneOp::select, negative, one, power);
  return s.of(LaneOp::div, above, s.of(LaneOp::add, one, power));
}
Lane polynomial(Steps& s, Lane x, std::span<const double> coefficients) {
  Lane sum = s.immediate(coefficients[0]);
  for (const double next : coefficients.subspan(1))
    sum = s.of(LaneOp::add, s.of(LaneOp::mul, sum, x), s.immediate(next));
  return sum;
}
// Of |x| in f64 what a step of Halley's method makes of a y that is 1e-7 off: all of its digits.
Lane refine_erf_inv(Steps& s, Lane size, Lane y) {
  // 1 - |x| is exact where it matters, and erfc keeps its digits there.
  const Lane one = s.immediate(1), is_small = s.of(LaneOp::less, size, s.immediate(0.5));
  const Lane below = s.of(LaneOp::sub, s.call(LaneFunction::erf, y), size);
  const Lane above = s.of(LaneOp::sub, s.of(LaneOp::sub, one, size), s.call(LaneFunction::erfc, y));
  const Lane error = s.of(LaneOp::select, is_small, above, below);
  const Lane power = s.call(LaneFunction::exp, s.of(LaneOp::neg, s.of(LaneOp::mul, y, y)));
  const Lane slope = s.of(LaneOp::mul, s.immediate(2 * std::numbers::inv_sqrtpi), power);
  const Lane newton = s.of(LaneOp::div, error, slope);
  const Lane bend = s.of(LaneOp::add, one, s.of(LaneOp::mul, y, newton));
  return s.of(LaneOp::sub, y, s.of(LaneOp::div, newton, bend));
}
Lane erf_inv(Steps& s, const Op&, Lanes x) {
  const Lane one = s.immediate(1), size = s.of(LaneOp::abs, x[0]);
  const Lane product = s.of(LaneOp::mul, s.of(LaneOp::sub, one, size), s.of(LaneOp::add, one, size));
  const Lane w = s.of(LaneOp::neg, s.call(LaneFunction::log, product));
  const Lane near = polynomial(s, s.of(LaneOp::sub, w, s.immediate(2.5)), erf_inv_near);
  const Lane root = s.of(LaneOp::sqrt, w);
  Lane far = polynomial(s, s.of(LaneOp::sub, root, s.immediate(3)), erf_inv_far);
  if (s.dtype() == f64) {
    const Lane end = polynomial(s, s.of(LaneOp::sub, root, s.immediate(5)), erf_inv_end);
    far = s.of(LaneOp::select, s.of(LaneOp::less, w, s.immediate(16)), end, far);
  }
  const Lane is_near = s.of(LaneOp::less, w, s.immediate(5));
  Lane slope = s.of(LaneOp::select, is_near, far, near);
  if (s.dtype() == f64) {
    const Lane refined = refine_erf_inv(s, size, s.of(LaneOp::mul, slope, size));
    const Lane is_tiny = s.of(LaneOp::less, size, s.immediate(1e-8));
    slope = s.of(LaneOp::select, is_tiny, s.of(LaneOp::div, refined, size),
                 s.immediate(0.5 / std::numbers::inv_sqrtpi));
  }
  const Lane is_end = s.of(LaneOp::equal, size, one);
  const Lane infinity = s.immediate(std::numeric_limits<double>::infinity());
  return s.of(LaneOp::mul, x[0], s.of(LaneOp::select, is_end, slope, infinity));
}
// Zeros and NaN stay what they are.
Lane sign(Steps& s, const Op&, Lanes x) {
  const Lane zero = s.immediate(0);
  const Lane negative = s.of(LaneOp::less, x[0], zero);
  const Lane below = s.of(LaneOp::select, negative, x[0], s.immediate(-1));
  const Lane positive = s.of(LaneOp::less, zero, x[0]);
  return s.of(LaneOp::select, positive, below, s.immediate(1));
}
Lane is_finite(Steps& s, const Op&, Lanes x) {
  const Lane size = s.of(LaneOp::abs, x[0]);
  return s.of(LaneOp::less, size, s.immediate(std::numeric_limits<double>::infinity()));
}
Lane clamp(Steps& s, const Op&, Lanes x) {
  const Lane above = s.of(LaneOp::max, x[1], x[0]);
  return s.of(LaneOp::min, above, x[2]);
}
Lane select(Steps& s, const Op&, Lanes x) {
  if (x.size() != 3 || !s.is_mask(x[0])) return no_lane;
  return s.of(s.is_mask(x[1]) ? LaneOp::select_mask : LaneOp::select, x[0], x[1], x[2]);
}
Lane round(Steps& s, const Op& op, Lanes x) {
  return op.string("rounding_method") == "away_from_zero" ? no_lane : s.of(LaneOp::round, x[0]);
}
// As detail::truncated: what to_whole makes of what is too large has the bits of the largest when all are
// turned, and those of NaN are cleared.
Lane truncate(Steps& s, Lane x) {
  if (s.dtype() != f32) return no_lane;
  const Lane large = s.of(LaneOp::less_equal, s.immediate(0x1p31), x);
  const Lane whole = s.of(LaneOp::bits_xor, s.of(LaneOp::to_whole, x), large);
  return s.of(LaneOp::bits_and, whole, s.of(LaneOp::equal, x, x));
}
Lane convert(Steps& s, const Op& op, Lanes x) {
  const DType to = op.dtype("new_dtype");
  if (is_integer(to)) return truncate(s, x[0]);
  const bool to_mask = to == bool_;
  if (s.is_mask(x[0]) == to_mask) return x[0];
  if (to_mask) return s.of(LaneOp::not_equal, x[0], s.immediate(0));
  const Lane zero = s.immediate(0);
  return s.of(LaneOp::select, x[0], zero, s.immediate(1));
}
// By repeated squaring, in the order of the loop that does it for other dtypes; y is not negative.
Lane power_of(Steps& s, LaneOp mul, Lane one, Lane x, std::int64_t y) {
  Lane result = one;
  bool first = true;
  for (auto left = static_cast<std::uint64_t>(y); left != 0; left >>= 1U) {
    if ((left & 1U) != 0) {
      result = first ? x : s.of(mul, result, x);
      first = false;
    }
    if (left != 1) x = s.of(mul, x, x);
  }
  return result;
}
Lane integer_pow(Steps& s, const Op& op, Lanes x) {
  const std::int64_t y = op.integer("y");
  if (y < -64 || y > 64) return no_lane;
  const Lane result = power_of(s, LaneOp::mul, s.immediate(1), x[0], y < 0 ? -y : y);
  return y < 0 ? s.of(LaneOp::div, s.immediate(1), result) : result;
}
template <LaneOp op, bool swapped = false>
Lane compare(Steps& s, const Op&, Lanes x) {
  if (!s.is_mask(x[0])) return swapped ? s.of(op, x[1], x[0]) : s.of(op, x[0], x[1]);
  if (op == LaneOp::equal) return s.of(LaneOp::mask_not, s.of(LaneOp::mask_xor, x[0], x[1]));
  return op == LaneOp::not_equal ? s.of(LaneOp::mask_xor, x[0], x[1]) : no_lane;
}

// Of whole numbers.
Lane whole_neg(Steps& s, const Op&, Lanes x) { return s.of(LaneOp::whole_sub, s.whole(0), x[0]); }
Lane whole_abs(Steps& s, const Op& op, Lanes x) { return s.of(LaneOp::whole_max, x[0], whole_neg(s, op, x)); }
Lane whole_sign(Steps& s, const Op&, Lanes x) {
  return s.of(LaneOp::whole_min, s.of(LaneOp::whole_max, x[0], s.whole(-1)), s.whole(1));
}
Lane whole_square(Steps& s, const Op&, Lanes x) { return s.of(LaneOp::whole_mul, x[0], x[0]); }
Lane whole_clamp(Steps& s, const Op&, Lanes x) {
  return s.of(LaneOp::whole_min, s.of(LaneOp::whole_max, x[1], x[0]), x[2]);
}
Lane whole_not(Steps& s, const Op&, Lanes x) { return s.of(LaneOp::bits_xor, x[0], s.whole(-1)); }
Lane whole_pow(Steps& s, const Op& op, Lanes x) {
  const std::int64_t y = op.integer("y");
  return y < 0 || y > 64 ? no_lane : power_of(s, LaneOp::whole_mul, s.whole(1), x[0], y);
}
template <LaneOp op, bool swapped, bool negated>
Lane whole_compare(Steps& s, const Op&, Lanes x) {
  const Lane is = swapped ? s.of(op, x[1], x[0]) : s.of(op, x[0], x[1]);
  return negated ? s.of(LaneOp::mask_not, is) : is;
}
Lane whole_convert(Steps& s, const Op& op, Lanes x) {
  const DType to = op.dtype("new_dtype");
  if (to == bool_) return s.of(LaneOp::mask_not, s.of(LaneOp::whole_equal, x[0], s.whole(0)));
  if (to == bf16) return no_lane;  // which is not to be rounded to f32 first; all that f16 has, f32 has
  if (!is_integer(to)) return s.of(LaneOp::to_floating, x[0]);
  if (!s.is_mask(x[0])) return x[0];
  const Lane zero = s.whole(0);
  return s.of(LaneOp::select, x[0], zero, s.whole(1));
}

enum class Takes : std::uint8_t { elements, masks, either };
struct Row {
  std::string_view name;
  Rule rule;
  Takes takes = Takes::elements;
};
constexpr Row rows[] = {
    {"add", two<LaneOp::add>},
    {"sub", two<LaneOp::sub>},
    {"mul", two<LaneOp::mul>},
    {"div", two<LaneOp::div>},
    {"multiply_no_nan", multiply_no_nan},
    {"divide_no_nan", two<LaneOp::divide_no_nan>},
    {"max", two<LaneOp::max>},
    {"min", two<LaneOp::min>},
    {"neg", one<LaneOp::neg>},
    {"abs", one<LaneOp::abs>},
    {"sqrt", one<LaneOp::sqrt>},
    {"floor", one<LaneOp::floor>},
    {"ceil", one<LaneOp::ceil>},
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
    {"eq", compare<LaneOp::equal>, Takes::either},
    {"ne", compare<LaneOp::not_equal>, Takes::either},
    {"lt", compare<LaneOp::less>},
    {"le", compare<LaneOp::less_equal>},
    {"gt", compare<LaneOp::less, true>},
    {"ge", compare<LaneOp::less_equal, true>},
    {"and", two<LaneOp::mask_and>, Takes::masks},
    {"or", two<LaneOp::mask_or>, Takes::masks},
    {"xor", two<LaneOp::mask_xor>, Takes::masks},
    {"not", one<LaneOp::mask_not>, Takes::masks},
    {"exp", call<LaneFunction::exp>},
    {"exp2", call<LaneFunction::exp2>},
    {"expm1", call<LaneFunction::expm1>},
    {"log", call<LaneFunction::log>},
    {"log1p", call<LaneFunction::log1p>},
    {"sin", call<LaneFunction::sin>},
    {"cos", call<LaneFunction::cos>},
    {"tan", call<LaneFunction::tan>},
    {"asin", call<LaneFunction::asin>},
    {"acos", call<LaneFunction::acos>},
    {"atan", call<LaneFunction::atan>},
    {"sinh", call<LaneFunction::sinh>},
    {"cosh", call<LaneFunction::cosh>},
    {"tanh", call<LaneFunction::tanh>},
    {"asinh", call<LaneFunction::asinh>},
    {"acosh", call<LaneFunction::acosh>},
    {"atanh", call<LaneFunction::atanh>},
    {"cbrt", call<LaneFunction::cbrt>},
    {"erf", call<LaneFunction::erf>},
    {"erfc", call<LaneFunction::erfc>},
    {"erf_inv", erf_inv},
    {"pow", call<LaneFunction::pow>},
    {"atan2", call<LaneFunction::atan2>},
};

constexpr Row whole_rows[] = {
    {"add", two<LaneOp::whole_add>},
    {"sub", two<LaneOp::whole_sub>},
    {"mul", two<LaneOp::whole_mul>},
    {"max", two<LaneOp::whole_max>},
    {"min", two<LaneOp::whole_min>},
    {"neg", whole_neg},
    {"abs", whole_abs},
    {"sign", whole_sign},
    {"square", whole_square},
    {"clamp", whole_clamp},
    {"and", two<LaneOp::bits_and>},
    {"or", two<LaneOp::bits_or>},
    {"xor", two<LaneOp::bits_xor>},
    {"not", whole_not},
    {"integer_pow", whole_pow},
    {"select_n", select, Takes::either},
    {"convert_element_type", whole_convert, Takes::either},
    {"eq", whole_compare<LaneOp::whole_equal, false, false>},
    {"ne", whole_compare<LaneOp::whole_equal, false, true>},
    {"lt", whole_compare<LaneOp::whole_less, false, false>},
    {"le", whole_compare<LaneOp::whole_less, true, true>},
    {"gt", whole_compare<LaneOp::whole_less, true, false>},
    {"ge", whole_compare<LaneOp::whole_less, false, true>},
};

using Table = std::unordered_map<std::string_view, const Row*>;
const Table* table_of(std::span<const Row> rows_of) {
  auto* table = new Table;
  for (const Row& row : rows_of) table->emplace(row.name, &row);
  return table;
}
const Row* row_of(std::string_view name, DType dtype) {
  static const Table* const of_floating = table_of(rows);
  static const Table* const of_whole = table_of(whole_rows);
  const Table& table = dtype == i32 || dtype == i64 ? *of_whole : *of_floating;
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace

DType computed_dtype(std::span<const DType> operands, DType result) {
  DType dtype = result;
  for (const DType operand : operands) {
    if (operand != bool_) dtype = operand;
  }
  return dtype;
}

std::optional<std::uint16_t> add_operation(LaneCode& code, const Op& op, DType dtype,
                                           std::span<const std::uint16_t> operands, DType result) {
  const Row* row = row_of(op.name(), dtype);
  if (row == nullptr || (result != bool_ && lane_dtype(result) != code.dtype)) return std::nullopt;
  for (const std::uint16_t x : operands) {
    if (row->takes != Takes::either && code.is_mask(x) != (row->takes == Takes::masks)) return std::nullopt;
  }
  const std::size_t before = code.steps.size();
  Steps steps(code);
  const Lane value = row->rule(steps, op, operands);
  if (value == no_lane || code.steps.size() >= no_lane) {
    code.steps.resize(before);
    return std::nullopt;
  }
  return value;
}

bool has_lanes(const Op& op, std::span<const DType> operands, DType result, DType dtype) {
  LaneCode code;
  code.dtype = dtype;
  std::vector<std::uint16_t> lanes;
  for (const DType operand : operands) {
    if (operand != bool_ && lane_dtype(operand) != dtype) return false;
    lanes.push_back(code.add({.op = operand == bool_ ? LaneOp::load_mask : LaneOp::load}));
  }
  return add_operation(code, op, computed_dtype(operands, result), lanes, result).has_value();
}

}  // namespace tidu::cpu_detail
