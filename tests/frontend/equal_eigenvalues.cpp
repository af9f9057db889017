// equal_eigenvalues.cpp - derivatives of eigh and svd if eigenvalues or singular values are equal or zero:
// functions that do not depend on the basis that the library chose have the derivatives of the closed form,
// in forward and reverse mode, and nothing is infinite or NaN.
#include <complex>

#include "frontend/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

Array symmetric(const Array& x) { return 0.5 * (x + x.T()); }
Array diagonal_matrix(const std::vector<double>& d) {
  const auto n = static_cast<std::int64_t>(d.size());
  return eye(n) * array(d, {n});
}

// The gradient in reverse mode and by directions, and of second order the Hessian in both orders of modes.
void check_both(const Function& f, const Array& x, const Array& gradient) {
  CHECK(distance(grad(f)(x), gradient) < 1e-14);
  CHECK(distance(jacfwd(f)(x), gradient) < 1e-14);
}
void check_hessian(const Function& f, const Array& x, const Array& direction, const Array& product) {
  const Function along = [&](const Array& a) { return sum(grad(f)(a) * direction); };
  CHECK(distance(hvp(f, x, direction), product) < 1e-14);
  CHECK(distance(grad(along)(x), product) < 1e-14);
  CHECK(distance(jvp(grad(f), x, direction).second, product) < 1e-14);
}
bool all_finite(const Array& x) {
  for (const double e : elements(x)) {
    if (!std::isfinite(e)) return false;
  }
  return true;
}

// Σ f(w) by the matrix, so that vectors take part.
Array trace_of(Array (*f)(const Array&), const Array& x) {
  const auto [w, v] = linalg::eigh(x);
  return sum(diagonal(matmul(v * f(w), v.T())));
}
Array exp_of(const Array& x) { return exp(x); }
Array squares_of(const Array& x) { return square(x); }

// U Vᴴ, the orthogonal factor of the polar decomposition
Array polar(const Array& x) {
  const auto [u, s, vh] = linalg::svd(x);
  return matmul(u, vh);
}

}  // namespace

// P = v vᵀ of the vector of 4 in diag(4, 1, 1): dP_0j = dP_j0 = (dM_0j + dM_j0) / 2 / (4 - 1), j = 1, 2.
TEST_CASE("the projector of a simple eigenvalue beside equal ones, and that of the equal ones") {
  const Array m = diagonal_matrix({4, 1, 1}), weights = random_array({3, 3}, 1);
  const Function simple = [&](const Array& x) {
    const Array v = linalg::eigh(x).second[{{}, 2}];
    return sum(outer(v, v) * weights);
  };
  const Function pair = [&](const Array& x) {
    const Array v = linalg::eigh(x).second[{{}, {0, 2}}];
    return sum(matmul(v, v.T()) * weights);
  };
  const Array beside = array({{0.0, 1.0, 1.0}, {1.0, 0.0, 0.0}, {1.0, 0.0, 0.0}});
  const Array expected = symmetric(weights) * beside / 3.0;
  check_both(simple, m, expected);
  check_both(pair, m, -expected);
}

// tr f(M): gradient f'(M), which is diagonal here.
TEST_CASE("traces of functions of matrices with equal eigenvalues") {
  for (const std::vector<double>& d : {std::vector<double>{1, 1}, {0, 0, 0}, {2, 5, 2}, {-1, -1, 3, 3}}) {
    const Array m = diagonal_matrix(d);
    std::vector<double> slopes(d.size());
    std::transform(d.begin(), d.end(), slopes.begin(), [](double x) { return std::exp(x); });
    check_both([](const Array& x) { return trace_of(exp_of, x); }, m, diagonal_matrix(slopes));
    check_both([](const Array& x) { return sum(exp(linalg::eigh(x).first)); }, m, diagonal_matrix(slopes));
    check_both([](const Array& x) { return trace_of(squares_of, x); }, m, 2.0 * m);
  }
}

// Σ w² = tr S², S the symmetric part: the Hessian takes V to 2 (V + Vᵀ)/2. For vectors of equal eigenvalues
// only the diagonal is known, for others all.
TEST_CASE("second derivatives of sums over eigenvalues of which some are equal") {
  const auto squares = [](const Array& x) { return sum(square(linalg::eigh(x).first)); };
  const Array v = random_array({3, 3}, 2);
  check_hessian(squares, eye(3), v * eye(3), 2.0 * v * eye(3));
  const Array known = array({{1.0, 1.0, 1.0}, {1.0, 1.0, 0.0}, {1.0, 0.0, 1.0}});
  check_hessian(squares, diagonal_matrix({4, 1, 1}), v * known, 2.0 * symmetric(v * known));
  for (const Array& m : {eye(3), zeros({3, 3}), diagonal_matrix({1, 2, 1})}) {
    CHECK(all_finite(hessian(squares)(m)));
    CHECK(distance(hessian(squares)(m), jacrev(grad(squares))(m)) == 0);
  }
}

