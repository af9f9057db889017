// Pieces of matmuls with stores that bypass the caches, compared with the same pieces without.
#include <doctest/doctest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/gemm_calls.hpp"
#include "cpu/matmul/gemm.hpp"

using tidu::cpu_detail::GemmCall, tidu::cpu_detail::GemmPlan;
using tidu::test::make_call, tidu::test::random_elements, tidu::test::TypeOf;

TEST_CASE_TEMPLATE("pieces that go past the caches have the same bits, and write nothing else", T, float,
                   double, std::complex<float>, std::int32_t) {
  std::mt19937 random(23);
  struct Size {
    std::int64_t m, n, k, gap;
  };
  // Whole lines, parts of lines, one row of less than a line, rows with gaps, more than a piece may have.
  for (const Size size : {Size{64, 512, 100, 0}, Size{30, 70, 300, 0}, Size{40, 3, 9, 0},
                          Size{33, 200, 64, 13}, Size{1100, 240, 5, 0}, Size{8, 64, 0, 0}}) {
    for (const bool trans_b : {false, true}) {
      for (const bool add : {false, true}) {
        GemmCall g = make_call(TypeOf<T>::value, false, trans_b, size.m, size.n, size.k, size.gap);
        g.add = add;
        const auto a = random_elements<T>(std::max<std::int64_t>(g.stride_a, 1), random);
        const auto b = random_elements<T>(std::max<std::int64_t>(g.stride_b, 1), random);
        const auto before = random_elements<T>(size.m * g.ldc + 1, random);
        for (const int threads : {1, 2, 7}) {
          const GemmPlan plan(g, threads);
          // C begins where a line does, and where none does.
          for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
            std::vector<T> one = before, other = before;
            for (int i = 0; i < plan.pieces(); ++i) plan.run_piece(i, a.data(), b.data(), one.data() + shift);
            for (int i = plan.pieces(); i-- > 0;)
              plan.run_piece_past_caches(i, a.data(), b.data(), other.data() + shift);
            CHECK(std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
          }
        }
      }
    }
  }
}
