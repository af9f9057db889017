// functions.cpp - the functions of docs/accuracy.md.
#include "accuracy/table.hpp"
#include "frontend/support.hpp"

namespace tidu::test {
namespace {

Elementwise of_one(Array (*f)(const Array&)) {
  return [=](const std::vector<Array>& x) { return f(x[0]); };
}
Elementwise of_two(Array (*f)(const Array&, const Array&)) {
  return [=](const std::vector<Array>& x) { return f(x[0], x[1]); };
}

}  // namespace

const std::vector<Named>& real_functions() {
  static const std::vector<Named> functions = {
      {"exp", of_one([](const Array& x) { return exp(x); })},
      {"exp2", of_one([](const Array& x) { return exp2(x); })},
      {"expm1", of_one([](const Array& x) { return expm1(x); })},
      {"log", of_one([](const Array& x) { return log(x); })},
      {"log2", of_one([](const Array& x) { return log2(x); })},
      {"log10", of_one([](const Array& x) { return log10(x); })},
      {"log1p", of_one([](const Array& x) { return log1p(x); })},
      {"sqrt", of_one([](const Array& x) { return sqrt(x); })},
      {"rsqrt", of_one([](const Array& x) { return rsqrt(x); })},
      {"cbrt", of_one([](const Array& x) { return cbrt(x); })},
      {"reciprocal", of_one([](const Array& x) { return reciprocal(x); })},
      {"square", of_one([](const Array& x) { return square(x); })},
      {"abs", of_one([](const Array& x) { return abs(x); })},
      {"sin", of_one([](const Array& x) { return sin(x); })},
      {"cos", of_one([](const Array& x) { return cos(x); })},
      {"tan", of_one([](const Array& x) { return tan(x); })},
      {"asin", of_one([](const Array& x) { return asin(x); })},
      {"acos", of_one([](const Array& x) { return acos(x); })},
      {"atan", of_one([](const Array& x) { return atan(x); })},
      {"sinh", of_one([](const Array& x) { return sinh(x); })},
      {"cosh", of_one([](const Array& x) { return cosh(x); })},
      {"tanh", of_one([](const Array& x) { return tanh(x); })},
      {"asinh", of_one([](const Array& x) { return asinh(x); })},
      {"acosh", of_one([](const Array& x) { return acosh(x); })},
      {"atanh", of_one([](const Array& x) { return atanh(x); })},
      {"logistic", of_one([](const Array& x) { return logistic(x); })},
      {"softplus", of_one([](const Array& x) { return softplus(x); })},
      {"log_sigmoid", of_one([](const Array& x) { return log_sigmoid(x); })},
      {"silu", of_one([](const Array& x) { return silu(x); })},
      {"gelu", of_one([](const Array& x) { return gelu(x); })},
      {"gelu_exact", of_one([](const Array& x) { return gelu(x, false); })},
      {"relu", of_one([](const Array& x) { return relu(x); })},
      {"elu", of_one([](const Array& x) { return elu(x); })},
      {"selu", of_one([](const Array& x) { return selu(x); })},
      {"erf", of_one([](const Array& x) { return erf(x); })},
      {"erfc", of_one([](const Array& x) { return erfc(x); })},
      {"erf_inv", of_one([](const Array& x) { return erf_inv(x); })},
      {"lgamma", of_one([](const Array& x) { return lgamma(x); })},
      {"digamma", of_one([](const Array& x) { return digamma(x); })},
      {"power_3", of_one([](const Array& x) { return pow(x, 3); })},
      {"power_-2", of_one([](const Array& x) { return pow(x, -2); })},
      {"power_2.5", of_one([](const Array& x) { return pow(x, 2.5); })},
      {"atan2", of_two([](const Array& x, const Array& y) { return atan2(x, y); })},
      {"hypot", of_two([](const Array& x, const Array& y) { return hypot(x, y); })},
      {"logaddexp", of_two([](const Array& x, const Array& y) { return logaddexp(x, y); })},
      {"divide", of_two([](const Array& x, const Array& y) { return x / y; })},
      {"pow", of_two([](const Array& x, const Array& y) { return pow(x, y); })},

  };
  return functions;
}

// All of them are holomorphic at their points.
const std::vector<Named>& complex_functions() {
  static const std::vector<Named> functions = {
      {"exp", of_one([](const Array& z) { return exp(z); })},
      {"exp2", of_one([](const Array& z) { return exp2(z); })},
      {"expm1", of_one([](const Array& z) { return expm1(z); })},
      {"log", of_one([](const Array& z) { return log(z); })},
      {"log1p", of_one([](const Array& z) { return log1p(z); })},
      {"sqrt", of_one([](const Array& z) { return sqrt(z); })},
      {"rsqrt", of_one([](const Array& z) { return rsqrt(z); })},
      {"reciprocal", of_one([](const Array& z) { return reciprocal(z); })},
      {"square", of_one([](const Array& z) { return square(z); })},
      {"power_3", of_one([](const Array& z) { return pow(z, 3); })},
      {"sin", of_one([](const Array& z) { return sin(z); })},
      {"cos", of_one([](const Array& z) { return cos(z); })},
      {"tan", of_one([](const Array& z) { return tan(z); })},
      {"sinh", of_one([](const Array& z) { return sinh(z); })},
      {"cosh", of_one([](const Array& z) { return cosh(z); })},
      {"tanh", of_one([](const Array& z) { return tanh(z); })},
      {"asin", of_one([](const Array& z) { return asin(z); })},
      {"acos", of_one([](const Array& z) { return acos(z); })},
      {"atan", of_one([](const Array& z) { return atan(z); })},
      {"asinh", of_one([](const Array& z) { return asinh(z); })},
      {"acosh", of_one([](const Array& z) { return acosh(z); })},
      {"atanh", of_one([](const Array& z) { return atanh(z); })},
      {"logistic", of_one([](const Array& z) { return logistic(z); })},
      {"divide", of_two([](const Array& z, const Array& w) { return z / w; })},
      {"pow", of_two([](const Array& z, const Array& w) { return pow(z, w); })},
  };
  return functions;
}

}  // namespace tidu::test
