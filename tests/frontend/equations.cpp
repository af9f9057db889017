// equations.cpp - solve, inv, det and slogdet, whose derivatives are rules of their own, against the same
// functions written with lu and solve_triangular, which are differentiated through the factors.
#include "support.hpp"

namespace tidu::test {
namespace {

Array far_from_singular(const Shape& shape, unsigned seed) {
  return random_array(shape, seed) + 3.0 * eye(shape.back());
}

// The solution for one matrix, by its factors.
Array solution_by_factors(const Array& a, const Array& b) {
  const auto [factors, pivots, permutation] = linalg::lu(a);
  const Array y =
      linalg::solve_triangular(factors, take(b, permutation, 0), {.lower = true, .unit_diagonal = true});
  return linalg::solve_triangular(factors, y);
}
Array inverse_by_factors(const Array& a) { return solution_by_factors(a, eye(a.shape()[0]).to(a.dtype())); }
Array logarithm_by_factors(const Array& a) { return sum(log(abs(diagonal(std::get<0>(linalg::lu(a)))))); }

// f and g are the same function: so are the gradients of <f, w>, their own along a direction in both modes,
// and those of rows.
void check_same(const char* name, const Function& f, const Function& g, const Array& at) {
  CAPTURE(name);
  const Array w = random_array(f(at).shape(), 71), v = random_array(at.shape(), 72);
  const auto scalar = [w](const Function& h) {
    return [w, h](const Array& x) { return sum(w * h(x)) + sum(square(h(x))); };
  };
  const auto of_f = scalar(f), of_g = scalar(g);
  CHECK(distance(f(at), g(at)) < 1e-12);
  CHECK(distance(grad(of_f)(at), grad(of_g)(at)) < 1e-10);
  CHECK(distance(jvp(f, at, v).second, jvp(g, at, v).second) < 1e-10);
  CHECK(distance(hvp(of_f, at, v), hvp(of_g, at, v)) < 1e-8);
  const auto along = [v](const auto& h) { return [v, h](const Array& x) { return sum(grad(h)(x) * v); }; };
  CHECK(distance(grad(along(of_f))(at), grad(along(of_g))(at)) < 1e-8);
  const auto third = [v, along](const auto& h) { return grad(along(along(h))); };
  CHECK(distance(third(of_f)(at), third(of_g)(at)) < 1e-6);
  const Array many = stack(std::vector{at, at + 0.1 * v, at - 0.2 * v});
  CHECK(distance(vmap(grad(of_f))(many), vmap(grad(of_g))(many)) < 1e-10);
  CHECK(distance(compile(grad(of_f))(at), grad(of_g)(at)) < 1e-10);
  Array x = leaf(at);
  of_f(x).backward();
  CHECK(distance(*x.grad(), grad(of_g)(at)) < 1e-10);
}

// A complex matrix of a real one, and a real function of it.
Array complexified(const Array& x) { return complex(x, sin(x) + 0.3 * x.T()); }
Array size_of_parts(const Array& z) { return square(real(z)) + 2 * imag(z); }

}  // namespace

TEST_CASE("derivatives of equations are those of the factors, in every mode and order") {
  const Array a = far_from_singular({4, 4}, 81), b = random_array({4, 3}, 82), u = random_array({5, 5}, 83);
  check_same(
      "solve, matrix", [&](const Array& x) { return linalg::solve(x, b); },
      [&](const Array& x) { return solution_by_factors(x, b); }, a);
  check_same(
      "solve, sides", [&](const Array& x) { return linalg::solve(a, x); },
      [&](const Array& x) { return solution_by_factors(a, x); }, b);
  check_same(
      "solve, both", [&](const Array& x) { return linalg::solve(x, sin(x)); },
      [&](const Array& x) { return solution_by_factors(x, sin(x)); }, a);
  check_same(
      "inv", [](const Array& x) { return linalg::inv(x); }, inverse_by_factors, a);
  check_same(
      "det", [](const Array& x) { return linalg::det(x); },
      [](const Array& x) { return linalg::slogdet(x).first * exp(logarithm_by_factors(x)); }, u);
  check_same(
      "slogdet", [](const Array& x) { return linalg::slogdet(x).second; }, logarithm_by_factors, u);
}

TEST_CASE("derivatives of complex equations are those of the factors") {
  const Array a = far_from_singular({4, 4}, 84);
  check_same(
      "solve", [](const Array& x) { return size_of_parts(linalg::solve(complexified(x), x)); },
      [](const Array& x) { return size_of_parts(solution_by_factors(complexified(x), x.to(c128))); }, a);
  check_same(
      "inv", [](const Array& x) { return size_of_parts(linalg::inv(complexified(x))); },
      [](const Array& x) { return size_of_parts(inverse_by_factors(complexified(x))); }, a);
  const auto from_logarithm = [](const Array& x) {
    const auto [sign, logarithm] = linalg::slogdet(complexified(x));
    return size_of_parts(sign * exp(logarithm));
  };
  check_same(
      "det", [](const Array& x) { return size_of_parts(linalg::det(complexified(x))); }, from_logarithm,
      0.3 * a);
  const auto of_columns = [](const Array& x) {  // along the first column, of which a determinant is linear
    const Array z = complexified(x), cofactors = linalg::inv(z)[0] * linalg::det(z);
    return size_of_parts(sum(cofactors * z.T()[0]));
  };
  check_same(
      "det by cofactors", [](const Array& x) { return size_of_parts(linalg::det(complexified(x))); },
      of_columns, 0.3 * a);
}

TEST_CASE("equations of batches, vectors and no rows have gradients") {
  const Array a = far_from_singular({2, 3, 3}, 85), b = random_array({3, 2}, 86), v = random_array({3}, 87);
  const auto loss = [](const Array& m, const Array& s) { return sum(square(linalg::solve(m, s))); };
  for (const Array& sides : {b, v}) {
    const auto whole = grad(loss, {0, 1})(a, sides);
    Array total = zeros(sides.shape());
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto one = grad(loss, {0, 1})(a[i], sides);
      CHECK(distance(whole[0][i], one[0]) < 1e-12);
      total = total + one[1];
    }
    CHECK(distance(whole[1], total) < 1e-12);
  }
  const auto one_for_all = grad([&](const Array& m) {
    return loss(m, stack(std::vector{b, 2.0 * b}));
  })(a[0]);
  CHECK(distance(one_for_all, 5.0 * grad([&](const Array& m) { return loss(m, b); })(a[0])) < 1e-12);
  const Array none = zeros({2, 0, 0});
  CHECK(grad([](const Array& m) { return sum(linalg::inv(m)); })(none).shape() == Shape{2, 0, 0});
  CHECK(grad([](const Array& m) { return sum(linalg::det(m)); })(none).shape() == Shape{2, 0, 0});
  const Array gradient = grad([](const Array& m) { return sum(linalg::inv(m)); })(zeros({4, 4}));
  CHECK_FALSE(std::isfinite(elements(gradient)[0]));
}

}  // namespace tidu::test
