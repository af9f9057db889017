// gmm.cpp - the Gaussian mixture in the form in which nearly all of its work is one matmul: all factors Q_k
// at once, [K D, D], times all points. The program takes the points block by block, so that temporaries stay
// small however many there are.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <tidu/graph/builder.hpp>
#include <tidu/linearize/transforms.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>

#include "common/text_reader.hpp"
#include "problem.hpp"

namespace adbench {
namespace {

using namespace tidu;

// The position of element [i, j] of Q in a row [exp q, l]. Positions of elements above the diagonal are
// beyond its end, where take(…, "drop") reads zeros.
Literal places_in_triangle(std::int64_t D) {
  const std::int64_t behind = D * (D + 1) / 2;
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < D; ++i) {
    for (std::int64_t j = 0; j < D; ++j) {
      const std::int64_t below = D + j * D - j * (j + 1) / 2 + (i - j - 1);
      places.push_back(static_cast<std::int32_t>(i == j ? i : i > j ? below : behind));
    }
  }
  return Literal::of<std::int32_t>(Type(i32, {D, D}), places);
}

// C of the Wishart term: nu D (ln gamma - ln(2)/2) - lnGamma_D(nu/2), nu = D + m + 1, where lnGamma_D is the
// logarithm of the multivariate gamma function.
Value log_normalizer(GraphBuilder& g, std::int64_t D, Value gamma, Value m) {
  const auto number = [&g](double value) { return ops::full(g, f64, value); };
  const auto d = static_cast<double>(D);
  const Value nu = m + number(d + 1);
  const Value j = ops::iota(g, Type(f64, {D}), 0);  // 0 … D-1
  const Value arguments = ops::broadcast_scalar(nu, {D}) - j;
  const Value log_gammas = ops::reduce_sum(ops::lgamma(arguments * ops::full_like(arguments, 0.5)), {0});
  return nu * number(d) * (ops::log(gamma) - number(0.5 * std::numbers::ln2)) -
         (number(0.25 * d * (d - 1) * std::log(std::numbers::pi)) + log_gammas);
}

// The log-posterior of K Gaussians in D dimensions given N points, with ADBench's signs:
//
//   L = -N D/2 ln(2 pi) + sum_n logsumexp_k(a_nk) - N logsumexp(alpha) + W,
//   a_nk = alpha_k + sum_d q_kd - |Q_k (x_n - mu_k)|^2 / 2,
//
// where Q_k is lower triangular with diagonal exp(q_k) and, below it, column by column, l_k; row k of icf is
// q_k, then l_k. W is the term of the Wishart prior with scale gamma and excess m.
struct Sizes {
  std::int64_t D, K, N;
};

// Inputs, all f64: alpha [K], mu [K,D], icf [K,D(D+1)/2], x [N,D], gamma [], m []. Output: L.
Graph log_posterior(const Sizes& sizes) {
  const auto [D, K, N] = sizes;
  GraphBuilder g("gmm");
  const std::int64_t P = D * (D + 1) / 2;
  const Value alpha = g.input("alpha", {f64, {K}});
  const Value mu = g.input("mu", {f64, {K, D}});
  const Value icf = g.input("icf", {f64, {K, P}});
  const Value x = g.input("x", {f64, {N, D}});
  const Value gamma = g.input("gamma", f64);
  const Value m = g.input("m", f64);
  const auto number = [&g](double value) { return ops::full(g, f64, value); };

  const Value q = ops::slice(icf, {0, 0}, {K, D});
  const Value l = ops::slice(icf, {0, D}, {K, P});
  const Value entries = ops::concatenate(std::array{ops::exp(q), l}, 1);
  const Value Q = ops::take(entries, ops::constant(g, places_in_triangle(D)), 1, "drop");  // [K, D, D]
  const Value Qmu = ops::dot_general(
      Q, mu, {.lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}});
  const Value sum_q = ops::reduce_sum(q, {1});  // [K]

  // y_nk = Q_k x_n - Q_k mu_k                                                                      [N, K, D]
  const Value Qx = ops::dot_general(x, Q, {.lhs_contracting = {1}, .rhs_contracting = {2}});
  const Value y = Qx - ops::broadcast_in_dim(Qmu, {N, K, D}, {1, 2});
  const Value distance = ops::reduce_sum(ops::square(y), {2});  // [N, K]
  const Value a =
      ops::broadcast_in_dim(alpha + sum_q, {N, K}, {1}) - distance * ops::full_like(distance, 0.5);
  const Value fit = ops::reduce_sum(ops::logsumexp(a, {1}), {0});

  const Value wishart = number(0.5) * ops::square(gamma) * ops::reduce_sum(ops::square(entries), {0, 1}) -
                        m * ops::reduce_sum(sum_q, {0}) -
                        number(static_cast<double>(K)) * log_normalizer(g, D, gamma, m);
  const auto points = static_cast<double>(N);
  const double constant = -0.5 * points * static_cast<double>(D) * std::log(2 * std::numbers::pi);
  return g.build({fit + number(constant) - number(points) * ops::logsumexp(alpha, {0}) + wishart});
}

Tensor repeat_row(const Tensor& row, std::int64_t times) {
  const std::span<const double> from = row.elements<double>();
  Tensor rows(Type(f64, {times, row.dim(1)}));
  double* to = rows.mutable_data<double>();
  for (std::int64_t i = 0; i < times; ++i) to = std::copy(from.begin(), from.end(), to);
  return rows;
}

}  // namespace

Problem read_gmm(const std::filesystem::path& file, bool replicate) {
  examples::TextReader in(file);
  const std::int64_t D = in.integer("the number of dimensions", 1, 10'000);
  const std::int64_t K = in.integer("the number of components", 1, 1'000'000);
  const std::int64_t N = in.integer("the number of points", 1, 100'000'000);
  Tensor alpha = in.numbers({K}, "the log weights");
  Tensor mu = in.numbers({K, D}, "the means");
  Tensor icf = in.numbers({K, D * (D + 1) / 2}, "the inverse covariance factors");
  Tensor x = in.numbers({replicate ? 1 : N, D}, "the points");
  if (replicate) x = repeat_row(x, N);
  Tensor gamma = in.numbers({}, "gamma of the prior");
  Tensor m = in.numbers({}, "m of the prior");
  in.end("m of the prior");

  const Graph objective = log_posterior({D, K, N});
  return {.name = "GMM",
          .dims = {{"d", D}, {"k", K}, {"n", N}},
          .objective = objective,
          .derivative = grad(objective, {"alpha", "mu", "icf"}),
          .inputs = {alpha, mu, icf, x, gamma, m},
          .key = "gradient"};
}

}  // namespace adbench
