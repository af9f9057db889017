// Code that is generated for vectors: against loops bit by bit, functions against long double, straight-line
// code of many values against the same steps one by one, ends of arrays, and kernels that are kept.
#include "cpu/fusion/vector_ir.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <numbers>

#include "cpu/compare.hpp"
#include "cpu/kernels/special.hpp"
#include "cpu/vector_units.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace lanes_cases {
namespace {

CpuExecutor with_units(VectorUnits units) {
  CpuOptions options;
  options.vector_units = units;
  return cpu().with_options(options);
}

struct Exact {
  const Primitive* primitive;
  int operands;
  Attributes attributes = {};
};

// The argument, improved by a step of Newton's method in long double.
long double exact_erf_inv(long double x) {
  const long double y = cpu_detail::erf_inv(static_cast<double>(x)), size = std::fabs(x);
  if (!std::isfinite(y) || y == 0) return y;
  const long double magnitude = std::fabs(y);
  const long double error = size < 0.5L ? std::erf(magnitude) - size : (1 - size) - std::erfc(magnitude);
  const long double slope = 2 * std::numbers::inv_sqrtpi_v<long double> * std::exp(-magnitude * magnitude);
  return std::copysign(magnitude - error / slope, x);
}
long double exact(std::string_view name, long double x, long double y) {
  static const std::map<std::string_view, long double (*)(long double, long double)> functions = {
      {"exp", [](long double a, long double) { return std::exp(a); }},
      {"exp2", [](long double a, long double) { return std::exp2(a); }},
      {"expm1", [](long double a, long double) { return std::expm1(a); }},
      {"log", [](long double a, long double) { return std::log(a); }},
      {"log1p", [](long double a, long double) { return std::log1p(a); }},
      {"sin", [](long double a, long double) { return std::sin(a); }},
      {"cos", [](long double a, long double) { return std::cos(a); }},
      {"tan", [](long double a, long double) { return std::tan(a); }},
      {"asin", [](long double a, long double) { return std::asin(a); }},
      {"acos", [](long double a, long double) { return std::acos(a); }},
      {"atan", [](long double a, long double) { return std::atan(a); }},
      {"sinh", [](long double a, long double) { return std::sinh(a); }},
      {"cosh", [](long double a, long double) { return std::cosh(a); }},
      {"tanh", [](long double a, long double) { return std::tanh(a); }},
      {"asinh", [](long double a, long double) { return std::asinh(a); }},
      {"acosh", [](long double a, long double) { return std::acosh(a); }},
      {"atanh", [](long double a, long double) { return std::atanh(a); }},
      {"cbrt", [](long double a, long double) { return std::cbrt(a); }},
      {"erf", [](long double a, long double) { return std::erf(a); }},
      {"erfc", [](long double a, long double) { return std::erfc(a); }},
      {"erf_inv", [](long double a, long double) { return exact_erf_inv(a); }},
      {"pow", [](long double a, long double b) { return std::pow(a, b); }},
      {"atan2", [](long double a, long double b) { return std::atan2(a, b); }},
  };
  return functions.at(name)(x, y);
}

// How many units in the last place of its dtype is `got` away from the exact value?
template <class T>
double ulps(T got, long double expected) {
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected) ? 0 : 1e9;
  const auto rounded = static_cast<T>(expected);
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e9;
  const T size = std::fmax(std::fabs(rounded), std::numeric_limits<T>::min());
  const long double unit = std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - expected) / unit);
}

