// kinds_smooth.cpp - operations of random graphs on numbers that are not whole: functions of one or two
// variables, each where it is smooth, and logarithms of sums.
#include "fuzz/generator.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

using G = Generator;
constexpr unsigned all_numbers = G::smooth | G::real | G::complex, smooth_reals = G::smooth | G::real;

struct Function {
  Value (*op)(Value, Where);
  double centre, amplitude;
};

constexpr Function functions[] = {
    {ops::exp, 0, 1},       {ops::exp2, 0, 1},    {ops::expm1, 0, 1},        {ops::log, 2, 0.8},
    {ops::log1p, 1, 0.8},   {ops::sqrt, 2, 0.8},  {ops::rsqrt, 2, 0.8},      {ops::cos, 0, 2},
    {ops::tan, 0, 0.8},     {ops::asin, 0, 0.5},  {ops::acos, 0, 0.5},       {ops::atan, 0, 0.5},
    {ops::sinh, 0, 1},      {ops::cosh, 0, 1},    {ops::tanh, 0, 1},         {ops::asinh, 0, 0.5},
    {ops::acosh, 2.5, 0.5}, {ops::atanh, 0, 0.5}, {ops::reciprocal, 2, 0.8}, {ops::logistic, 0, 1}};
constexpr Function real_functions[] = {{ops::cbrt, 2, 0.8},    {ops::erf, 0, 1},   {ops::erfc, 0, 1},
                                       {ops::erf_inv, 0, 0.6}, {ops::abs, 2, 0.8}, {ops::lgamma, 2, 0.8},
                                       {ops::digamma, 2, 0.8}};

template <std::size_t n>
Values function_of(G& g, const Function (&list)[n]) {
  const Function& f = list[g.choices().below(n)];
  return {f.op(g.around(f.centre, f.amplitude, g.any_value()), Where::current())};
}

constexpr G::Kind smooth_table[] = {
    {"sin", smooth_reals, [](G& g) -> Values { return {ops::sin(g.any_value())}; }},
    {"tanh", smooth_reals, [](G& g) -> Values { return {ops::tanh(g.any_value())}; }},
    {"logistic", smooth_reals, [](G& g) -> Values { return {ops::logistic(g.any_value())}; }},
    {"function", all_numbers, [](G& g) { return function_of(g, functions); }},
    {"real function", smooth_reals, [](G& g) { return function_of(g, real_functions); }},
    {"polygamma", smooth_reals,
     [](G& g) -> Values {
       return {ops::polygamma(g.around(2, 0.8, g.any_value()), g.choices().between(1, 2))};
     }},
    {"div", all_numbers,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {x / g.around(2.5, 1.0, g.like(x))};
     }},
    {"multiply_no_nan", all_numbers,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {ops::multiply_no_nan(x, g.like(x))};
     }},
    {"divide_no_nan", all_numbers,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {ops::divide_no_nan(x, g.around(2.5, 1.0, g.like(x)))};
     }},
    {"pow", all_numbers,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {ops::pow(g.around(2, 0.8, x), g.around(0, 1.5, g.like(x)))};
     }},
    {"atan2", smooth_reals,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {ops::atan2(x, g.around(2, 0.8, g.like(x)))};
     }},
    {"rem", smooth_reals,
     [](G& g) -> Values {
       const Value x = g.any_value();
       return {ops::rem(g.around(5, 0.4, x), g.around(2, 0.1, g.like(x)))};
     }},
    {"negative integer_pow", all_numbers,
     [](G& g) -> Values {
       return {ops::integer_pow(g.around(2, 0.8, g.any_value()), g.choices().between(-3, -1))};
     }},
    {"complex abs", G::smooth | G::complex,
     [](G& g) -> Values { return {ops::abs(g.around(2, 0.8, g.any_value()))}; }},
    {"complex sign", G::smooth | G::complex,
     [](G& g) -> Values { return {ops::sign(g.around(2, 0.8, g.any_value()))}; }},
    {"logsumexp", smooth_reals,
     [](G& g) -> Values {
       const Value x = g.array();
       return {ops::logsumexp(x, {g.axis_of(x)})};
     }},
    {"cumlogsumexp", smooth_reals, [](G& g) -> Values {
       const Value x = g.array();
       return {ops::cumlogsumexp(x, g.axis_of(x), g.choices().below(2) == 0)};
     }}};

}  // namespace

std::span<const Generator::Kind> smooth_kinds() { return smooth_table; }

}  // namespace tidu::test
