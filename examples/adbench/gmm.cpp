// gmm.cpp - the Gaussian mixture in the form in which nearly all of its work is one matrix product: all
// factors Q_k at once, [K D, D], times points. Points are taken block by block, objective and gradient added
// up, so that temporaries stay small however many there are.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <optional>
#include <tidu/graph/builder.hpp>
#include <tidu/linearize/transforms.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>

#include "common/text_reader.hpp"
#include "problem.hpp"

namespace adbench {
namespace {

using namespace tidu;

// Where in a row [exp q, l] the element [i, j] of Q lies. What is above the diagonal lies behind its end,
// where take(…, "drop") reads zeros.
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

// What does not depend on the points. Inputs, all f64: alpha [K], mu [K,D], icf [K,D(D+1)/2], gamma [], m [].
// Outputs: Q [K,D,D]; Q_k mu_k [K,D]; alpha_k + sum_d q_kd [K]; and L without the sum over points.
Graph components(const Sizes& sizes) {
  const auto [D, K, N] = sizes;
  GraphBuilder g("components");
  const std::int64_t P = D * (D + 1) / 2;
  const Value alpha = g.input("alpha", {f64, {K}});
  const Value mu = g.input("mu", {f64, {K, D}});
  const Value icf = g.input("icf", {f64, {K, P}});
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

  const Value wishart = number(0.5) * ops::square(gamma) * ops::reduce_sum(ops::square(entries), {0, 1}) -
                        m * ops::reduce_sum(sum_q, {0}) -
                        number(static_cast<double>(K)) * log_normalizer(g, D, gamma, m);
  const auto points = static_cast<double>(N);
  const double constant = -0.5 * points * static_cast<double>(D) * std::log(2 * std::numbers::pi);
  const Value rest = number(constant) - number(points) * ops::logsumexp(alpha, {0}) + wishart;
  return g.build({Q, Qmu, alpha + sum_q, rest});
}

// sum_n logsumexp_k(a_nk) over `count` of the points. Inputs: the first three outputs of `components`, and
// x [count,D].
Graph fit(const Sizes& sizes, std::int64_t count) {
  const auto [D, K, N] = sizes;
  GraphBuilder g("fit");
  const Value Q = g.input("Q", {f64, {K, D, D}});
  const Value Qmu = g.input("Qmu", {f64, {K, D}});
  const Value weights = g.input("weights", {f64, {K}});
  const Value x = g.input("x", {f64, {count, D}});

  // y_nk = Q_k x_n - Q_k mu_k                                                                  [count, K, D]
  const Value Qx = ops::dot_general(x, Q, {.lhs_contracting = {1}, .rhs_contracting = {2}});
  const Value y = Qx - ops::broadcast_in_dim(Qmu, {count, K, D}, {1, 2});
  const Value distance = ops::reduce_sum(ops::square(y), {2});  // [count, K]
  const Value a = ops::broadcast_in_dim(weights, {count, K}, {1}) - distance * ops::full_like(distance, 0.5);
  return g.build({ops::reduce_sum(ops::logsumexp(a, {1}), {0})});
}

// How many points are taken at once, so that [points,K,D] stays in a cache.
std::int64_t points_at_once(const Sizes& sizes) {
  constexpr std::int64_t elements = 1 << 17, least = 64;
  const std::int64_t most = std::max(least, elements / (sizes.D * sizes.K));
  const std::int64_t blocks = (sizes.N + most - 1) / most;
  return (sizes.N + blocks - 1) / blocks;
}

// The sum over all blocks of points of the outputs of f(count), each a call with `parts` and a block of x.
std::vector<Value> sum_over_points(Value x, const Sizes& sizes, std::span<const Value> parts,
                                   const std::function<Graph(std::int64_t)>& f) {
  std::vector<Value> sums;
  std::optional<Graph> graph;
  const std::int64_t at_once = points_at_once(sizes);
  for (std::int64_t first = 0; first < sizes.N; first += at_once) {
    const std::int64_t last = std::min(first + at_once, sizes.N);
    if (first == 0 || last - first != at_once) graph = f(last - first);
    std::vector<Value> operands(parts.begin(), parts.end());
    operands.push_back(ops::slice(x, {first, 0}, {last, sizes.D}));
    const Values results = ops::call(*graph, operands);
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (first == 0)
        sums.push_back(results[k]);
      else
        sums[k] = sums[k] + results[k];
    }
  }
  return sums;
}

// Inputs: alpha, mu, icf, x [N,D], gamma, m. Output: L, or its gradient by alpha, mu and icf. L is a sum over
// points of functions of `components`, so its gradient there is the sum of theirs, and the VJP of
// `components` takes it from there: what is kept of a point is needed no longer than its block.
Graph log_posterior(const Sizes& sizes, bool gradient) {
  const auto [D, K, N] = sizes;
  GraphBuilder g("gmm");
  const Value alpha = g.input("alpha", {f64, {K}});
  const Value mu = g.input("mu", {f64, {K, D}});
  const Value icf = g.input("icf", {f64, {K, D * (D + 1) / 2}});
  const Value x = g.input("x", {f64, {N, D}});
  std::vector<Value> in{alpha, mu, icf, g.input("gamma", f64), g.input("m", f64)};

  const Graph parts = components(sizes);
  std::vector<Value> out;
  const std::vector<Value> values = inline_graph(g, parts, in);
  for (const ValueId id : parts.outputs()) out.push_back(values[id]);
  const std::span<const Value> of_points = std::span(out).first(3);
  if (!gradient) {
    const auto sum = sum_over_points(x, sizes, of_points, [&](std::int64_t n) { return fit(sizes, n); });
    return g.build({sum[0] + out[3]});
  }
  const std::vector<Value> cotangents = sum_over_points(x, sizes, of_points, [&](std::int64_t n) {
    return grad(fit(sizes, n), {"Q", "Qmu", "weights"});
  });
  in.insert(in.end(), cotangents.begin(), cotangents.end());
  in.push_back(ops::full(g, f64, 1));
  const Graph back = vjp(parts, {"alpha", "mu", "icf"});
  const std::vector<Value> all = inline_graph(g, back, in);
  std::vector<Value> gradients;
  for (const ValueId id : back.outputs().subspan(out.size())) gradients.push_back(all[id]);
  return g.build(gradients);
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

  const Sizes sizes{D, K, N};
  return {.name = "GMM",
          .dims = {{"d", D}, {"k", K}, {"n", N}},
          .objective = log_posterior(sizes, false),
          .derivative = log_posterior(sizes, true),
          .inputs = {alpha, mu, icf, x, gamma, m},
          .key = "gradient"};
}

}  // namespace adbench
