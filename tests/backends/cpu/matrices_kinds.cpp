// matrices_kinds.cpp - kinds of matrices for tests of decompositions: structured, singular, graded, badly
// conditioned, with equal singular values, and those on which methods were known to fail.
#include <bit>
#include <cmath>

#include "cpu/matrices.hpp"

namespace tidu::test {
namespace {

using Size = std::int64_t;
using Random = MatrixRandom;

double normal(Random& random) { return std::normal_distribution<double>()(random); }
Size below(Size n, Random& random) { return std::uniform_int_distribution<Size>(0, n - 1)(random); }
double real(Size i) { return static_cast<double>(i); }
double if_(bool condition, double x) { return condition ? x : 0.0; }
double parity(Size i, Size j) {
  return std::popcount(static_cast<std::uint64_t>(i & j)) % 2 == 0 ? 1.0 : -1.0;
}
double cosine(Size i, Size j, Size n) {  // of an orthogonal matrix, where it is square
  const double scale = std::sqrt((i == 0 ? 1.0 : 2.0) / real(n));
  return scale * std::cos(M_PI * real(i) * (2 * real(j) + 1) / (2 * real(n)));
}

std::vector<MatrixKind> sparse_kinds() {
  return {
      {"blocks of 4", [](auto i, auto j, auto, Random& r) { return i / 4 == j / 4 ? normal(r) : 0.0; }},
      {"a block twice", [](auto i, auto j, auto,
                           Random&) { return if_(i / 4 == j / 4, std::sin(real(3 * (i % 4) + j % 4))); }},
      {"one-hot rows", [](auto i, auto j, auto, Random&) { return if_(j == (7 * i * i + 3) % 11, 1); }},
      {"sparse 0/1", [](auto, auto, auto, Random& r) { return if_(below(8, r) == 0, 1); }},
      {"sparse signs",
       [](auto, auto, auto, Random& r) { return real(below(9, r) / 4) * (real(below(3, r)) - 1); }},
      {"permutation", [](auto i, auto j, auto, Random&) { return if_((i + 5) % 64 == j, 1); }},
      {"exchange", [](auto i, auto j, auto n, Random&) { return if_(i + j + 1 == n, 1); }},
      {"identity", [](auto i, auto j, auto, Random&) { return if_(i == j, 1); }},
      {"diagonal", [](auto i, auto j, auto, Random& r) { return i == j ? normal(r) : 0.0; }},
      {"diagonal of equal values",
       [](auto i, auto j, auto, Random&) { return if_(i == j, real(1 + i / 5 % 3)); }},
      {"partial isometry", [](auto i, auto j, auto, Random&) { return if_(i == j && i % 3 != 0, 1); }},
      {"shift", [](auto i, auto j, auto, Random&) { return if_(i + 1 == j, 1); }},
      {"Jordan block", [](auto i, auto j, auto, Random&) { return i == j ? 0.5 : if_(i + 1 == j, 1); }},
      {"companion", [](auto i, auto j, auto, Random& r) { return i == 0 ? normal(r) : if_(i == j + 1, 1); }},
      {"arrow",
       [](auto i, auto j, auto, Random&) { return i == j ? real(i + 2) : if_(i == 0 || j == 0, 1); }},
      {"upper triangle", [](auto i, auto j, auto, Random& r) { return i <= j ? normal(r) : 0.0; }},
      {"lower triangle", [](auto i, auto j, auto, Random& r) { return i >= j ? normal(r) : 0.0; }},
      {"strictly upper", [](auto i, auto j, auto, Random& r) { return i < j ? normal(r) : 0.0; }},
      {"Hessenberg", [](auto i, auto j, auto, Random& r) { return i <= j + 1 ? normal(r) : 0.0; }},
      {"bidiagonal with zeros",
       [](auto i, auto j, auto, Random&) {
         return if_((j == i || j == i + 1) && i % 5 != 2, 1.0 + real(i % 3));
       }},
      {"tridiagonal", [](auto i, auto j, auto, Random& r) { return std::abs(i - j) <= 1 ? normal(r) : 0.0; }},
      {"Laplacian",
       [](auto i, auto j, auto, Random&) { return i == j ? 2.0 : if_(std::abs(i - j) == 1, -1); }},
      {"Laplacian of a ring",
       [](auto i, auto j, auto n, Random&) {
         return i == j ? 2.0 : if_(std::abs(i - j) == 1 || std::abs(i - j) == n - 1, -1);
       }},
      {"incidence", [](auto i, auto j, auto, Random&) { return j == i ? 1.0 : if_(j == i + 1, -1); }},
      {"Wilkinson",
       [](auto i, auto j, auto n, Random&) {
         return i == j ? std::abs(real(2 * i + 1 - n)) / 2 : if_(std::abs(i - j) == 1, 1);
       }},
      {"skew", [](auto i, auto j, auto, Random&) { return real((j > i) - (j < i)); }},
      {"one element", [](auto i, auto j, auto n, Random&) { return if_(i == 1 % n && j == n / 2, 3); }},
      {"zeros", [](auto, auto, auto, Random&) { return 0.0; }},
  };
}

std::vector<MatrixKind> dense_kinds() {
  return {
      {"ones", [](auto, auto, auto, Random&) { return 1.0; }},
      {"checkerboard", [](auto i, auto j, auto, Random&) { return if_(i % 2 == j % 2, 1); }},
      {"Kronecker of ones", [](auto i, auto j, auto, Random&) { return if_(i % 4 == j % 4, 1); }},
      {"Kronecker",
       [](auto i, auto j, auto, Random&) {
         return std::sin(real(i / 3 + 2 * (j / 3))) * std::cos(real(i % 3 + 5 * (j % 3)));
       }},
      {"low rank",
       [](auto i, auto j, auto, Random&) {
         return std::cos(real(i)) * std::sin(1 + real(j)) + real(i % 3) * real(j % 2);
       }},
      {"rank one and identity",
       [](auto i, auto j, auto, Random&) {
         return if_(i == j, 1) + std::sin(1 + real(i)) * std::sin(1 + real(j));
       }},
      {"projection", [](auto i, auto j, auto, Random&) { return if_(i / 5 == j / 5, 0.2); }},
      {"reflection", [](auto i, auto j, auto n, Random&) { return if_(i == j, 1) - 2 / real(n); }},
      {"orthogonal", [](auto i, auto j, auto n, Random&) { return cosine(i, j, n); }},
      {"equal singular values",
       [](auto i, auto j, auto n, Random&) { return real(1 + i % 3) * cosine(i, j, n); }},
      {"equal and zero singular values",
       [](auto i, auto j, auto n, Random&) { return real(i % 3) * cosine(i, j, n); }},
      {"Hadamard", [](auto i, auto j, auto, Random&) { return parity(i, j); }},
      {"equal rows", [](auto i, auto j, auto, Random&) { return std::sin(real(3 * (i / 2) + 7 * j * j)); }},
      {"nearly equal rows",
       [](auto i, auto j, auto, Random& r) {
         return std::sin(real(3 * (i / 2) + 7 * j * j)) + 1e-12 * normal(r);
       }},
      {"zero rows and columns",
       [](auto i, auto j, auto, Random& r) { return i % 3 == 1 || j % 4 == 2 ? 0.0 : normal(r); }},
      {"graded",
       [](auto i, auto j, auto, Random& r) { return std::ldexp(normal(r), -static_cast<int>(i + j)); }},
      {"graded upwards", [](auto i, auto j, auto n,
                            Random& r) { return std::ldexp(normal(r), static_cast<int>(i + j - 2 * n)); }},
      {"graded columns",
       [](auto, auto j, auto, Random& r) { return std::ldexp(normal(r), -static_cast<int>(j)); }},
      {"Hilbert", [](auto i, auto j, auto, Random&) { return 1 / real(i + j + 1); }},
      {"Cauchy", [](auto i, auto j, auto, Random&) { return 1 / (real(i - j) + 0.5); }},
      {"Toeplitz", [](auto i, auto j, auto, Random&) { return 1 / (1 + real((i - j) * (i - j))); }},
      {"Hankel", [](auto i, auto j, auto, Random&) { return std::cos(real(i + j)); }},
      {"circulant",
       [](auto i, auto j, auto n, Random&) { return 1 / real(1 + (j - i + n * (i / n + 1)) % n); }},
      {"Vandermonde",
       [](auto i, auto j, auto n, Random&) { return std::pow(real(i + 1) / real(n + 1), real(j)); }},
      {"Lehmer",
       [](auto i, auto j, auto, Random&) { return real(std::min(i, j) + 1) / real(std::max(i, j) + 1); }},
      {"smaller index", [](auto i, auto j, auto, Random&) { return real(std::min(i, j) + 1); }},
      {"Kahan", [](auto i, auto j, auto,
                   Random&) { return std::pow(0.96, real(i)) * (i == j ? 1.0 : if_(i < j, -0.28)); }},
      {"of ones, -1 below",
       [](auto i, auto j, auto n, Random&) { return i == j || j == n - 1 ? 1.0 : if_(i > j, -1); }},
      {"Frank", [](auto i, auto j, auto n, Random&) { return if_(j + 1 >= i, real(n - std::max(i, j))); }},
      {"integers", [](auto i, auto j, auto, Random&) { return real((7 * i + 3 * j) % 5); }},
      {"dense", [](auto, auto, auto, Random& r) { return normal(r); }},
  };
}

}  // namespace

const std::vector<MatrixKind>& matrix_kinds() {
  static const std::vector<MatrixKind> all = [] {
    std::vector<MatrixKind> kinds = sparse_kinds();
    for (MatrixKind& kind : dense_kinds()) kinds.push_back(kind);
    return kinds;
  }();
  return all;
}

}  // namespace tidu::test
