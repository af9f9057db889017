// lanes.cpp - from operations to steps over lanes, the ends of arrays that do not fill a vector, and the
// kernels that are kept.
#include "cpu/groups/lanes.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <numbers>
#include <string_view>

#include "cpu/groups/rows.hpp"
#include "cpu/groups/runs.hpp"
#include "cpu/kernels/special.hpp"

namespace tidu::cpu_detail {
namespace {

// Adds steps to a code; the names are those of values.
class Steps {
 public:
  using Lane = std::uint16_t;
  explicit Steps(LaneCode& code) : code_(code) {}

  Lane immediate(double value) {
    const std::uint64_t bits = code_.dtype == f32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                                  : std::bit_cast<std::uint64_t>(value);
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
Lane reciprocal(Steps& s, const Op&, Lanes x) { return s.of(LaneOp::div, s.immediate(1), x[0]); }
Lane rsqrt(Steps& s, const Op&, Lanes x) {
  const Lane root = s.of(LaneOp::sqrt, x[0]);
  return s.of(LaneOp::div, s.immediate(1), root);
}
Lane logistic(Steps& s, const Op&, Lanes x) {
  const Lane power = s.call(LaneFunction::exp, s.of(LaneOp::neg, x[0]));
  const Lane below = s.of(LaneOp::add, s.immediate(1), power);
  return s.of(LaneOp::div, s.immediate(1), below);
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
Lane convert(Steps& s, const Op& op, Lanes x) {
  const bool to_mask = op.dtype("new_dtype") == bool_;
  if (s.is_mask(x[0]) == to_mask) return x[0];
  if (to_mask) return s.of(LaneOp::not_equal, x[0], s.immediate(0));
  const Lane zero = s.immediate(0);
  return s.of(LaneOp::select, x[0], zero, s.immediate(1));
}
// By repeated squaring, in the order of the loop that does it for other dtypes.
Lane integer_pow(Steps& s, const Op& op, Lanes x) {
  const std::int64_t y = op.integer("y");
  if (y < -64 || y > 64) return no_lane;
  Lane result = s.immediate(1);
  bool first = true;
  Lane power = x[0];
  for (auto left = static_cast<std::uint64_t>(y < 0 ? -y : y); left != 0; left >>= 1U) {
    if ((left & 1U) != 0) {
      result = first ? power : s.of(LaneOp::mul, result, power);
      first = false;
    }
    if (left != 1) power = s.of(LaneOp::mul, power, power);
  }
  return y < 0 ? s.of(LaneOp::div, s.immediate(1), result) : result;
}
template <LaneOp op, bool swapped = false>
Lane compare(Steps& s, const Op&, Lanes x) {
  if (!s.is_mask(x[0])) return swapped ? s.of(op, x[1], x[0]) : s.of(op, x[0], x[1]);
  if (op == LaneOp::equal) return s.of(LaneOp::mask_not, s.of(LaneOp::mask_xor, x[0], x[1]));
  return op == LaneOp::not_equal ? s.of(LaneOp::mask_xor, x[0], x[1]) : no_lane;
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

const Row* row_of(std::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const Row*>;
    for (const Row& row : rows) map->emplace(row.name, &row);
    return map;
  }();
  const auto it = by_name->find(name);
  return it == by_name->end() ? nullptr : it->second;
}

}  // namespace

std::optional<std::uint16_t> add_operation(LaneCode& code, const Op& op,
                                           std::span<const std::uint16_t> operands, DType result) {
  const Row* row = row_of(op.name());
  if (row == nullptr || (result != bool_ && result != code.dtype)) return std::nullopt;
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
    if (operand != bool_ && operand != dtype) return false;
    lanes.push_back(code.add({.op = operand == bool_ ? LaneOp::load_mask : LaneOp::load}));
  }
  return add_operation(code, op, lanes, result).has_value();
}

LaneKernel::LaneKernel(const LaneCode& code, Function function, std::size_t vector_bytes,
                       std::shared_ptr<const void> memory)
    : function_(function),
      width_(static_cast<std::int64_t>(vector_bytes / size_of(code.dtype))),
      operand_steps_(code.num_operands, 0),
      result_steps_(code.num_results, 0),
      memory_(std::move(memory)) {
  for (const LaneStep& step : code.steps) {
    if (step.op == LaneOp::load) operand_steps_[step.index] = size_of(code.dtype);
    if (step.op == LaneOp::load_mask) operand_steps_[step.index] = 1;
    if (step.op == LaneOp::store) result_steps_[step.index] = size_of(code.dtype);
    if (step.op == LaneOp::store_mask) result_steps_[step.index] = 1;
  }
}

void LaneKernel::run(const std::byte* const* operands, std::byte* const* results, std::int64_t count) const {
  const std::int64_t whole = count / width_ * width_;
  if (whole != 0) function_(operands, results, whole);
  const auto left = static_cast<std::size_t>(count - whole);
  if (left == 0) return;
  // What is left in a vector of its own, filled up with the last element.
  constexpr std::size_t vector = 64;
  struct alignas(vector) Room {
    std::byte bytes[vector];
  };
  eager::detail::ShortArray<Room, few_pointers> room(operand_steps_.size() + result_steps_.size());
  Pointers<const std::byte*> in(operand_steps_.size());
  Pointers<std::byte*> out(result_steps_.size());
  for (std::size_t i = 0; i < operand_steps_.size(); ++i) {
    const std::size_t step = operand_steps_[i];
    in[i] = operands[i];
    if (step == 0) continue;
    const std::byte* from = operands[i] + static_cast<std::size_t>(whole) * step;
    std::memcpy(room[i].bytes, from, left * step);
    for (std::size_t k = left; k < static_cast<std::size_t>(width_); ++k)
      std::memcpy(room[i].bytes + k * step, from + (left - 1) * step, step);
    in[i] = room[i].bytes;
  }
  for (std::size_t i = 0; i < result_steps_.size(); ++i) out[i] = room[operand_steps_.size() + i].bytes;
  function_(in.data(), out.data(), width_);
  for (std::size_t i = 0; i < result_steps_.size(); ++i) {
    const std::size_t step = result_steps_[i];
    std::memcpy(results[i] + static_cast<std::size_t>(whole) * step, out[i], left * step);
  }
}

namespace {

class Hasher {
 public:
  void mix(std::uint64_t x) {
    hash_ = (hash_ ^ x) * 0xff51afd7ed558ccdU;
    hash_ ^= hash_ >> 32U;
  }
  void mix(const std::vector<LaneStep>& steps) {
    mix(steps.size());
    for (const LaneStep& step : steps) {
      mix(static_cast<std::uint64_t>(step.op) | std::uint64_t{step.a} << 8U | std::uint64_t{step.b} << 24U |
          std::uint64_t{step.c} << 40U);
      mix(step.bits + step.index);
    }
  }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15U;
};

}  // namespace

std::size_t LaneCompiler::Hash::operator()(const LaneCode& code) const {
  Hasher hasher;
  hasher.mix(static_cast<std::uint64_t>(code.dtype));
  hasher.mix(code.steps);
  return static_cast<std::size_t>(hasher.hash());
}

std::uint64_t RowsCode::hash() const {
  Hasher hasher;
  hasher.mix(static_cast<std::uint64_t>(dtype));
  hasher.mix(static_cast<std::uint64_t>(columns));
  for (const Phase& phase : phases) {
    hasher.mix(phase.elements);
    hasher.mix(phase.row);
  }
  for (const Pick& pick : picks) {
    hasher.mix(std::uint64_t{pick.array} << 32U | pick.indices);
    hasher.mix(static_cast<std::uint64_t>(pick.rows));
    hasher.mix(std::uint64_t{pick.wide});
  }
  return hasher.hash();
}

std::uint64_t RunCode::hash() const {
  Hasher hasher;
  hasher.mix(static_cast<std::uint64_t>(lanes.dtype));
  hasher.mix(static_cast<std::uint64_t>(elements));
  hasher.mix(lanes.steps);
  return hasher.hash();
}

LaneCompiler* LaneCompiler::get(VectorUnits units) {
  // Never destroyed: kernels may be in use while statics are destroyed.
  if (units == VectorUnits::automatic) {
    static LaneCompiler* const widest = [] {
      LaneCompiler* const wide = get(VectorUnits::avx512);
      return wide != nullptr ? wide : get(VectorUnits::avx2);
    }();
    return widest;
  }
  if (units == VectorUnits::avx512) {
    static LaneCompiler* const avx512 = can_generate(units) ? new LaneCompiler(units) : nullptr;
    return avx512;
  }
  if (units == VectorUnits::avx2) {
    static LaneCompiler* const avx2 = can_generate(units) ? new LaneCompiler(units) : nullptr;
    return avx2;
  }
  return nullptr;
}

std::shared_ptr<const LaneKernel> LaneCompiler::compile(const LaneCode& code) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = kernels_.find(code);
    if (it != kernels_.end()) return it->second;
  }
  std::shared_ptr<const LaneKernel> kernel = generate(code, units_);
  if (kernel == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kernels_.size() >= max_kernels) {
    std::erase_if(kernels_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  if (kernels_.size() >= max_kernels) return kernel;
  return kernels_.emplace(code, std::move(kernel)).first->second;
}

template <class Kernel, class Code>
std::shared_ptr<const Kernel> LaneCompiler::compile_in(Kernels<Kernel>& kernels, const Code& code) {
  const std::uint64_t hash = code.hash();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [begin, end] = kernels.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (it->second->code() == code) return it->second;
    }
  }
  std::shared_ptr<const Kernel> kernel = generate(code, units_);
  if (kernel == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kernels.size() >= max_kernels) {
    std::erase_if(kernels, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  if (kernels.size() < max_kernels) kernels.emplace(hash, kernel);
  return kernel;
}

std::shared_ptr<const RowKernel> LaneCompiler::compile(const RowsCode& code) {
  return compile_in(row_kernels_, code);
}
std::shared_ptr<const RunKernel> LaneCompiler::compile(const RunCode& code) {
  return compile_in(run_kernels_, code);
}

}  // namespace tidu::cpu_detail