TEST_CASE("complex matrices with equal eigenvalues") {
  using c = std::complex<double>;
  // [[2, i], [-i, 2]] beside 3 and 7: eigenvalues 1, 3, 3, 7.
  const Array m = complex(
      array({{2.0, 0.0, 0.0, 0.0}, {0.0, 2.0, 0.0, 0.0}, {0.0, 0.0, 3.0, 0.0}, {0.0, 0.0, 0.0, 7.0}}),
      array({{0.0, 1.0, 0.0, 0.0}, {-1.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}}));
  const auto f = [](const Array& x) {
    const auto [w, v] = linalg::eigh(x);
    return real(sum(diagonal(matmul(v * exp(w).to(c128), conj(v).T()))));
  };
  // exp of the first block: e (1, -i; i, 1)/2 + e³ (1, i; -i, 1)/2
  const double p = (std::exp(1) + std::exp(3)) / 2, q = (std::exp(3) - std::exp(1)) / 2;
  const Array gradient = grad(f)(m);
  CHECK(std::abs(gradient[0][0].tensor().at(0) - c(p)) < 1e-12);
  CHECK(std::abs(gradient[0][1].tensor().at(0) - c(0, q)) < 1e-12);
  CHECK(std::abs(gradient[1][0].tensor().at(0) - c(0, -q)) < 1e-12);
  CHECK(std::abs(gradient[2][2].tensor().at(0) - c(std::exp(3))) < 1e-12);
  CHECK(std::abs(gradient[3][3].tensor().at(0) - c(std::exp(7))) < 1e-9);
  CHECK(std::abs(gradient[1][2].tensor().at(0)) < 1e-12);
}

// At U Vᴴ = Q and singular values s, all equal, d(U Vᴴ) = Q K / s with K the skew part of Qᵀ dx, by every
// choice of vectors; the Hessian of the nuclear norm, whose gradient is U Vᴴ, is the same.
TEST_CASE("polar factors and the nuclear norm where singular values are equal") {
  const Array q = array({{0.0, 0.0, -1.0}, {1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}), v = random_array({3, 3}, 3);
  const auto nuclear = [](const Array& x) { return sum(std::get<1>(linalg::svd(x))); };
  const auto change = [&](const Array& dx) {
    return matmul(q, 0.5 * (matmul(q.T(), dx) - matmul(q.T(), dx).T()));
  };
  for (const double s : {1.0, 4.0, 0x1p-600, 0x1p600}) {
    check_both(nuclear, s * q, q);
    CHECK(distance(jvp(polar, s * q, s * v).second, change(v)) < 1e-14);
    const Function weighted = [&](const Array& x) { return sum(polar(x) * v); };
    CHECK(distance(s * grad(weighted)(s * q), change(v)) < 1e-14);
    CHECK(distance(jvp(grad(nuclear), s * q, s * v).second, change(v)) < 1e-14);
    check_hessian(nuclear, s * q, s * v, change(v));
  }
}

// Σ s² = ‖x‖²: gradient 2 x.
TEST_CASE("sums of squares of singular values that are equal or zero") {
  const auto squares = [](const Array& x) { return sum(square(std::get<1>(linalg::svd(x)))); };
  const auto composed = [](const Array& x) {
    const auto [u, s, vh] = linalg::svd(x);
    return sum(square(matmul(u * s, vh)));
  };
  for (const Array& x : {zeros({3, 3}), zeros({4, 2}), zeros({2, 3}), eye(3), ones({3, 2}),
                         diagonal_matrix({2, 0, 2}), concatenate({eye(2), zeros({2, 2})}, 0)}) {
    check_both(squares, x, 2.0 * x);
    CHECK(all_finite(hessian(squares)(x)));
    CHECK(distance(hessian(squares)(x), jacrev(grad(squares))(x)) < 1e-12);
    CHECK(all_finite(grad(composed)(x)));
    CHECK(distance(grad(composed)(x), jacfwd(composed)(x)) < 1e-12);
  }
  const Array x = diagonal_matrix({3, 2, 0});
  check_both(composed, x, 2.0 * x);
}

TEST_CASE("vectors of a matrix of zeros, and of none, have finite derivatives") {
  for (const Shape& shape : {Shape{2, 2}, Shape{3, 2}, Shape{2, 3}, Shape{0, 0}, Shape{0, 2}, Shape{2, 0}}) {
    const Array weights = random_array(shape, 5);
    const auto f = [&](const Array& x) { return sum(polar(x) * weights); };
    CHECK(grad(f)(zeros(shape)).shape() == shape);
    CHECK(all_finite(grad(f)(zeros(shape))));
  }
  CHECK(distance(grad([](const Array& x) { return sum(linalg::eigh(x).second); })(zeros({2, 2})),
                 zeros({2, 2})) == 0);
}
