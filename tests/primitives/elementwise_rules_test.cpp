// elementwise_rules_test.cpp - the derivative and batch rules of the element-wise primitives: every one
// against differences, its transpose and a loop, to second order; how many operations a rule puts into the
// linear graph; and the points where a convention decides.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tidu/check/check_gradients.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/reference/executor.hpp"

namespace {

using namespace tidu;
using Complex = std::complex<double>;
using Tensors = std::vector<Tensor>;
using Function = std::function<Value(std::span<const Value>)>;

struct Row {
  std::string name;
  std::vector<DType> dtypes;      // of the operands
  double low, high;               // of their elements, or of real and imaginary parts
  std::size_t linear_operations;  // in the linear graph with every operand active
  Function function;
};

using Span = std::span<const Value>;
template <Value (*f)(Value, Where)>
Value of1(Span x) {
  return f(x[0], {});
}
template <Value (*f)(Value, Value, Where)>
Value of2(Span x) {
  return f(x[0], x[1], {});
}

const Row rows[] = {
    {"neg", {f64}, -2, 2, 1, of1<ops::neg>},
    {"abs", {f64}, -2, 2, 1, of1<ops::abs>},
    {"abs complex", {c128}, -2, 2, 2, of1<ops::abs>},
    {"sign complex", {c128}, -2, 2, 4, of1<ops::sign>},
    {"exp", {f64}, -2, 2, 1, of1<ops::exp>},
    {"exp complex", {c128}, -2, 2, 1, of1<ops::exp>},
    {"exp2", {f64}, -2, 2, 1, of1<ops::exp2>},
    {"exp2 complex", {c128}, -2, 2, 1, of1<ops::exp2>},
    {"expm1", {f64}, -2, 2, 1, of1<ops::expm1>},
    {"log", {f64}, 0.3, 3, 1, of1<ops::log>},
    {"log complex", {c128}, 0.3, 2, 1, of1<ops::log>},
    {"log1p", {f64}, -0.7, 3, 1, of1<ops::log1p>},
    {"sqrt", {f64}, 0.3, 3, 1, of1<ops::sqrt>},
    {"sqrt complex", {c128}, 0.3, 2, 1, of1<ops::sqrt>},
    {"rsqrt", {f64}, 0.3, 3, 1, of1<ops::rsqrt>},
    {"rsqrt complex", {c128}, 0.3, 2, 1, of1<ops::rsqrt>},
    {"cbrt", {f64}, 0.3, 3, 1, of1<ops::cbrt>},
    {"cbrt below zero", {f64}, -3, -0.3, 1, of1<ops::cbrt>},
    {"sin", {f64}, -3, 3, 1, of1<ops::sin>},
    {"sin complex", {c128}, -2, 2, 1, of1<ops::sin>},
    {"cos", {f64}, -3, 3, 1, of1<ops::cos>},
    {"cos complex", {c128}, -2, 2, 1, of1<ops::cos>},
    {"tan", {f64}, -1, 1, 1, of1<ops::tan>},
    {"tan complex", {c128}, -1, 1, 1, of1<ops::tan>},
    {"asin", {f64}, -0.8, 0.8, 1, of1<ops::asin>},
    {"asin complex", {c128}, 0.3, 2, 1, of1<ops::asin>},
    {"acos", {f64}, -0.8, 0.8, 1, of1<ops::acos>},
    {"acos complex", {c128}, 0.3, 2, 1, of1<ops::acos>},
    {"atan", {f64}, -3, 3, 1, of1<ops::atan>},
    {"atan complex", {c128}, 0.3, 2, 1, of1<ops::atan>},
    {"sinh", {f64}, -2, 2, 1, of1<ops::sinh>},
    {"sinh complex", {c128}, -2, 2, 1, of1<ops::sinh>},
    {"cosh", {f64}, -2, 2, 1, of1<ops::cosh>},
    {"cosh complex", {c128}, -2, 2, 1, of1<ops::cosh>},
    {"tanh", {f64}, -2, 2, 1, of1<ops::tanh>},
    {"tanh complex", {c128}, -1, 1, 1, of1<ops::tanh>},
    {"asinh", {f64}, -3, 3, 1, of1<ops::asinh>},
    {"asinh complex", {c128}, 0.3, 2, 1, of1<ops::asinh>},
    {"acosh", {f64}, 1.3, 3, 1, of1<ops::acosh>},
    {"acosh complex", {c128}, 0.3, 2, 1, of1<ops::acosh>},
    {"acosh complex, Re x < 0", {c128}, -2, -0.3, 1, of1<ops::acosh>},
    {"atanh", {f64}, -0.8, 0.8, 1, of1<ops::atanh>},
    {"atanh complex", {c128}, 0.3, 2, 1, of1<ops::atanh>},
    {"logistic", {f64}, -3, 3, 1, of1<ops::logistic>},
    {"logistic complex", {c128}, -1, 1, 1, of1<ops::logistic>},
    {"erf", {f64}, -2, 2, 1, of1<ops::erf>},
    {"erfc", {f64}, -2, 2, 1, of1<ops::erfc>},
    {"erf_inv", {f64}, -0.8, 0.8, 1, of1<ops::erf_inv>},
    {"lgamma", {f64}, 0.5, 4, 1, of1<ops::lgamma>},
    {"digamma", {f64}, 0.5, 4, 1, of1<ops::digamma>},
    {"polygamma 1", {f64}, 0.5, 4, 1, [](Span x) { return ops::polygamma(x[0], 1); }},
    {"polygamma 3", {f64}, 0.5, 4, 1, [](Span x) { return ops::polygamma(x[0], 3); }},
    {"square", {f64}, -2, 2, 1, of1<ops::square>},
    {"square complex", {c128}, -2, 2, 1, of1<ops::square>},
    {"reciprocal", {f64}, 0.5, 2, 1, of1<ops::reciprocal>},
    {"reciprocal complex", {c128}, 0.5, 2, 1, of1<ops::reciprocal>},
    {"integer_pow 1", {f64}, -2, 2, 0, [](Span x) { return ops::integer_pow(x[0], 1); }},
    {"integer_pow 2", {f64}, -2, 2, 1, [](Span x) { return ops::integer_pow(x[0], 2); }},
    {"integer_pow 3", {f64}, -2, 2, 1, [](Span x) { return ops::integer_pow(x[0], 3); }},
    {"integer_pow 7", {f64}, -1, 1, 1, [](Span x) { return ops::integer_pow(x[0], 7); }},
    {"integer_pow -2", {f64}, 0.5, 2, 1, [](Span x) { return ops::integer_pow(x[0], -2); }},
    {"integer_pow 3 complex", {c128}, -2, 2, 1, [](Span x) { return ops::integer_pow(x[0], 3); }},
    {"real", {c128}, -2, 2, 1, of1<ops::real>},
    {"imag", {c128}, -2, 2, 1, of1<ops::imag>},
    {"conj", {c128}, -2, 2, 1, of1<ops::conj>},
    {"complex", {f64, f64}, -2, 2, 1, of2<ops::complex>},
    {"add", {f64, f64}, -2, 2, 1, of2<ops::add>},
    {"sub", {f64, f64}, -2, 2, 1, of2<ops::sub>},
    {"mul", {f64, f64}, -2, 2, 3, of2<ops::mul>},
    {"mul complex", {c128, c128}, -2, 2, 3, of2<ops::mul>},
    {"div", {f64, f64}, 0.5, 2, 3, of2<ops::div>},
    {"div complex", {c128, c128}, 0.5, 2, 3, of2<ops::div>},
    {"multiply_no_nan", {f64, f64}, -2, 2, 3, of2<ops::multiply_no_nan>},
    {"multiply_no_nan complex", {c128, c128}, -2, 2, 3, of2<ops::multiply_no_nan>},
    {"divide_no_nan", {f64, f64}, 0.5, 2, 3, of2<ops::divide_no_nan>},
    {"divide_no_nan complex", {c128, c128}, 0.5, 2, 3, of2<ops::divide_no_nan>},
    {"pow", {f64, f64}, 0.5, 2, 3, of2<ops::pow>},
    {"pow complex", {c128, c128}, 0.5, 1.5, 3, of2<ops::pow>},
    {"max", {f64, f64}, -2, 2, 3, of2<ops::max>},
    {"min", {f64, f64}, -2, 2, 3, of2<ops::min>},
    {"atan2", {f64, f64}, 0.3, 2, 3, of2<ops::atan2>},
    {"rem", {f64, f64}, 0.7, 5, 2, of2<ops::rem>},
    {"select_n",
     {f64, f64},
     -2,
     2,
     1,
     [](Span x) { return ops::select_n(ops::lt(x[0], x[1]), x[0], ops::sin(x[1])); }},
    {"clamp", {f64, f64, f64}, -2, 2, 5, [](Span x) { return ops::clamp(x[0], x[1], x[2]); }},
};

Tensor random_tensor(Type type, double low, double high, std::mt19937& random) {
  std::uniform_real_distribution<double> next(low, high);
  Tensor x = Tensor::zeros(type);
  if (type.dtype() == f64)
    for (double& e : x.mutable_elements<double>()) e = next(random);
  if (type.dtype() == c128)
    for (Complex& e : x.mutable_elements<Complex>()) e = {next(random), next(random)};
  return x;
}

Graph graph_of(const Function& function, const std::vector<DType>& dtypes, const Shape& shape) {
  GraphBuilder b("f");
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    inputs.push_back(b.input("x" + std::to_string(i), Type(dtypes[i], shape)));
  return b.build({function(inputs)});
}

double number(const Graph& g, const Tensors& inputs, std::size_t output) {
  return reference().run(g, std::span<const Tensor>(inputs)).at(output).at(0).real();
}

/// d f / d x_k at scalars.
double slope(const Function& function, const std::vector<double>& at, std::size_t k) {
  const Graph g = graph_of(function, std::vector<DType>(at.size(), f64), {});
  Tensors inputs;
  for (const double x : at) inputs.push_back(Tensor::scalar(x));
  return number(grad(g), inputs, k);
}

}  // namespace

