// Matmuls from several threads at once: plans are shared, the pool serves one and the others run by
// themselves, buffers are each thread's own.
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "cpu/matmul/gemm.hpp"

using namespace tidu::cpu_detail;

TEST_CASE("four threads share one plan") {
  constexpr std::int64_t n = 130;
  GemmCall g;
  g.type = GemmType::i32;
  g.trans_b = true;
  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = n;
  std::vector<std::int32_t> a(n * n), b(n * n), expected(n * n);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::int32_t>(i * 7 % 23) - 11;
    b[i] = static_cast<std::int32_t>(i * 5 % 19) - 9;
  }
  gemm(g, a.data(), b.data(), expected.data(), 1);
  const GemmPlan plan(g, 2);
  CHECK(plan.pieces() == 2);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 30; ++repeat) {
        std::vector<std::int32_t> c(n * n, -1);
        plan.run(a.data(), b.data(), c.data());
        wrong[static_cast<std::size_t>(t)] += c != expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("four threads multiply in f32, by oneDNN where it was built in") {
  constexpr std::int64_t n = 200;
  GemmCall g;
  g.trans_a = true;
  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = n;
  std::vector<float> a(n * n), b(n * n), expected(n * n);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = 0.1f * static_cast<float>(i * 7 % 23) - 1;
    b[i] = 0.1f * static_cast<float>(i * 5 % 19) - 1;
  }
  const GemmPlan plan(g, 2);
  std::vector<std::vector<float>> got(4, std::vector<float>(n * n));
  std::vector<int> changed(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      plan.run(a.data(), b.data(), got[t].data());
      for (int repeat = 0; repeat < 30; ++repeat) {
        std::vector<float> c(n * n, -1);
        plan.run(a.data(), b.data(), c.data());
        changed[t] += c != got[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  GemmPlan(g, 1).run(a.data(), b.data(), expected.data());
  CHECK(changed == std::vector<int>(4, 0));
  for (const std::vector<float>& c : got) CHECK(c == expected);
}
