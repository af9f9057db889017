// objective.hpp - the objective of ADBench's Gaussian mixture as a graph.
#pragma once

#include <cstdint>
#include <tidu/graph/graph.hpp>

namespace gmm {

/// The log-posterior of K Gaussians in D dimensions given N points, with ADBench's signs:
///
///   L = -N D/2 ln(2 pi) + sum_n logsumexp_k(a_nk) - N logsumexp(alpha) + W,
///   a_nk = alpha_k + sum_d q_kd - |Q_k (x_n - mu_k)|^2 / 2,
///
/// where Q_k is lower triangular with diagonal exp(q_k) and, below it, column by column, l_k; row k of icf is
/// q_k, then l_k. W is the term of the Wishart prior with scale gamma and excess m.
/// Inputs, all f64: alpha [K], mu [K,D], icf [K,D(D+1)/2], x [N,D], gamma [], m []. Output: L, a scalar.
tidu::Graph objective(std::int64_t D, std::int64_t K, std::int64_t N);

}  // namespace gmm
