// smooth.cpp - functions that are computed in pieces and smooth where these meet: their derivatives of every
// order are those of the function there too.
#include "support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("softplus: derivatives to third order, at 0 too") {
  const Array x = array({0.0, -0.0, 1e-300, -1e-300, 0.5, -0.5, 3.0, -3.0, 40.0, -40.0, 800.0, -800.0});
  const Array one = ones_like(x), s = logistic(x);
  const auto first = [](const Array& y) { return sum(softplus(y)); };
  const auto second = [&](const Array& y) { return sum(grad(first)(y)); };
  const auto third = [&](const Array& y) { return sum(grad(second)(y)); };
  const auto relative = [](const Array& a, const Array& b) {
    return max(abs(a - b) / maximum(abs(b), 1e-300)).item();
  };
  const Array far = array({40.0, -40.0, 800.0, -800.0, -INFINITY, INFINITY});
  CHECK(relative(softplus(array({0.0, -40.0, 40.0, 800.0})),
                 array({0.69314718055994531, 4.2483542552915889e-18, 40.0, 800.0})) < 1e-15);
  CHECK(softplus(array({INFINITY, -INFINITY, NAN})).tensor().at(0).real() == INFINITY);
  CHECK(softplus(array({INFINITY, -INFINITY, NAN})).tensor().at(1).real() == 0);
  CHECK(std::isnan(softplus(array({INFINITY, -INFINITY, NAN})).tensor().at(2).real()));

  CHECK(relative(grad(first)(x), s) < 1e-14);
  CHECK(distance(grad(first)(far), logistic(far)) < 1e-15);
  CHECK(distance(grad(second)(x), s * (1 - s)) < 1e-15);
  CHECK(distance(grad(third)(x), s * (1 - s) * (1 - 2 * s)) < 1e-15);
  CHECK(distance(hvp(first, x, one), s * (1 - s)) < 1e-15);
  CHECK(distance(jvp([&](const Array& y) { return grad(first)(y); }, x, one).second, s * (1 - s)) < 1e-15);
}

}  // namespace
}  // namespace tidu::test