// Code of random steps, including every operation, with as many live values as the steps leave; with
// `written_out`, only of functions that are inlined.
VectorProgram random_code(DType dtype, std::size_t steps, bool written_out, std::mt19937_64& random) {
  constexpr VectorFunction functions[] = {VectorFunction::exp, VectorFunction::sin, VectorFunction::cos,
                                          VectorFunction::tanh};
  VectorProgram code;
  code.dtype = dtype;
  std::vector<std::uint16_t> elements, masks;
  const auto keep = [&](const VectorInst& step) {
    const std::uint16_t id = code.add(step);
    (makes_mask(step.op) ? masks : elements).push_back(id);
  };
  for (const VectorOp op : {VectorOp::load, VectorOp::load, VectorOp::load, VectorOp::splat,
                            VectorOp::load_mask, VectorOp::splat_mask, VectorOp::load}) {
    keep({.op = op, .index = code.num_operands++});
  }
  for (const double value : {0.5, 2.0, -1.25}) {
    const auto single = static_cast<float>(value);
    std::uint64_t bits = 0;
    std::memcpy(&bits, dtype == f32 ? static_cast<const void*>(&single) : &value, size_of(dtype));
    keep({.op = VectorOp::immediate, .bits = bits});
  }
  const auto any = [&](const std::vector<std::uint16_t>& from) {
    return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random)];
  };
  std::uniform_int_distribution<int> pick(static_cast<int>(VectorOp::add), static_cast<int>(VectorOp::call));
  std::uniform_int_distribution<std::uint32_t> function(0, static_cast<std::uint32_t>(VectorFunction::atan2));
  for (std::size_t i = 0; i < steps; ++i) {
    VectorInst step{.op = static_cast<VectorOp>(pick(random))};
    if (step.op == VectorOp::call && i % 3 != 0) step.op = VectorOp::mul;
    const bool of_masks = step.op >= VectorOp::mask_and && step.op <= VectorOp::select_mask;
    const auto& from = of_masks ? masks : elements;
    step.a = step.op == VectorOp::select ? any(masks) : any(from);
    if (num_operands(step.op) > 1) step.b = any(from);
    if (num_operands(step.op) > 2) step.c = any(from);
    if (step.op == VectorOp::call) {
      step.index = written_out ? static_cast<std::uint32_t>(functions[random() % 4]) : function(random);
      if (step.index < static_cast<std::uint32_t>(VectorFunction::first_of_two)) step.b = no_register;
    }
    keep(step);
  }
  for (const std::uint16_t id :
       {elements.back(), elements[elements.size() / 2], elements[elements.size() - 3], elements[0]}) {
    code.add({.op = VectorOp::store, .a = id, .index = code.num_results++});
  }
  for (const std::uint16_t id : {masks.back(), masks[masks.size() / 2]})
    code.add({.op = VectorOp::store_mask, .a = id, .index = code.num_results++});
  return code;
}

using Bytes = std::vector<std::byte>;

// The code one step at a time, each by a kernel of its own.
std::vector<Bytes> one_by_one(const VectorProgram& code, VectorJit& compiler,
                              const std::vector<Bytes>& operands, std::int64_t count) {
  const std::size_t element = size_of(code.dtype);
  std::vector<Bytes> values(code.steps.size());
  std::vector<Bytes> results(code.num_results);
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const VectorInst& step = code.steps[i];
    if (step.op == VectorOp::store || step.op == VectorOp::store_mask) {
      results[step.index] = values[step.a];
      continue;
    }
    VectorProgram single;
    single.dtype = code.dtype;
    VectorInst copy = step;
    std::vector<const std::byte*> in;
    if (num_operands(step.op) == 0) {
      if (step.op != VectorOp::immediate) in.push_back(operands[step.index].data());
      copy.index = 0;
    }
    for (std::uint16_t* const x : {&copy.a, &copy.b, &copy.c}) {
      if (*x == no_register) continue;
      in.push_back(values[*x].data());
      *x = single.add({.op = code.is_mask(*x) ? VectorOp::load_mask : VectorOp::load,
                       .index = static_cast<std::uint32_t>(in.size() - 1)});
    }
    single.num_operands = static_cast<std::uint32_t>(in.size());
    single.num_results = 1;
    const std::uint16_t value = single.add(copy);
    const bool mask = single.is_mask(value);
    single.add({.op = mask ? VectorOp::store_mask : VectorOp::store, .a = value});
    values[i].resize(static_cast<std::size_t>(count) * (mask ? 1 : element));
    std::byte* const out = values[i].data();
    compiler.compile(single)->run(in.data(), &out, count);
  }
  return results;
}

}  // namespace

