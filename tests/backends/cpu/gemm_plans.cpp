// Plans of matmuls, run as a whole and copied: the bits of the kernel for the call, whatever the sizes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpu/gemm_calls.hpp"

using namespace tidu::cpu_detail;
using namespace tidu::test;

namespace {

enum class Added : std::uint8_t { nothing, result, zero };

// With gaps between rows and between members.
GemmCall call_of(GemmType type, std::mt19937_64& random) {
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  GemmCall g;
  g.type = type;
  g.trans_a = up_to(2) == 1, g.trans_b = up_to(2) == 1;
  g.m = up_to(up_to(4) == 1 ? 3 : 70), g.n = 1 + up_to(up_to(4) == 1 ? 300 : 40),
  g.k = up_to(up_to(4) == 1 ? 400 : 40);
  if (g.m == 1) g.trans_a = false;  // as a plan has it
  g.batch = up_to(3) == 1 ? up_to(9) : 1;
  const auto gap = [&] { return up_to(3) == 1 ? up_to(20) : 0; };
  g.lda = (g.trans_a ? g.m : g.k) + gap(), g.ldb = (g.trans_b ? g.k : g.n) + gap(), g.ldc = g.n + gap();
  g.stride_a = (g.trans_a ? g.k : g.m) * g.lda + gap();
  g.stride_b = (g.trans_b ? g.n : g.k) * g.ldb + gap();
  g.stride_c = g.m * g.ldc + gap();
  const auto added = static_cast<Added>(up_to(3) - 1);
  g.add = added == Added::result, g.add_zero = added == Added::zero;
  return g;
}

template <class T>
std::vector<T> numbers(std::int64_t count, std::mt19937_64& random) {
  std::vector<T> all(static_cast<std::size_t>(count));
  std::uniform_int_distribution<int> each(-1000, 1000);
  for (T& x : all) x = static_cast<T>(each(random)) / T(64);
  return all;
}

template <class T>
bool is_same(const std::vector<T>& x, const std::vector<T>& y) {
  return std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

std::string name_of(const GemmCall& g) {
  return std::to_string(g.m) + " x " + std::to_string(g.n) + " x " + std::to_string(g.k) + ", batch " +
         std::to_string(g.batch) + ", transposed " + std::to_string(g.trans_a) + std::to_string(g.trans_b);
}

}  // namespace

TEST_CASE_TEMPLATE("[prepacked] [gemm] a plan's matmul has the bits of its kernel's", T, float, double,
                   std::int32_t) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 1500; ++i) {
    const GemmCall g = call_of(TypeOf<T>::value, random);
    const std::int64_t count = std::max<std::int64_t>(g.batch, 1);
    const std::vector<T> a = numbers<T>(count * g.stride_a + 8, random),
                         b = numbers<T>(count * g.stride_b + 8, random),
                         before = numbers<T>(count * g.stride_c + 8, random);
    for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
      const GemmPlan plan(g, 1, isa);
      std::vector<T> got = before, expected = before;
      plan.run(a.data(), b.data(), got.data());
      plan.kernel()(g, {0, g.batch, 0, g.m, 0, g.n}, a.data(), b.data(), expected.data());
      CHECK_MESSAGE(is_same(got, expected), name_of(g));
    }
  }
}

TEST_CASE("[prepacked] [gemm] a copy of a plan makes the same matmuls, one after another") {
  std::mt19937_64 random(12);
  for (int i = 0; i < 200; ++i) {
    const GemmCall g = call_of(GemmType::f32, random);
    constexpr std::int64_t count = 3;
    const std::int64_t a_size = g.batch * g.stride_a + 8, b_size = g.batch * g.stride_b + 8,
                       c_size = g.batch * g.stride_c + 8;
    const std::vector<float> a = numbers<float>(count * a_size, random),
                             b = numbers<float>(count * b_size, random);
    std::vector<float> got = numbers<float>(count * c_size, random), expected = got;
    const GemmPlan plan(g, 1, GemmIsa::avx512), copy = plan;
    for (std::int64_t q = 0; q < count; ++q) {
      copy.run(a.data() + q * a_size, b.data() + q * b_size, got.data() + q * c_size);
      plan.kernel()(g, {0, g.batch, 0, g.m, 0, g.n}, a.data() + q * a_size, b.data() + q * b_size,
                    expected.data() + q * c_size);
    }
    CHECK_MESSAGE(is_same(got, expected), name_of(g));
  }
}
