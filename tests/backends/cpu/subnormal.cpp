// subnormal.cpp - large matmuls count subnormal numbers as zeros, small ones and all operations before and
// after do not. (Processors other than x86 may differ.)
#if defined(__SSE2__)

#include "cpu/matmul/gemm.hpp"
#include "cpu/parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

using namespace tidu::cpu_detail;

namespace {

constexpr GemmIsa all_isas[] = {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512};

GemmCall square_matmul(GemmType type, std::int64_t n, bool trans_a, bool trans_b) {
  GemmCall call;
  call.type = type;
  call.m = call.n = call.k = call.lda = call.ldb = call.ldc = n;
  call.trans_a = trans_a;
  call.trans_b = trans_b;
  return call;
}

/// Does half of the smallest normal number stay unchanged on this thread?
bool keeps_subnormal_numbers() {
  volatile double tiny = std::numeric_limits<double>::min();
  volatile float small = std::numeric_limits<float>::min();
  tiny = tiny * 0.5;
  small = small * 0.5F;
  return tiny > 0.0 && small > 0.0F;
}

/// The sums of A B where A is subnormal except for its first `normal` terms, which are 1, and B is 1.
template <class T>
void check_subnormal_matmul(GemmType type, std::int64_t n, std::int64_t normal, bool counts_as_zero) {
  const T subnormal(std::numeric_limits<decltype(std::real(T()))>::min() / 4);
  const std::vector<T> ones(static_cast<std::size_t>(n * n), T(1));
  std::vector<T> result(ones.size());
  for (const bool trans_a : {false, true}) {
    std::vector<T> a(ones.size(), subnormal);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t p = 0; p < normal; ++p)
        a[static_cast<std::size_t>(trans_a ? p * n + i : i * n + p)] = T(1);
    }
    const T expected = normal > 0       ? T(static_cast<float>(normal))
                       : counts_as_zero ? T(0)
                                        : subnormal * T(static_cast<float>(n));
    const auto check = [&](const GemmPlan& plan) {
      std::fill(result.begin(), result.end(), T(7));
      plan.run(a.data(), ones.data(), result.data());
      CHECK(static_cast<std::size_t>(std::count(result.begin(), result.end(), expected)) == result.size());
      CHECK(keeps_subnormal_numbers());
    };
    for (const bool trans_b : {false, true}) {
      const GemmCall call = square_matmul(type, n, trans_a, trans_b);
      for (const int threads : {1, 2}) {
        check(GemmPlan(call, threads));
        for (const GemmIsa isa : all_isas) check(GemmPlan(call, threads, isa));
      }
    }
  }
}

TEST_CASE("subnormal numbers are zeros in large matmuls alone") {
  for (const std::int64_t normal : {0, 3}) {
    check_subnormal_matmul<float>(GemmType::f32, 64, normal, true);
    check_subnormal_matmul<double>(GemmType::f64, 64, normal, true);
    check_subnormal_matmul<std::complex<float>>(GemmType::c64, 64, normal, true);
    check_subnormal_matmul<std::complex<double>>(GemmType::c128, 64, normal, true);
    check_subnormal_matmul<float>(GemmType::f32, 8, normal, false);
    check_subnormal_matmul<double>(GemmType::f64, 8, normal, false);
    check_subnormal_matmul<std::complex<double>>(GemmType::c128, 8, normal, false);
  }
  check_subnormal_matmul<float>(GemmType::f32, 200, 0, true);  // with oneDNN, where it was built in
  std::atomic<bool> helpers_keep = true;
  parallel_for(4, 64, 1, [&](std::int64_t, std::int64_t) {
    if (!keeps_subnormal_numbers()) helpers_keep = false;
  });
  CHECK(helpers_keep);
}

TEST_CASE("a large update keeps the subnormal numbers that it adds to") {
  constexpr std::int64_t n = 64;
  constexpr double subnormal = std::numeric_limits<double>::min() / 4;
  const std::vector<double> x(n * n, subnormal), zeros(n * n, 0.0), ones(n * n, 1.0);
  std::vector<double> result(n * n, 7.0);
  const double scale = 3.0;
  const GemmPlan plan(square_matmul(GemmType::f64, n, false, false), 2, GemmIsa::avx512);
  REQUIRE(plan.can_update());
  plan.update(2, zeros.data(), ones.data(), {x.data(), &scale, false}, result.data());
  CHECK(std::count(result.begin(), result.end(), subnormal) == n * n);
  CHECK(keeps_subnormal_numbers());
}

TEST_CASE("a large matmul leaves the flags of floating point exceptions that it raises") {
  const double large = std::numeric_limits<double>::max();
  const std::vector<double> a(64 * 64, large), b(64 * 64, 2.0);
  std::vector<double> c(64 * 64);
  std::feclearexcept(FE_ALL_EXCEPT);
  GemmPlan(square_matmul(GemmType::f64, 64, false, false), 1).run(a.data(), b.data(), c.data());
  CHECK(std::fetestexcept(FE_OVERFLOW) != 0);
  std::feclearexcept(FE_ALL_EXCEPT);
}

}  // namespace

#endif
