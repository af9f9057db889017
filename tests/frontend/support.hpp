// support.hpp - what the tests of Arrays share.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
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

/// What body throws, as text; empty when it throws nothing.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tidu::test