TEST_CASE("every rule agrees with differences, its transpose and a loop, to second order") {
  std::mt19937 random(20240607);
  for (const Row& row : rows) {
    CAPTURE(row.name);
    for (const Shape& shape : {Shape{}, Shape{2, 3}}) {
      const Graph g = graph_of(row.function, row.dtypes, shape);
      Tensors inputs;
      for (const DType dtype : row.dtypes)
        inputs.push_back(random_tensor(Type(dtype, shape), row.low, row.high, random));
      const CheckReport report = check_gradients(g, inputs, reference());
      CAPTURE(to_text(report));
      CHECK(report.ok);
      CHECK(report.notes.empty());
    }
  }
}

TEST_CASE("rules put few operations into the linear graph, and only such as are linear") {
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Linearization lin = linearize(graph_of(row.function, row.dtypes, {3}));
    std::size_t linear = 0;
    for (std::size_t i = 0; i < lin.linear.num_operations(); ++i) {
      if (lin.linear.operation(i).is_linear()) ++linear;
    }
    if (row.name == "select_n") --linear;  // sin's
    CHECK(linear == row.linear_operations);
  }
}

TEST_CASE("operands without tangents cost nothing") {
  const auto linear_operations = [](const Function& function) {
    LinearizeOptions options;
    options.wrt = std::vector<std::size_t>{1};
    const Linearization lin = linearize(graph_of(function, {f64, f64}, {3}), options);
    std::string names;
    for (std::size_t i = 0; i < lin.linear.num_operations(); ++i) {
      if (lin.linear.operation(i).is_linear()) names += std::string(lin.linear.operation(i).name()) + " ";
    }
    return names;
  };
  CHECK(linear_operations(of2<ops::add>).empty());
  CHECK(linear_operations(of2<ops::sub>) == "neg ");
  CHECK(linear_operations(of2<ops::mul>) == "mul ");
  CHECK(linear_operations(of2<ops::div>) == "multiply_no_nan ");
  CHECK(linear_operations(of2<ops::multiply_no_nan>) == "multiply_no_nan ");
  CHECK(linear_operations(of2<ops::divide_no_nan>) == "multiply_no_nan ");
  CHECK(linear_operations(of2<ops::pow>) == "multiply_no_nan ");
  CHECK(linear_operations(of2<ops::max>) == "mul ");
  CHECK(linear_operations(of2<ops::rem>) == "multiply_no_nan ");
  CHECK(linear_operations(of2<ops::complex>) == "complex ");
  CHECK(linear_operations([](Span x) { return ops::clamp(x[0], x[1], x[0]); }) == "select_n ");
}

