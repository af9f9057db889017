// Batches of matmuls of one or two rows: inner products, matrices by vectors, rows by matrices. Elements are
// small integers, so that every order of sums gives the same.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cpu/matmul/gemm.hpp"

using namespace tidu::cpu_detail;
using Index = std::int64_t;

namespace {

template <class T>
Index wrong_inner_products(const GemmCall& g, int threads, GemmIsa isa, std::mt19937& random) {
  const auto fill = [&random](Index size) {
    std::vector<T> v(static_cast<std::size_t>(size));
    for (T& x : v) x = static_cast<T>(static_cast<int>(random() % 15) - 7);
    return v;
  };
  const std::vector<T> a = fill(g.batch * g.stride_a), b = fill(g.batch * g.stride_b);
  std::vector<T> got = fill(g.batch * g.stride_c), expected = got;
  const auto at = [](const std::vector<T>& v, Index i) { return v[static_cast<std::size_t>(i)]; };
  for (Index q = 0; q < g.batch; ++q) {
    for (Index i = 0; i < g.m; ++i) {
      for (Index j = 0; j < g.n; ++j) {
        T& c = expected[static_cast<std::size_t>(q * g.stride_c + i * g.ldc + j)];
        if (!g.add) c = T(0);
        for (Index p = 0; p < g.k; ++p) {
          c += at(a, q * g.stride_a + (g.trans_a ? p * g.lda + i : i * g.lda + p)) *
               at(b, q * g.stride_b + (g.trans_b ? j * g.ldb + p : p * g.ldb + j));
        }
      }
    }
  }
  GemmPlan(g, threads, isa).run(a.data(), b.data(), got.data());
  Index wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] == expected[i] ? 0 : 1;
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("batches of matmuls of few rows", T, float, double, std::int32_t, std::int64_t) {
  std::mt19937 random(51);
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (int round = 0; round < 1500; ++round) {
      const auto pick = [&random](int least, int most) {
        return std::uniform_int_distribution<Index>(least, most)(random);
      };
      GemmCall g;
      constexpr bool is_integer = T(1) / T(2) == T(0);
      g.type = is_integer       ? sizeof(T) == 4 ? GemmType::i32 : GemmType::i64
               : sizeof(T) == 4 ? GemmType::f32
                                : GemmType::f64;
      g.trans_a = random() % 4 == 0;
      g.trans_b = random() % 2 == 0;
      g.m = pick(1, 3);
      g.n = random() % 2 == 0 ? 1 : pick(1, 20);
      g.k = random() % 3 == 0 ? pick(30, 70) : pick(1, 33);
      g.batch = random() % 3 == 0 ? 1 : pick(1, 40);
      g.add = random() % 3 == 0;
      const Index gap = random() % 2 == 0 ? 0 : pick(0, 3);
      g.lda = (g.trans_a ? g.m : g.k) + gap;
      g.ldb = (g.trans_b ? g.k : g.n) + gap;
      g.ldc = g.n + gap;
      g.stride_a = (g.trans_a ? g.k : g.m) * g.lda + gap;
      g.stride_b = (g.trans_b ? g.n : g.k) * g.ldb;
      g.stride_c = g.m * g.ldc + gap;
      const int threads = random() % 2 == 0 ? 1 : 3;
      CHECK_MESSAGE(wrong_inner_products<T>(g, threads, isa, random) == 0, g.m, " x ", g.n, " x ", g.k,
                    ", batch ", g.batch, ", transposed ", g.trans_a, g.trans_b, ", added ", g.add, ", gap ",
                    gap);
    }
  }
}