TEST_CASE("vector code: arithmetic has the bits of loops") {
  using namespace prim;
  const std::vector<Exact> rows = {{&add, 2},
                                   {&sub, 2},
                                   {&mul, 2},
                                   {&prim::div, 2},
                                   {&multiply_no_nan, 2},
                                   {&divide_no_nan, 2},
                                   {&max, 2},
                                   {&min, 2},
                                   {&neg, 1},
                                   {&prim::abs, 1},
                                   {&prim::sqrt, 1},
                                   {&prim::floor, 1},
                                   {&prim::ceil, 1},
                                   {&prim::round, 1, {{"rounding_method", "to_nearest_even"}}},
                                   {&prim::round, 1, {{"rounding_method", "away_from_zero"}}},
                                   {&square, 1},
                                   {&reciprocal, 1},
                                   {&rsqrt, 1},
                                   {&sign, 1},
                                   {&is_finite, 1},
                                   {&clamp, 3},
                                   {&eq, 2},
                                   {&ne, 2},
                                   {&lt, 2},
                                   {&le, 2},
                                   {&gt, 2},
                                   {&ge, 2},
                                   {&integer_pow, 1, {{"y", 7}}},
                                   {&integer_pow, 1, {{"y", -2}}},
                                   {&integer_pow, 1, {{"y", 0}}},
                                   {&integer_pow, 1, {{"y", 1000}}},
                                   {&prim::convert_element_type, 1, {{"new_dtype", bool_}}}};
  const CpuExecutor loops = with_units(VectorUnits::none);
  std::mt19937_64 random(1);
  for (const VectorUnits each : units()) {
    const CpuExecutor lanes = with_units(each);
    for (const DType dtype : {f32, f64}) {
      for (const Exact& row : rows) {
        const Op op = Op::make(*row.primitive, row.attributes);
        for (const std::int64_t size : {2, 3, 8, 17, 64, 333, 40000}) {
          const Graph graph =
              graph_of(op, std::vector<Type>(static_cast<std::size_t>(row.operands), Type(dtype, {size})));
          std::vector<Tensor> inputs;
          for (const ValueId id : graph.inputs())
            inputs.push_back(random_tensor(graph.type(id), {-3, 3, true}, random));
          CHECK_MESSAGE(same_bits_or_nan(lanes.run(graph, inputs)[0], loops.run(graph, inputs)[0]),
                        row.primitive->name, " ", to_string(dtype), "[", size, "]");
        }
      }
    }
  }
}

TEST_CASE("vector code: masks, selections and scalar operands have the bits of loops") {
  using namespace prim;
  const CpuExecutor loops = with_units(VectorUnits::none);
  std::mt19937_64 random(2);
  const auto check = [&](const CpuExecutor& lanes, const Op& op, const std::vector<Type>& types) {
    const Graph graph = graph_of(op, types);
    std::vector<Tensor> inputs;
    for (const Type type : types) inputs.push_back(random_tensor(type, {-3, 3, true}, random));
    CHECK_MESSAGE(same_bits_or_nan(lanes.run(graph, inputs)[0], loops.run(graph, inputs)[0]), op.name());
  };
  for (const VectorUnits each : units()) {
    const CpuExecutor lanes = with_units(each);
    for (const std::int64_t size : {2, 5, 8, 31, 1000}) {
      const Type masks(bool_, {size});
      for (const Primitive* primitive : {&and_, &or_, &xor_, &eq, &ne})
        check(lanes, Op::make(*primitive), {masks, masks});
      check(lanes, Op::make(not_), {masks});
      for (const DType dtype : {f32, f64}) {
        const Type elements(dtype, {size});
        check(lanes, Op::make(select_n), {masks, elements, elements});
        check(lanes, Op::make(select_n), {Type(bool_, {}), elements, elements});
        check(lanes, Op::make(clamp), {Type(dtype, {}), elements, Type(dtype, {})});
        check(lanes, Op::make(convert_element_type, {{"new_dtype", dtype}}), {masks});
      }
    }
  }
}