TEST_CASE("conventions at kinks and ties") {
  CHECK(slope(of1<ops::abs>, {0.0}, 0) == 0.0);
  for (const std::size_t k : {0U, 1U}) {
    CHECK(slope(of2<ops::max>, {1.5, 1.5}, k) == 0.5);
    CHECK(slope(of2<ops::min>, {1.5, 1.5}, k) == 0.5);
    CHECK(slope(of2<ops::max>, {0.0, -0.0}, k) == 0.5);
  }
  CHECK(slope(of2<ops::max>, {1.0, 2.0}, 0) == 0.0);
  CHECK(slope(of2<ops::max>, {1.0, 2.0}, 1) == 1.0);
  CHECK(slope(of2<ops::min>, {1.0, 2.0}, 0) == 1.0);

  const Function clamp = [](Span x) { return ops::clamp(x[0], x[1], x[2]); };
  CHECK(slope(clamp, {0.0, 0.5, 1.0}, 1) == 1.0);
  CHECK(slope(clamp, {0.0, 0.0, 1.0}, 1) == 0.0);  // at a bound, which gets it
  CHECK(slope(clamp, {0.0, 0.0, 1.0}, 0) == 1.0);
  CHECK(slope(clamp, {0.0, 1.0, 1.0}, 2) == 1.0);
  CHECK(slope(clamp, {1.0, 1.0, 1.0}, 2) == 1.0);
  CHECK(slope(clamp, {1.0, 1.0, 1.0}, 0) == 0.0);
  CHECK(slope(clamp, {0.0, 1.0, 1.0}, 1) == 0.0);
  CHECK(slope(clamp, {0.0, -1.0, 1.0}, 0) == 1.0);
  CHECK(slope(clamp, {0.0, -1.0, 1.0}, 1) == 0.0);
  CHECK(slope(clamp, {0.0, 2.0, 1.0}, 2) == 1.0);

  CHECK(slope(of2<ops::pow>, {0.0, 0.0}, 0) == 0.0);
  CHECK(slope(of2<ops::pow>, {0.0, 0.0}, 1) == 0.0);
  CHECK(slope(of2<ops::pow>, {0.0, 2.0}, 0) == 0.0);
  CHECK(slope(of2<ops::pow>, {0.0, 2.0}, 1) == 0.0);
  CHECK(slope(of2<ops::pow>, {0.0, 1.0}, 0) == 1.0);

  CHECK(slope(of2<ops::rem>, {-7.5, 2.0}, 0) == 1.0);
  CHECK(slope(of2<ops::rem>, {-7.5, 2.0}, 1) == 3.0);
  CHECK(slope(of2<ops::rem>, {7.5, -2.0}, 1) == 3.0);
}

