// Matmuls that 0.0 is added to: zeros of either sign become 0.0, and nothing else changes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/gemm_calls.hpp"

using namespace tidu::cpu_detail;
using namespace tidu::test;

namespace {

struct MatmulSize {
  std::int64_t m, n, k, batch;
};

// Every kernel of matmuls: by size, by transposed operands, and by instruction set.
template <class Body>
void for_each_matmul(GemmType type, const Body& body) {
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        for (const auto& [m, n, k, batch] :
             {MatmulSize{1, 1, 5, 1}, MatmulSize{1, 1, 40, 3}, MatmulSize{2, 9, 20, 2},
              MatmulSize{1, 70, 33, 1}, MatmulSize{16, 8, 16, 5}, MatmulSize{16, 16, 8, 3},
              MatmulSize{7, 40, 24, 2}, MatmulSize{20, 4, 4, 2}, MatmulSize{33, 50, 48, 1},
              MatmulSize{48, 130, 70, 1}, MatmulSize{80, 90, 800, 1}, MatmulSize{9, 600, 300, 1},
              MatmulSize{5, 3, 0, 2}}) {
          GemmCall g;
          g.type = type;
          g.trans_a = trans_a, g.trans_b = trans_b;
          g.m = m, g.n = n, g.k = k, g.batch = batch;
          g.lda = trans_a ? m : std::max<std::int64_t>(k, 1),
          g.ldb = trans_b ? std::max<std::int64_t>(k, 1) : n, g.ldc = n;
          g.stride_a = m * k, g.stride_b = k * n, g.stride_c = m * n;
          const std::string name = std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                                   ", batch " + std::to_string(batch) + ", transposed " +
                                   std::to_string(trans_a) + std::to_string(trans_b);
          body(g, isa, name);
        }
      }
    }
  }
}

template <class T>
std::vector<T> matmul(GemmCall g, GemmIsa isa, bool add_zero, const std::vector<T>& a,
                      const std::vector<T>& b) {
  g.add_zero = add_zero;
  std::vector<T> c(static_cast<std::size_t>(g.batch * g.stride_c), T(7));
  GemmPlan(g, 1, isa).run(a.data(), b.data(), c.data());
  return c;
}

template <class T>
bool is_plain_zero(T x) {
  if constexpr (requires { x.real(); }) {
    return is_plain_zero(x.real()) && is_plain_zero(x.imag());
  } else {
    return x == T(0) && !std::signbit(x);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("[gemm] 0.0 that is added makes 0.0 of matmuls that vanish", T, float, double,
                   std::complex<float>, std::complex<double>) {
  using Real = decltype(std::abs(T()));
  std::size_t negative = 0;  // matmuls that would be -0.0
  for_each_matmul(TypeOf<T>::value, [&](const GemmCall& g, GemmIsa isa, const std::string& name) {
    const Real tiny = std::numeric_limits<Real>::min();
    const std::vector<T> a(static_cast<std::size_t>(g.batch * g.stride_a), T(tiny)),
        b(static_cast<std::size_t>(g.batch * g.stride_b), T(-tiny));
    std::size_t wrong = 0;
    for (const T x : matmul(g, isa, true, a, b)) wrong += is_plain_zero(x) ? 0 : 1;
    for (const T x : matmul(g, isa, false, a, b)) negative += is_plain_zero(x) ? 0 : 1;
    CHECK_MESSAGE(wrong == 0, name);
  });
  if (fuses_multiply_add()) CHECK(negative > 0);
}

TEST_CASE("[gemm] a matmul that 0.0 is added to has the bits that it has alone, with every library") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> element(-1, 1);
  for (const auto& size : {std::array<std::int64_t, 3>{256, 128, 512}, {512, 64, 512}, {64, 64, 64}}) {
    const std::int64_t m = size[0], n = size[1], k = size[2];
    GemmCall g;
    g.m = m, g.n = n, g.k = k, g.lda = k, g.ldb = n, g.ldc = n;
    std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
    for (std::vector<float>* const all : {&a, &b}) {
      for (float& x : *all) x = element(random);
    }
    for (const int threads : {1, 2}) {
      std::vector<float> alone(static_cast<std::size_t>(m * n)), with_zero = alone;
      GemmPlan(g, threads).run(a.data(), b.data(), alone.data());
      GemmCall adding = g;
      adding.add_zero = true;
      GemmPlan(adding, threads).run(a.data(), b.data(), with_zero.data());
      CHECK_MESSAGE(alone == with_zero, m, " x ", n, " x ", k, ", threads: ", threads);
    }
  }
}

TEST_CASE_TEMPLATE("[gemm] 0.0 that is added changes nothing else", T, float, double, std::complex<float>,
                   std::complex<double>) {
  std::mt19937 random(3);
  for_each_matmul(TypeOf<T>::value, [&](const GemmCall& g, GemmIsa isa, const std::string& name) {
    const auto a = random_elements<T>(g.batch * g.stride_a, random),
               b = random_elements<T>(g.batch * g.stride_b, random);
    CHECK_MESSAGE(matmul(g, isa, true, a, b) == matmul(g, isa, false, a, b), name);
  });
}
