// gmm.cpp - ADBench's Gaussian mixture, written plainly: one matmul of all points with all factors, no
// blocks.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <tidu/frontend/functions.hpp>
#include <tidu/frontend/trace.hpp>
#include <tidu/linearize/transforms.hpp>

#include "bounds.hpp"
#include "common/text_reader.hpp"
#include "workload.hpp"

namespace workloads {
namespace {

using namespace tidu;

struct Problem {
  std::int64_t D, K, N;
  std::vector<Tensor> inputs;  // alpha, mu, icf, x, gamma, m
};

Problem read(const std::filesystem::path& file) {
  examples::TextReader in(file);
  const std::int64_t D = in.integer("the number of dimensions", 1, 10'000);
  const std::int64_t K = in.integer("the number of components", 1, 1'000'000);
  const std::int64_t N = in.integer("the number of points", 1, 100'000'000);
  Problem problem{D, K, N, {}};
  problem.inputs.push_back(in.numbers({K}, "the log weights"));
  problem.inputs.push_back(in.numbers({K, D}, "the means"));
  problem.inputs.push_back(in.numbers({K, D * (D + 1) / 2}, "the inverse covariance factors"));
  problem.inputs.push_back(in.numbers({N, D}, "the points"));
  problem.inputs.push_back(in.numbers({}, "gamma of the prior"));
  problem.inputs.push_back(in.numbers({}, "m of the prior"));
  return problem;
}

// The position of element [i, j] of the lower triangular Q in a row [exp q, l, 0].
Array places_in_triangle(std::int64_t D) {
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < D; ++i) {
    for (std::int64_t j = 0; j < D; ++j) {
      const std::int64_t below = D + j * D - j * (j + 1) / 2 + (i - j - 1);
      places.push_back(static_cast<std::int32_t>(i == j ? i : i > j ? below : D * (D + 1) / 2));
    }
  }
  return array(places, {D, D});
}

// See examples/adbench/gmm.cpp for the formula.
Array log_posterior(const Array& alpha, const Array& mu, const Array& icf, const Array& x, const Array& gamma,
                    const Array& m) {
  const std::int64_t K = mu.shape(0), D = mu.shape(1), N = x.shape(0);
  const auto d = static_cast<double>(D), n = static_cast<double>(N), k = static_cast<double>(K);
  const Array q = icf.slice({{}, {0, D}}), l = icf.slice({{}, {D, std::nullopt}}), sum_q = sum(q, 1);
  const Array entries = concatenate({exp(q), l}, 1);
  const Array Q = take(concatenate({entries, zeros({K, 1})}, 1), places_in_triangle(D), 1);  // [K,D,D]

  const Array y = einsum("nj,kij->nki", {x, Q}) - einsum("kij,kj->ki", {Q, mu});
  const Array fit = sum(logsumexp(alpha + sum_q - 0.5 * sum(square(y), 2), 1));

  const Array nu = m + (d + 1);
  const Array log_gammas =
      sum(lgamma(0.5 * (nu - arange(D, f64)))) + 0.25 * d * (d - 1) * std::log(std::numbers::pi);
  const Array normalizer = nu * d * (log(gamma) - 0.5 * std::numbers::ln2) - log_gammas;
  const Array wishart = 0.5 * square(gamma) * sum(square(entries)) - m * sum(sum_q) - k * normalizer;
  return fit - 0.5 * n * d * std::log(2 * std::numbers::pi) - n * logsumexp(alpha) + wishart;
}

Workload make(const std::string& name, bool derivative, const Setting& setting) {
  const Problem problem = read(setting.inputs / (name + ".txt"));
  const std::vector<Tensor>& in = problem.inputs;
  const Graph objective = trace(log_posterior, in[0].type(), in[1].type(), in[2].type(), in[3].type(),
                                in[4].type(), in[5].type());
  Workload workload =
      of_graph(derivative ? grad(objective, {"x0", "x1", "x2"}) : objective, problem.inputs, setting);
  workload.bounds =
      matmuls_in_blocks(problem.N, problem.D, problem.K * problem.D, derivative, setting.threads);
  return workload;
}

}  // namespace

void add_gmm(Registry& registry) {
  for (const char* sizes : {"1k_d2_K5", "1k_d10_K25", "1k_d20_K50", "1k_d32_K25", "1k_d64_K50", "1k_d128_K25",
                            "10k_d32_K25", "10k_d32_K200", "10k_d64_K200", "10k_d128_K25"}) {
    const std::string name = std::string("gmm_") + sizes;
    registry[name + "/objective"] = [name](const Setting& setting) { return make(name, false, setting); };
    registry[name + "/derivative"] = [name](const Setting& setting) { return make(name, true, setting); };
  }
}

}  // namespace workloads
