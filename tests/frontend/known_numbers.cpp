// known_numbers.cpp - numbers that were operands: one tensor for as long as something refers to it.
#include "frontend/known_numbers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace tidu;
using frontend_detail::KnownNumbers;

TEST_CASE("a number that something refers to is one tensor, whatever else comes") {
  KnownNumbers numbers;
  std::vector<Tensor> held;
  for (int k = 0; k < 40; ++k) held.push_back(numbers.get(f64, k));
  for (int round = 0; round < 2000; ++round) {
    const double other = 0.1 + round;
    CHECK(numbers.get(f64, other).data<double>()[0] == other);
    const Tensor& again = numbers.get(f64, round % 40);
    CHECK(again.shares_storage_with(held[static_cast<std::size_t>(round % 40)]));
  }
}

TEST_CASE("numbers by dtype and bits, and after somebody wrote to one") {
  KnownNumbers numbers;
  CHECK(std::signbit(numbers.get(f64, -0.0).data<double>()[0]));
  CHECK(!std::signbit(numbers.get(f64, 0.0).data<double>()[0]));
  CHECK(std::isnan(numbers.get(f32, std::nan("")).data<float>()[0]));
  CHECK(numbers.get(f32, std::numeric_limits<double>::infinity()).data<float>()[0] ==
        std::numeric_limits<float>::infinity());
  CHECK(numbers.get(i64, 7).data<std::int64_t>()[0] == 7);
  CHECK(numbers.get(i32, 7).data<std::int32_t>()[0] == 7);
  CHECK(numbers.get(bool_, 1).dtype() == bool_);
  Tensor written = numbers.get(f64, 2.5);
  written.mutable_data<double>()[0] = 3.5;
  CHECK(numbers.get(f64, 2.5).data<double>()[0] == 2.5);
}

TEST_CASE("more numbers than are kept") {
  KnownNumbers numbers;
  std::vector<Tensor> held;
  for (int k = 0; k < 20000; ++k) {
    held.push_back(numbers.get(f64, k));
    REQUIRE(held.back().data<double>()[0] == k);
  }
  for (int k = 0; k < 20000; ++k) REQUIRE(numbers.get(f64, k).data<double>()[0] == k);
}
