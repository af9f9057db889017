// problem.hpp - one instance of the mixture in ADBench's text format, and the values that are known for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <tidu/tensor/tensor.hpp>
#include <vector>

namespace gmm {

/// Sizes and inputs, as `objective` takes them.
struct Problem {
  std::int64_t D = 0, K = 0, N = 0;
  tidu::Tensor alpha, mu, icf, x, gamma, m;
  std::vector<tidu::Tensor> inputs() const { return {alpha, mu, icf, x, gamma, m}; }
};

/// Reads a file of numbers: D K N, alpha, mu, icf, x, gamma and m. Throws std::runtime_error, naming the
/// file, when it cannot be read, has too few or too many numbers, or sizes that no memory holds.
Problem read_problem(const std::filesystem::path& file);

/// Objective and gradient by alpha, mu and icf, one after another, as ADBench's own module computes them.
struct Expected {
  double objective = 0;
  std::vector<double> gradient;
};

/// Reads reference values (JSON, keys dims, objective, gradient). Throws std::runtime_error when they are not
/// those of a problem of these sizes.
Expected read_expected(const std::filesystem::path& file, const Problem& problem);

}  // namespace gmm
