// vmap.cpp - functions of Arrays mapped over examples, against the same functions on one example after
// another, and together with the other transforms.
#include "support.hpp"

namespace tidu::test {
namespace {

Array loss_of_one(const Array& w, const Array& x, const Array& y) {
  return sum(square(tanh(matmul(x, w)) - y)) + logsumexp(x);
}

Array row(const Array& x, std::int64_t i) { return take(x, Array(i), 0); }

TEST_CASE("vmap of a gradient is the gradient of each example") {
  const Array w = random_array({4, 3}, 1), xs = random_array({5, 4}, 2), ys = random_array({5, 3}, 3);
  const auto gradient = grad(loss_of_one);
  const Array all = vmap(gradient, {std::nullopt, 0, 0})(w, xs, ys);
  REQUIRE(all.shape() == Shape{5, 4, 3});
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(distance(row(all, i), gradient(w, row(xs, i), row(ys, i))) < 1e-14);
  const auto step = vmap(value_and_grad(loss_of_one, {0, 1}), {std::nullopt, 0, 0});
  const auto [values, grads] = step(w, xs, ys);
  CHECK(values.shape() == Shape{5});
  CHECK(distance(grads[0], all) < 1e-14);
  CHECK(grads[1].shape() == Shape{5, 4});
  const auto compiled = compile(step);
  CHECK(distance(compiled(w, xs, ys).second[1], grads[1]) < 1e-14);
}

TEST_CASE("axes of vmap: from the end, one for a vector of Arrays, nested") {
  const Array a = random_array({2, 3, 5}, 4), b = random_array({5, 3}, 5);
  const auto f = [](const Array& x, const Array& y) { return std::pair(matmul(x, y), sum(y) * 2.0); };
  const auto [products, sums] = vmap(f, {-1, 0})(a, b);
  REQUIRE(products.shape() == Shape{5, 2});
  REQUIRE(sums.shape() == Shape{5});
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(distance(row(products, i), matmul(take(a, Array(i), 2), row(b, i))) < 1e-14);
    CHECK(distance(row(sums, i), sum(row(b, i)) * 2.0) < 1e-14);
  }
  const std::vector<Array> two{random_array({3, 4}, 6), random_array({3, 4}, 7)};
  const auto dot = [](const std::vector<Array>& v) { return sum(v[0] * v[1]); };
  CHECK(distance(vmap(dot)(two), sum(two[0] * two[1], 1)) < 1e-14);
  // Every pair of rows, by one vmap in another.
  const Array x = random_array({4, 3}, 8), y = random_array({6, 3}, 9);
  const auto inner = [](const Array& u, const Array& v) { return sum(u * v); };
  const Array pairs = vmap([&](const Array& u) { return vmap(inner, {std::nullopt, 0})(u, y); })(x);
  CHECK(distance(pairs, matmul(x, y.T())) < 1e-14);
  // A result that depends on no example is there for each.
  CHECK(vmap([](const Array&) { return Array(1.5); })(x).shape() == Shape{4});
}

TEST_CASE("vmap is differentiated, and keeps the gradient of Arrays that it uses from outside") {
  const Array x = random_array({5, 3}, 10), v = random_array({5, 3}, 11);
  const auto norm = [](const Array& u) { return sum(pow(u, 3) * sin(u)); };
  const auto of_all = [&](const Array& all) { return sum(vmap(norm)(all)); };
  CHECK(distance(grad(of_all)(x), grad(norm)(x)) < 1e-13);
  CHECK(distance(hvp(of_all, x, v), hvp(norm, x, v)) < 1e-13);
  CHECK(distance(jvp(of_all, x, v).second, sum(grad(norm)(x) * v)) < 1e-13);
  Array w = random_array({3}, 12);
  w.set_requires_grad();
  sum(vmap([&](const Array& u) { return tanh(u * w); })(x)).backward();
  const auto plain = [&](const Array& weights) { return sum(tanh(x * weights)); };
  CHECK(distance(*w.grad(), grad(plain)(w.detach())) < 1e-14);
  Array leaf = x.copy();
  leaf.set_requires_grad();
  sum(vmap(norm, {1})(leaf)).backward();
  CHECK(distance(*leaf.grad(), grad(norm)(x)) < 1e-13);
}

TEST_CASE("results have the examples along the axes that are asked for") {
  const Array a = random_array({5, 2, 3}, 13);
  const auto f = [](const Array& x) { return std::pair(sin(x), std::vector<Array>{x[0], sum(x)}); };
  const auto plain = vmap(f)(a);
  const auto moved = vmap(f, {0}, {2, -1})(a);
  CHECK(distance(moved.first, moveaxis(plain.first, 0, 2)) == 0);
  CHECK(distance(moved.second[0], plain.second[0].T()) == 0);
  CHECK(distance(moved.second[1], plain.second[1]) == 0);
  const auto twice = [](const Array& x) { return 2.0 * x; };
  CHECK(distance(vmap(twice, {1}, {1})(a), 2.0 * a) == 0);
  CHECK(distance(vmap(twice, {-1}, {-1})(a), 2.0 * a) == 0);
  CHECK(distance(vmap(twice, {}, {0})(a), 2.0 * a) == 0);
  CHECK(distance(compile(vmap(twice, {1}, {-1}))(a), 2.0 * swapaxes(a, 1, 2)) == 0);
  const auto energy = [&](const Array& x) { return sum(a * square(vmap(twice, {2}, {2})(x))); };
  CHECK(distance(grad(energy)(a), 8.0 * square(a)) < 1e-13);
  const auto inner = [](const Array& u, const Array& v) { return sum(u * v); };
  const Array x = random_array({4, 3}, 14), y = random_array({6, 3}, 15);
  const auto pairs = [&](const Array& u) { return vmap(inner, {std::nullopt, 0})(u, y); };
  CHECK(distance(vmap(pairs, {0}, {1})(x), matmul(y, x.T())) < 1e-14);
  CHECK(contains(error_of([&] {
                   (void)vmap(f, {0}, {0, 0, 0})(a);
                 }),
                 "[vmap] expected an axis for each of 2 results, or one for all, got 3"));
  CHECK(contains(
      error_of([&] { (void)vmap(f, {0}, {2})(a); }),
      "expected a place for the examples among the axes of f64[5,3], got 2 (Array 1 of the results)"));
  CHECK(contains(error_of([&] { (void)vmap(f, {0}, {2})(a); }), "vmap.cpp:" + std::to_string(__LINE__)));
}

TEST_CASE("a number is the axis of all arguments, or of all results") {
  const Array a = reshape(arange(24), {2, 3, 4}).to(f64);
  const auto f = [](const Array& x, const Array& y) { return std::pair(x - 2.0 * y, x); };
  const auto [plain, first] = vmap(f, {1, 1}, {0, 0})(a, a);
  const auto [numbered, second] = vmap(f, 1, 0)(a, a);
  CHECK(numbered.shape() == Shape{3, 2, 4});
  CHECK(distance(numbered, plain) == 0);
  CHECK(distance(second, first) == 0);
  const auto [last, moved] = vmap(f, -1, 1)(a, a);
  CHECK(last.shape() == Shape{2, 4, 3});
  CHECK(distance(last, moveaxis(a - 2.0 * a, 2, 1)) == 0);
  CHECK(distance(moved, moveaxis(a, 2, 1)) == 0);
  const auto twice = [](const Array& x) { return 2.0 * x; };
  CHECK(distance(vmap(twice, 0)(a), 2.0 * a) == 0);
  CHECK(distance(vmap(twice, 2, {-1})(a), 2.0 * a) == 0);
  const std::vector<std::optional<int>> axes{1};
  CHECK(distance(vmap(twice, axes, 1)(a), 2.0 * a) == 0);
  CHECK(contains(error_of([&] { (void)vmap(twice, 3)(a); }), "got 3 for f64[2,3,4] (Array 0"));
  CHECK(contains(error_of([&] { (void)vmap(f, 1, 3)(a, a); }), "got 3 (Array 0 of the results)"));
}

TEST_CASE("misuse of vmap") {
  const auto twice = [](const Array& x) { return 2.0 * x; };
  const auto both = [](const Array& x, const Array& y) { return x + y; };
  const Array three = array({1.0, 2.0, 3.0}), two = array({1.0, 2.0});
  CHECK(
      contains(error_of([&] { vmap(twice)(Array(1.0)); }), "expected an axis to map over, got 0 for f64[]"));
  CHECK(contains(error_of([&] { vmap(twice, {2})(three); }), "got 2 for f64[3] (Array 0"));
  CHECK(contains(error_of([&] { vmap(both)(three, two); }), "got 3 in f64[3] and 2 in f64[2]"));
  CHECK(contains(error_of([&] { vmap(both, {0})(three, three); }), "for each of 2 arguments, got 1"));
  CHECK(contains(error_of([&] { vmap(twice, {std::nullopt})(three); }), "to map over, got none"));
  CHECK(contains(error_of([&] { vmap([](const Array& x) { return x.item() > 0 ? x : -x; })(three); }),
                 "where()"));
  CHECK(distance(vmap(twice)(three), 2.0 * three) == 0);  // after all that
}

}  // namespace
}  // namespace tidu::test