TEST_CASE("vector code: functions are within 4 units in the last place") {
  using namespace prim;
  struct Domains {
    const Primitive* primitive;
    std::vector<Domain> domains;
  };
  const std::vector<Domains> rows = {{&prim::exp, {{-5, 5}, {-100, 100}}},
                                     {&prim::exp2, {{-5, 5}, {-140, 140}}},
                                     {&prim::expm1, {{-1e-3, 1e-3}, {-9, 9}}},
                                     {&prim::log, {{0.9, 1.1}, {1e-30, 1e30}}},
                                     {&prim::log1p, {{-0.5, 0.5}, {0, 1e9}}},
                                     {&prim::sin, {{-4, 4}, {-1e4, 1e4}}},
                                     {&prim::cos, {{-4, 4}, {-1e4, 1e4}}},
                                     {&prim::tan, {{-1.5, 1.5}, {-1e3, 1e3}}},
                                     {&prim::asin, {{-1, 1}}},
                                     {&prim::acos, {{-1, 1}}},
                                     {&prim::atan, {{-2, 2}, {-1e6, 1e6}}},
                                     {&prim::sinh, {{-2, 2}, {-40, 40}}},
                                     {&prim::cosh, {{-2, 2}, {-40, 40}}},
                                     {&prim::tanh, {{-0.1, 0.1}, {-9, 9}}},
                                     {&prim::asinh, {{-2, 2}, {-1e6, 1e6}}},
                                     {&prim::acosh, {{1, 3}, {1, 1e6}}},
                                     {&prim::atanh, {{-1, 1}}},
                                     {&prim::cbrt, {{-2, 2}, {-1e9, 1e9}}},
                                     {&prim::erf, {{-3, 3}}},
                                     {&prim::erfc, {{-3, 3}}},
                                     {&prim::erf_inv, {{-1, 1}, {0.99, 1}, {-1e-3, 1e-3}, {-1e-12, 1e-12}}},
                                     {&prim::pow, {{0.01, 9}}},
                                     {&prim::atan2, {{-2, 2}}}};
  std::mt19937_64 random(3);
  for (const VectorUnits each : units()) {
    const CpuExecutor lanes = with_units(each);
    for (const DType dtype : {f32, f64}) {
      for (const Domains& row : rows) {
        for (Domain domain : row.domains) {
          for (const bool special : {false, true}) {
            domain.special = special;
            const Type type(dtype, {2000});
            const auto arity = static_cast<std::size_t>(row.primitive->arity);
            const Graph graph = graph_of(Op::make(*row.primitive), std::vector<Type>(arity, type));
            std::vector<Tensor> inputs;
            for (std::size_t i = 0; i < arity; ++i) inputs.push_back(random_tensor(type, domain, random));
            const Tensor got = lanes.run(graph, inputs)[0];
            double worst = 0;
            for (std::int64_t i = 0; i < got.size(); ++i) {
              const auto x = static_cast<long double>(inputs[0].at(i).real());
              const auto y = static_cast<long double>(inputs[arity - 1].at(i).real());
              const long double expected = exact(row.primitive->name, x, y);
              worst = std::max(worst, dtype == f32 ? ulps(got.data<float>()[i], expected)
                                                   : ulps(got.data<double>()[i], expected));
            }
            const double most = row.primitive == &prim::erf_inv ? 6 : 4;
            CHECK_MESSAGE(worst <= most, row.primitive->name, " ", to_string(dtype), ' ', worst);
          }
        }
      }
    }
  }
}

