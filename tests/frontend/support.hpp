// support.hpp - helpers of the tests of Arrays.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/support.hpp"
#include "tidu/tidu.hpp"

namespace tidu::test {

/// Elements as doubles.
inline std::vector<double> elements(const Array& x) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.size(); ++i) result.push_back(x.tensor().at(i).real());
  return result;
}

/// Normal random numbers from a generator of its own.
inline Array random_array(const Shape& shape, unsigned seed, double scale = 1.0) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<double> numbers(static_cast<std::size_t>(num_elements(shape)));
  for (double& number : numbers) number = normal(engine);
  return array(numbers, shape);
}

/// A leaf of its own with these elements, that requires a gradient.
inline Array leaf(const Array& data) {
  Array x = data.detach().copy();
  x.set_requires_grad();
  return x;
}

/// Largest difference of elements; infinite for different types.
inline double distance(const Array& a, const Array& b) {
  if (a.type() != b.type()) return INFINITY;
  double greatest = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a.tensor().at(i) - b.tensor().at(i));
    if (!(d <= greatest)) greatest = d;
  }
  return greatest;
}

/// The exception of body as text; empty when there is none.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

using Function = std::function<Array(const Array&)>;

/// Gradients of <f(x), random> on the tape against central differences, the graph's jvp and the traced
/// gradient.
inline void check_gradient(const char* name, const Function& f, const Array& at, double tolerance = 1e-6) {
  CAPTURE(name);
  Array x = at.copy();
  x.set_requires_grad();
  const Array y = f(x);
  const Array weights = random_array(y.shape(), 11), direction = random_array(at.shape(), 12);
  y.backward(weights);
  REQUIRE(x.grad().has_value());
  const double along = sum(*x.grad() * direction).item();
  const double h = 1e-6;
  const double difference =
      (sum(weights * f(at + h * direction)) - sum(weights * f(at - h * direction))).item() / (2 * h);
  CHECK(along == doctest::Approx(difference).epsilon(tolerance));
  const Array tangent = jvp(f, at, direction).second;
  CHECK(sum(tangent * weights).item() == doctest::Approx(along).epsilon(1e-10));
  const auto traced = grad([&](const Array& v) { return sum(weights * f(v)); });
  CHECK(sum(traced(at) * direction).item() == doctest::Approx(along).epsilon(1e-10));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tidu::test
