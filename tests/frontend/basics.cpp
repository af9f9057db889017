// basics.cpp - what Arrays are, how they compute, and what they refuse.
#include "support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("an Array is made of numbers, lists and tensors") {
  const Array x = array({{1, 2, 3}, {4, 5, 6}});
  CHECK(x.type() == Type(i64, {2, 3}));
  CHECK(array({{1.0, 2}, {3, 4}}).dtype() == f64);
  CHECK(array({{1, 2}, {3, 4}}, f32).type() == Type(f32, {2, 2}));
  CHECK(array({1, 2, 3, 4}, Shape{2, 2}).type() == Type(i64, {2, 2}));
  CHECK(array({{{1.5}}, {{2.5}}}).shape() == Shape{2, 1, 1});
  CHECK(array(2.5).type() == Type(f64));
  CHECK(Array(2.0f).type() == Type(f32));
  CHECK(Array(true).type() == Type(bool_));
  CHECK(Array(3).type() == Type(i32));
  CHECK(zeros({2, 0}).size() == 0);
  CHECK(elements(full({2}, 1.5)) == std::vector<double>{1.5, 1.5});
  CHECK(elements(arange(4)) == std::vector<double>{0, 1, 2, 3});
  CHECK(elements(arange(1.0, 2.0, 0.25)) == std::vector<double>{1, 1.25, 1.5, 1.75});
  CHECK(elements(linspace(0, 1, 5)) == std::vector<double>{0, 0.25, 0.5, 0.75, 1});
  CHECK(elements(eye(2)) == std::vector<double>{1, 0, 0, 1});
  CHECK(elements(one_hot(array({2, 0}), 3)) == std::vector<double>{0, 0, 1, 1, 0, 0});
}

TEST_CASE("numbers take the Array's dtype, and Arrays promote each other") {
  const Array x = ones({2}, f32);
  CHECK((x * 2.0).dtype() == f32);
  CHECK((2 * x).dtype() == f32);
  CHECK((1.0 - x).dtype() == f32);
  CHECK((arange(2) * 2).dtype() == i64);
  CHECK((arange(2) * 2.5).dtype() == f64);
  CHECK((arange(2) / 2).dtype() == f64);
  CHECK((x + ones({2}, f64)).dtype() == f64);
  CHECK((x + arange(2)).dtype() == f32);
  CHECK(exp(arange(2)).dtype() == f64);
  CHECK(promote(f16, bf16) == f32);
  CHECK(promote(f64, c64) == c128);
  CHECK(promote(i64, c64) == c64);
  CHECK(promote(bool_, i32) == i32);
}

TEST_CASE("chain rule through backward") {
  Array x(0.7);
  x.set_requires_grad();
  const Array y = sin(x * x) + exp(x) / 2.0;
  y.backward();
  CHECK(x.grad()->item() == doctest::Approx(std::cos(0.49) * 1.4 + std::exp(0.7) / 2));
  const std::string error = error_of([&] { y.backward(); });  // nothing left: the tape was freed
  CHECK(contains(error, "keep_graph"));
  CHECK(contains(error, "basics.cpp:47"));
}

}  // namespace
}  // namespace tidu::test