TEST_CASE("steps have no tangent at all") {
  for (const Function& step : std::vector<Function>{of1<ops::floor>, of1<ops::ceil>, of1<ops::sign>,
                                                    [](Span x) { return ops::round(x[0]); },
                                                    [](Span x) { return ops::integer_pow(x[0], 0); }}) {
    const Linearization lin = linearize(graph_of(step, {f64}, {3}));
    CHECK(lin.tangent_of_output == std::vector<std::optional<std::size_t>>{std::nullopt});
    CHECK(lin.linear.num_operations() == 0);
  }
  const Linearization next = linearize(graph_of(of2<ops::nextafter>, {f64, f64}, {3}));
  CHECK(next.tangent_of_output == std::vector<std::optional<std::size_t>>{std::nullopt});
}

TEST_CASE("complex absolute value and sign are flat at zero, and the gradient of |z|^2 is 2z") {
  const auto gradient = [](const Function& function, Complex at) {
    const Graph g = graph_of([&](Span x) { return function(x); }, {c128}, {});
    return reference().run(grad(g), std::vector<Tensor>{Tensor::scalar(c128, at)}).at(0).at(0);
  };
  CHECK(gradient(of1<ops::abs>, 0.0) == Complex(0.0));
  CHECK(gradient([](Span x) { return ops::imag(ops::sign(x[0])); }, 0.0) == Complex(0.0));
  const Complex z(0.75, -1.25);
  CHECK(gradient([](Span x) { return ops::real(ops::mul(x[0], ops::conj(x[0]))); }, z) == 2.0 * z);
}