namespace {

// Numbers at which e^x is anything: ordinary, beyond the bounds, near them, subnormal, infinite, none.
template <class T>
std::vector<T> exponents() {
  const bool wide = sizeof(T) == 8;
  const T least = wide ? T(-745.2) : T(-104), normal = wide ? T(-708.5) : T(-87.5),
          most = wide ? T(709.9) : T(88.8);
  std::vector<T> all{0,
                     T(-0.0),
                     std::numeric_limits<T>::infinity(),
                     -std::numeric_limits<T>::infinity(),
                     std::numeric_limits<T>::quiet_NaN(),
                     std::numeric_limits<T>::max(),
                     std::numeric_limits<T>::lowest(),
                     std::numeric_limits<T>::denorm_min()};
  for (const T edge : {least, normal, most, wide ? T(708) : T(87), wide ? T(-708) : T(-87)})
    for (int i = -400; i <= 400; ++i) all.push_back(edge + T(i) / 512);
  const int steps = 40000;
  for (int i = 0; i <= steps; ++i) all.push_back(least + (most - least) * T(i) / steps);
  for (int i = 0; i <= steps; ++i) all.push_back(T(i - steps / 2) / steps);
  return all;
}

template <class T>
Tensor exponentials(const CpuExecutor& lanes, const std::vector<T>& x) {
  const Tensor operand = Tensor::from<T>(Shape{static_cast<std::int64_t>(x.size())}, x);
  return lanes.run(graph_of(Op::make(prim::exp), {operand.type()}), std::vector{operand})[0];
}

template <class T>
void check_exponentials(const CpuExecutor& lanes) {
  const std::vector<T> x = exponents<T>();
  const Tensor got = exponentials(lanes, x);
  const auto y = got.elements<T>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulps(y[i], std::exp(static_cast<long double>(x[i]))));
  CHECK(worst <= 1);
  // Beside one that is far off, and beside none: the same bits.
  std::vector<T> beside;
  for (const T each : x) {
    beside.push_back(T(-5000));
    beside.push_back(each);
  }
  const Tensor mixed = exponentials(lanes, beside);
  const auto z = mixed.elements<T>();
  bool same = true;
  for (std::size_t i = 0; i < x.size(); ++i)
    same = same && (std::isnan(x[i]) ? std::isnan(z[2 * i + 1]) : z[2 * i + 1] == y[i]) && z[2 * i] == 0;
  CHECK(same);
}

}  // namespace

TEST_CASE("vector code: e^x is within one unit in the last place, whatever it is computed with") {
  for (const VectorUnits each : units()) {
    const CpuExecutor lanes = with_units(each);
    check_exponentials<float>(lanes);
    check_exponentials<double>(lanes);
  }
}

namespace {

// Over all magnitudes, and half of them where tanh is neither x nor 1.
template <class T>
void check_tanh(const CpuExecutor& lanes, double bound) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr std::int64_t count = 500000;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const auto spread = [](T* to, T from, T until) {
    const Bits first = std::bit_cast<Bits>(from), stride = (std::bit_cast<Bits>(until) - first) / count;
    for (std::int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<T>(first + static_cast<Bits>(i) * stride);
  };
  Tensor x(Type(sizeof(T) == 4 ? f32 : f64, {4 * count}));
  auto* const to = reinterpret_cast<T*>(x.mutable_bytes());
  spread(to, T(0), infinity);
  spread(to + count, T(0x1p-12), T(32));
  to[count - 1] = infinity;
  std::transform(to, to + 2 * count, to + 2 * count, std::negate<T>());
  const Tensor got = lanes.run(graph_of(Op::make(prim::tanh), {x.type()}), std::vector{x})[0];
  const T* const y = got.elements<T>().data();
  double worst = 0;
  bool odd = true, bounded = true;
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    const T negative = y[i + 2 * count];
    worst = std::max(worst, ulps(y[i], std::tanh(static_cast<long double>(to[i]))));
    odd = odd && negative == -y[i] && std::signbit(negative);
    bounded = bounded && y[i] <= 1;
  }
  CHECK(worst <= bound);
  CHECK(odd);
  CHECK(bounded);
  CHECK(y[count - 1] == 1);
}

}  // namespace

TEST_CASE("vector code: tanh is within its bound over all magnitudes, odd, and 1 at most") {
  for (const VectorUnits each : units()) {
    check_tanh<float>(with_units(each), 3.5);
    check_tanh<double>(with_units(each), 3);
  }
}