TEST_CASE("scalars beside arrays: every choice of batched operands agrees with a loop") {
  constexpr std::int64_t size = 4;
  std::mt19937 random(7);
  GraphBuilder b("f");
  const Value lo = b.input("lo", f64), x = b.input("x", Type(f64, {3})), hi = b.input("hi", f64);
  const Value which = b.input("which", bool_);
  const Value clamped = ops::clamp(lo, x, hi);
  const Graph g = b.build({clamped, ops::select_n(which, clamped, x)});
  for (unsigned mask = 1; mask < 16; ++mask) {
    CAPTURE(mask);
    Names names;
    Tensors inputs;
    for (std::size_t i = 0; i < 4; ++i) {
      const bool batched = (mask >> i & 1U) != 0;
      const Type type = g.type(g.inputs()[i]);
      Shape shape = type.shape();
      if (batched) {
        shape.insert(shape.begin(), size);
        names.push_back(g.input_name(i));
      }
      if (i < 3) {
        inputs.push_back(random_tensor(Type(f64, shape),
                                       i == 0   ? -2
                                       : i == 1 ? -3
                                                : 0.5,
                                       i == 0 ? -0.5 : 3, random));
      } else {
        Tensor flags = Tensor::zeros(Type(bool_, shape));
        for (bool& flag : flags.mutable_elements<bool>()) flag = random() % 2 == 0;
        inputs.push_back(flags);
      }
    }
    const Tensors together = reference().run(vmap(g, size, names), std::span<const Tensor>(inputs));
    for (std::int64_t row = 0; row < size; ++row) {
      Tensors one;
      for (std::size_t i = 0; i < 4; ++i) {
        const Type type = g.type(g.inputs()[i]);
        const bool batched = (mask >> i & 1U) != 0;
        one.push_back(batched ? inputs[i].view(type, static_cast<std::size_t>(row) * type.bytes()).clone()
                              : inputs[i]);
      }
      const Tensors alone = reference().run(g, std::span<const Tensor>(one));
      for (std::size_t k = 0; k < alone.size(); ++k) {
        for (std::int64_t e = 0; e < 3; ++e) CHECK(together[k].at(row * 3 + e) == alone[k].at(e));
      }
    }
  }
}