TEST_CASE("[vector code] many values at once have the results of their steps one by one") {
  std::mt19937_64 random(4);
  for (const VectorUnits each : units()) {
    VectorJit& compiler = *VectorJit::get(each);
    for (const DType dtype : {f32, f64}) {
      for (const std::size_t steps : std::vector<std::size_t>{5, 20, 60, 200}) {
        for (int repeat = 0; repeat < 12; ++repeat) {
          const VectorProgram code = random_code(dtype, steps, repeat % 2 == 0, random);
          const std::int64_t count = 37 + 16 * (repeat % 3);  // vectors alone and in pairs, and a rest
          std::vector<Bytes> operands(code.num_operands);
          for (const VectorInst& step : code.steps) {
            if (num_operands(step.op) != 0 || step.op == VectorOp::immediate) continue;
            const bool mask = makes_mask(step.op);
            const double most = repeat % 4 == 0 ? 1e7 : 2;  // far beyond the fast reduction of sin and cos
            const Tensor tensor = random_tensor(Type(mask ? bool_ : dtype, {count}), {-most, most}, random);
            operands[step.index].assign(tensor.bytes(), tensor.bytes() + tensor.num_bytes());
          }
          const std::vector<Bytes> expected = one_by_one(code, compiler, operands, count);
          std::vector<const std::byte*> in;
          for (const Bytes& operand : operands) in.push_back(operand.data());
          std::vector<Bytes> got(code.num_results);
          std::vector<std::byte*> out;
          for (std::size_t i = 0; i < got.size(); ++i) {
            got[i].resize(expected[i].size());
            out.push_back(got[i].data());
          }
          compiler.compile(code)->run(in.data(), out.data(), count);
          CHECK_MESSAGE(got == expected, steps, " steps, ", to_string(dtype), ", repeat ", repeat);
          // The same with results where operands lie, elements on elements and masks on masks.
          const std::array<std::size_t, 5> under = {0, 1, 2, 6, 4};
          for (std::size_t k = 0; k < under.size(); ++k) out[k] = operands[under[k]].data();
          compiler.compile(code)->run(in.data(), out.data(), count);
          for (std::size_t k = 0; k < under.size(); ++k) {
            CHECK_MESSAGE(operands[under[k]] == expected[k], "result ", k, " in place, ", steps, " steps, ",
                          to_string(dtype), ", repeat ", repeat);
          }
        }
      }
    }
  }
}

TEST_CASE("vector code: nothing is written beyond the end, and results may overwrite operands") {
  for (const VectorUnits each : units()) {
    VectorProgram code;
    code.num_operands = 1;
    code.num_results = 2;
    const std::uint16_t x = code.add({.op = VectorOp::load});
    const std::uint16_t y = code.add({.op = VectorOp::add, .a = x, .b = x});
    const std::uint16_t positive = code.add({.op = VectorOp::less, .a = x, .b = y});
    code.add({.op = VectorOp::store, .a = y});
    code.add({.op = VectorOp::store_mask, .a = positive, .index = 1});
    const auto kernel = VectorJit::get(each)->compile(code);
    CHECK(VectorJit::get(each)->compile(code) == kernel);
    for (std::int64_t count = 0; count < 70; ++count) {
      std::vector<float> values(80, -7);
      std::vector<char> masks(80, 9);
      for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
      const std::array<const std::byte*, 1> in = {reinterpret_cast<const std::byte*>(values.data())};
      const std::array<std::byte*, 2> out = {reinterpret_cast<std::byte*>(values.data()),
                                             reinterpret_cast<std::byte*>(masks.data())};
      kernel->run(in.data(), out.data(), count);
      bool right = true;
      for (std::int64_t i = 0; i < 80; ++i) {
        const auto at = static_cast<std::size_t>(i);
        right = right && values[at] == (i < count ? 2 * static_cast<float>(i) : -7.0F);
        right = right && masks[at] == (i < count ? (i > 0 ? 1 : 0) : 9);
      }
      CHECK_MESSAGE(right, count);
    }
  }
}

}  // namespace lanes_cases
