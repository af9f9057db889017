// Matmuls compared with plain loops: all types, transposes, sizes on both sides of every tile and block,
// batches, threads, errors. Operands are small integers, whose sums are exact in every type: results must be
// equal.
#include "cpu/matmul/gemm.hpp"
#include "cpu/gemm_calls.hpp"
#include "support/support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace tidu::cpu_detail;
using tidu::test::make_call, tidu::test::random_elements, tidu::test::shortened, tidu::test::TypeOf;
using Index = std::int64_t;

namespace {

template <class T>
void plain_matmul(const GemmCall& g, const T* a, const T* b, T* c) {
  for (Index q = 0; q < g.batch; ++q) {
    for (Index i = 0; i < g.m; ++i) {
      for (Index j = 0; j < g.n; ++j) {
        T sum = g.add ? c[q * g.stride_c + i * g.ldc + j] : T{};
        for (Index p = 0; p < g.k; ++p) {
          sum += a[q * g.stride_a + (g.trans_a ? p * g.lda + i : i * g.lda + p)] *
                 b[q * g.stride_b + (g.trans_b ? j * g.ldb + p : p * g.ldb + j)];
        }
        c[q * g.stride_c + i * g.ldc + j] = sum;
      }
    }
  }
}

std::string describe(const GemmCall& g, int threads, GemmIsa isa) {
  return "type " + std::to_string(static_cast<int>(g.type)) + (g.trans_a ? " t " : " n ") +
         (g.trans_b ? "t " : "n ") + std::to_string(g.m) + " " + std::to_string(g.n) + " " +
         std::to_string(g.k) + " batch " + std::to_string(g.batch) + " threads " + std::to_string(threads) +
         " isa " + std::to_string(static_cast<int>(isa));
}

/// Equal to the plain matmul, nothing written between the rows of C or after it.
template <class T>
void check_matmul(const GemmCall& g, int threads, std::mt19937& random, GemmIsa isa = GemmIsa::avx512) {
  const auto a = random_elements<T>(g.batch * g.stride_a + g.m * g.lda + g.k * g.lda + 1, random);
  const auto b = random_elements<T>(g.batch * g.stride_b + g.n * g.ldb + g.k * g.ldb + 1, random);
  auto got = random_elements<T>(g.batch * g.stride_c + g.m * g.ldc + 64, random);
  auto expected = got;
  plain_matmul(g, a.data(), b.data(), expected.data());
  const GemmPlan plan(g, threads, isa);
  plan.run(a.data(), b.data(), got.data());
  CHECK_MESSAGE(got == expected, describe(g, threads, isa));
  if (plan.packed_bytes() > 0) {
    std::vector<T> scratch(static_cast<std::size_t>(plan.packed_bytes()) / sizeof(T) + 64 / sizeof(T));
    void* to = scratch.data();
    std::size_t bytes = scratch.size() * sizeof(T);
    std::align(64, static_cast<std::size_t>(plan.packed_bytes()), to, bytes);
    plan.pack(b.data(), to);
    plan.packed().run(a.data(), to, got.data());
    CHECK_MESSAGE(got == expected, "packed: ", describe(g, threads, isa));
  }
  GemmCall adding = g;
  adding.add = true;
  plain_matmul(adding, a.data(), b.data(), expected.data());
  GemmPlan(adding, threads, isa).run(a.data(), b.data(), got.data());
  CHECK_MESSAGE(got == expected, "added: ", describe(g, threads, isa));
}

/// The same by whatever code is chosen for these sizes, C being filled with NaN before: nothing of it is
/// read.
void check_chosen_matmul(const GemmCall& g, int threads, std::mt19937& random) {
  const auto a = random_elements<float>(g.batch * g.stride_a + g.m * g.lda + g.k * g.lda + 1, random);
  const auto b = random_elements<float>(g.batch * g.stride_b + g.n * g.ldb + g.k * g.ldb + 1, random);
  std::vector<float> got(static_cast<std::size_t>(g.batch * g.stride_c + g.m * g.ldc + 64),
                         std::numeric_limits<float>::quiet_NaN());
  auto expected = got;
  plain_matmul(g, a.data(), b.data(), expected.data());
  const GemmPlan plan(g, threads);
  plan.run(a.data(), b.data(), got.data());
  CHECK_MESSAGE(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0,
                describe(g, threads, GemmIsa::avx512));
  GemmCall adding = g;
  adding.add = true;
  plain_matmul(adding, a.data(), b.data(), expected.data());
  GemmPlan(adding, threads).run(a.data(), b.data(), got.data());
  CHECK_MESSAGE(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0,
                "added: ", describe(g, threads, GemmIsa::avx512));
}

template <class T>
void check_all_shapes(GemmIsa isa) {
  std::mt19937 random(7);
  const Index sizes[] = {1, 2, 3, 5, 7, 8, 13, 15, 17, 31, 33, 50};
  std::uniform_int_distribution<std::size_t> pick(0, std::size(sizes) - 1);
  std::bernoulli_distribution coin;
  constexpr std::array<Index, 5> larger[] = {{4, 4, 4, 1},         {1, 601, 70, 2},     {601, 1, 70, 2},
                                             {45, 300, 800, 2},    {48, 150, 70, 1, 3}, {31, 67, 384, 2},
                                             {61, 37, 90, 3, 1024}};
  for (int trial = 0; trial < (shortened() ? 50 : 150); ++trial) {
    const bool trans_a = coin(random), trans_b = coin(random);
    const Index m = sizes[pick(random)], n = sizes[pick(random)], k = sizes[pick(random)];
    check_matmul<T>(make_call(TypeOf<T>::value, trans_a, trans_b, m, n, k, coin(random) ? 3 : 0), 1, random,
                    isa);
  }
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      if (shortened() && (trans_a == trans_b) == (isa == GemmIsa::avx2)) continue;
      for (const auto& [m, n, k, threads, gap] : larger)
        check_matmul<T>(make_call(TypeOf<T>::value, trans_a, trans_b, m, n, k, gap),
                        static_cast<int>(threads), random, isa);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("matmuls equal plain loops, with every instruction set", T, float, double,
                   std::complex<float>, std::complex<double>, std::int32_t, std::int64_t) {
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) check_all_shapes<T>(isa);
}

TEST_CASE("integers wrap") {
  const std::int64_t a[] = {std::numeric_limits<std::int64_t>::max(), 3}, b[] = {2, 5};
  std::int64_t c = 0;
  gemm(make_call(GemmType::i64, false, false, 1, 1, 2), a, b, &c, 1);
  CHECK(c == 13);
}

TEST_CASE_TEMPLATE("batches, shared operands and interleaved members", T, float, std::complex<double>,
                   std::int32_t) {
  std::mt19937 random(11);
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const int threads : {1, 2, 3}) {
        GemmCall g = make_call(TypeOf<T>::value, trans_a, trans_b, 9, 20, 33, 1);
        g.batch = 7;
        check_matmul<T>(g, threads, random);
        g.stride_b = 0;
        check_matmul<T>(g, threads, random);
        g.stride_a = 0;
        check_matmul<T>(g, threads, random);
        g = make_call(TypeOf<T>::value, trans_a, trans_b, 40, 40, 40);
        g.batch = 5;
        g.ldc = 5 * 40;
        g.stride_c = 40;
        check_matmul<T>(g, threads, random);
      }
    }
  }
}

TEST_CASE_TEMPLATE("small matmuls, with every instruction set", T, float, double, std::complex<float>,
                   std::complex<double>, std::int32_t, std::int64_t) {
  std::mt19937 random(19);
  const Index rows[] = {2, 3, 13, 14, 15, 16, 17, 28, 29, 63, 64, 65};
  const Index columns[] = {1, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 70},
              terms[] = {1, 2, 8, 9, 31, 64, 65};
  const auto pick = [&random](const auto& sizes) {
    return sizes[std::uniform_int_distribution<std::size_t>(0, std::size(sizes) - 1)(random)];
  };
  std::bernoulli_distribution coin;
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (int trial = 0; trial < 200; ++trial) {
      const bool trans_a = coin(random), trans_b = coin(random);
      GemmCall g = make_call(TypeOf<T>::value, trans_a, trans_b, pick(rows), pick(columns), pick(terms),
                             coin(random) ? 5 : 0);
      g.batch = coin(random) ? 3 : 1;
      if (trial % 5 == 0) g.stride_a = 0;
      if (trial % 7 == 0) g.stride_b = 0;
      check_matmul<T>(g, 1 + trial % 2, random, isa);
    }
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        GemmCall g = make_call(TypeOf<T>::value, trans_a, trans_b, 16, 16, 8);
        g.batch = 16;
        check_matmul<T>(g, 2, random, isa);
        for (Index i = 0; i < 12 * 17; ++i)  // tiles of every height and width
          check_matmul<T>(make_call(TypeOf<T>::value, trans_a, trans_b, 2 + i / 17, 1 + i % 17, 3, 1), 1,
                          random, isa);
      }
    }
  }
}

TEST_CASE_TEMPLATE("rows of a small matmul have the bits that they have among many", T, float, double) {
  std::mt19937 random(23);
  std::uniform_real_distribution<T> real(-1, 1);
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (const bool trans_b : {false, true}) {
      for (const std::array<Index, 2> size :
           {std::array<Index, 2>{5, 29}, {16, 29}, {37, 29}, {70, 400}, {130, 99}}) {
        const Index n = size[0], k = size[1], few = 16, many = 90;
        std::vector<T> a(static_cast<std::size_t>(many * k)), b(static_cast<std::size_t>(k * n));
        for (T& x : a) x = real(random);
        for (T& x : b) x = real(random);
        std::vector<T> c(static_cast<std::size_t>(few * n)), d(static_cast<std::size_t>(many * n));
        GemmPlan(make_call(TypeOf<T>::value, false, trans_b, few, n, k), 1, isa)
            .run(a.data(), b.data(), c.data());
        GemmPlan(make_call(TypeOf<T>::value, false, trans_b, many, n, k), 1, isa)
            .run(a.data(), b.data(), d.data());
        CHECK_MESSAGE(std::equal(c.begin(), c.end(), d.begin()), trans_b, " ", n);
      }
    }
  }
}

// In few sets of a cache, which packing them avoids, or in many.
TEST_CASE_TEMPLATE("operands whose rows are a power of two apart give the bits of others", T, float, double) {
  std::mt19937 random(24);
  std::uniform_real_distribution<T> real(-1, 1);
  const auto spread = [&](Index rows, Index columns, Index ld, const std::vector<T>& dense) {
    std::vector<T> result(static_cast<std::size_t>(rows * ld));
    for (Index i = 0; i < rows; ++i)
      std::copy_n(dense.begin() + i * columns, columns, result.begin() + i * ld);
    return result;
  };
  for (const GemmIsa isa : {GemmIsa::avx2, GemmIsa::avx512}) {
    for (const int transposes : {0, 1, 2, 3}) {
      for (const std::array<Index, 3> size :
           {std::array<Index, 3>{100, 90, 40}, {64, 200, 250}, {256, 48, 128}, {150, 130, 410}}) {
        const bool trans_a = (transposes & 1) != 0, trans_b = (transposes & 2) != 0;
        const Index m = size[0], n = size[1], k = size[2];
        std::vector<T> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
        for (T& x : a) x = real(random);
        for (T& x : b) x = real(random);
        const T scale = T(0.3);
        const auto run = [&](Index ld, bool updates) {
          GemmCall call = make_call(TypeOf<T>::value, trans_a, trans_b, m, n, k);
          const auto far_a = trans_a ? spread(k, m, ld, a) : spread(m, k, ld, a);
          const auto far_b = trans_b ? spread(n, k, ld, b) : spread(k, n, ld, b);
          call.lda = call.ldb = ld;
          const GemmPlan plan(call, 1, isa);
          std::vector<T> c(static_cast<std::size_t>(m * n), T(1));
          if (!updates) plan.run(far_a.data(), far_b.data(), c.data());
          if (updates && plan.can_update())
            plan.update(2, far_a.data(), far_b.data(), {c.data(), &scale, true}, c.data());
          return c;
        };
        INFO(m, " ", n, " ", k, ", transposes ", transposes);
        CHECK(run(512, false) == run(520, false));
        CHECK(run(512, true) == run(520, true));
      }
    }
  }
}

TEST_CASE_TEMPLATE("many rows with a small square have the bits that rows apart have", T, float, double) {
  std::mt19937 random(13);
  std::uniform_real_distribution<T> real(-1, 1);
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (const Index n : {2, 4, 8, 16}) {
      for (const Index m : {2, 3, 7, 31, 32, 61}) {
        for (const bool trans_b : {false, true}) {
          GemmCall g = make_call(TypeOf<T>::value, false, trans_b, m, n, n);
          g.batch = 3;
          check_matmul<T>(g, 2, random, isa);
          GemmCall apart = make_call(TypeOf<T>::value, false, trans_b, m, n, n, 1);
          apart.batch = 3;
          apart.ldb = n;
          apart.stride_b = n * n;
          std::vector<T> a(static_cast<std::size_t>(3 * m * n)), b(static_cast<std::size_t>(3 * n * n));
          for (T& x : a) x = real(random);
          for (T& x : b) x = real(random);
          std::vector<T> spread(static_cast<std::size_t>(3 * apart.stride_a)), c(a.size()), d(spread.size());
          for (std::size_t i = 0; i < a.size(); ++i) {
            const auto row = i / static_cast<std::size_t>(n), column = i % static_cast<std::size_t>(n);
            spread[row * static_cast<std::size_t>(apart.lda) + column] = a[i];
          }
          GemmPlan(g, 1, isa).run(a.data(), b.data(), c.data());
          GemmPlan(apart, 1, isa).run(spread.data(), b.data(), d.data());
          bool same = true;
          for (std::size_t i = 0; i < c.size(); ++i) {
            const auto row = i / static_cast<std::size_t>(n), column = i % static_cast<std::size_t>(n);
            same = same && c[i] == d[row * static_cast<std::size_t>(apart.ldc) + column];
          }
          CHECK_MESSAGE(same, describe(g, 1, isa));
        }
      }
    }
  }
}

TEST_CASE("empty matmuls write nothing, empty sums write zeros") {
  std::mt19937 random(13);
  for (const Index m : {0, 3}) {
    for (const Index n : {0, 1, 5}) {
      for (const Index k : {0, 4}) {
        for (const bool trans_b : {false, true}) {
          check_matmul<double>(make_call(GemmType::f64, false, trans_b, m, n, k), 2, random);
          check_matmul<std::complex<float>>(make_call(GemmType::c64, true, trans_b, m, n, k), 1, random);
        }
      }
    }
  }
  GemmCall none = make_call(GemmType::f32, false, false, 4, 4, 4);
  none.batch = 0;
  gemm(none, nullptr, nullptr, nullptr, 2);
  gemm(make_call(GemmType::f32, false, false, 0, 4, 0), nullptr, nullptr, nullptr, 1);
}

TEST_CASE("larger matmuls in f32, by oneDNN where it was built in") {
  std::mt19937 random(19);
  struct Size {
    Index m, n, k;
  };
  // Whole, split by rows, by columns, by both if the machine has processors for it; k = 1, few rows.
  for (const Size size : {Size{200, 192, 150}, Size{700, 100, 80}, Size{70, 1000, 90}, Size{515, 501, 130},
                          Size{2100, 2005, 1}, Size{2, 3000, 701}, Size{70, 16, 3800}}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        for (const Index gap : {0, 5}) {
          if (shortened() && ((gap == 0) != (trans_a == trans_b) || trans_a != (gap == 0))) continue;
          const int threads = gap == 0 ? 1 : 2;
          check_chosen_matmul(make_call(GemmType::f32, trans_a, trans_b, size.m, size.n, size.k, gap),
                              threads, random);
        }
      }
    }
  }
  GemmCall g = make_call(GemmType::f32, false, true, 150, 200, 144, 1);
  g.batch = 3;
  for (const int threads : {1, 2, 3}) {
    check_chosen_matmul(g, threads, random);
    g.stride_b = 0;
    check_chosen_matmul(g, threads, random);
    g.stride_b = g.n * g.ldb;
  }
  g = make_call(GemmType::f32, false, false, 2100, 2005, 1);
  g.ldb = 0;  // one row needs none
  check_chosen_matmul(g, 2, random);
}

TEST_CASE("threads change no bit, and pieces may be run one by one") {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  const Index m = 515, n = 410, k = 1100;
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (float& x : a) x = normal(random);
  for (float& x : b) x = normal(random);
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const Index rows : {Index{1}, Index{2}, Index{150}, m}) {
        const GemmCall g = make_call(GemmType::f32, trans_a, trans_b, rows, n, k);
        std::vector<float> one(static_cast<std::size_t>(rows * n)), more(one), pieces(one);
        const auto check_plans = [&](auto... isa) {
          GemmPlan(g, 1, isa...).run(a.data(), b.data(), one.data());
          for (const int threads : {1, 2, 3, 5, 16}) {
            const GemmPlan plan(g, threads, isa...);
            plan.run(a.data(), b.data(), more.data());
            CHECK(std::memcmp(one.data(), more.data(), one.size() * sizeof(float)) == 0);
            for (int i = plan.pieces(); i-- > 0;) plan.run_piece(i, a.data(), b.data(), pieces.data());
            CHECK(std::memcmp(one.data(), pieces.data(), one.size() * sizeof(float)) == 0);
          }
        };
        check_plans();
        check_plans(GemmIsa::avx512);
      }
    }
  }
}

TEST_CASE_TEMPLATE("elements after the ends of rows are left out, and the rest is the same", T, float, double,
                   std::complex<float>, std::int32_t) {
  std::mt19937 random(17);
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (const Index size : {16, 32, 65}) {
      for (const Index k : {5, 90, 800}) {
        for (const bool trans_a : {false, true}) {
          GemmCall g = make_call(TypeOf<T>::value, trans_a, k == 90, 3 * size, size, k);
          g.batch = k == 90 ? 2 : 1;
          std::vector<std::int32_t> ends(static_cast<std::size_t>(size));
          for (Index i = 0; i < size; ++i)
            ends[static_cast<std::size_t>(i)] =
                static_cast<std::int32_t>(size == 65 ? (i < 48 ? 9 : 0) : i + 1);
          const auto a = random_elements<T>(g.batch * g.stride_a, random);
          const auto b = random_elements<T>(g.batch * g.stride_b, random);
          std::vector<T> got(static_cast<std::size_t>(g.batch * g.stride_c), T(1000)), expected = got;
          for (const bool add : {false, true}) {
            g.add = add;
            g.row_ends = nullptr;
            plain_matmul(g, a.data(), b.data(), expected.data());
            g.row_ends = ends.data();
            g.row_period = size;
            const auto before = got;
            GemmPlan(g, 1, isa).run(a.data(), b.data(), got.data());
            std::size_t wrong = 0, unwanted = 0, left_out = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
              const auto row = static_cast<Index>(i) / size, column = static_cast<Index>(i) % size;
              if (column < ends[static_cast<std::size_t>(row % size)]) {
                wrong += got[i] == expected[i] ? 0U : 1U;
              } else {
                ++unwanted;
                left_out += got[i] == (add ? before[i] : T()) ? 1U : 0U;
              }
            }
            INFO(describe(g, 1, isa));
            CHECK(wrong == 0);
            if (size > 16) CHECK(left_out > unwanted / 2);
            GemmPlan pieces(g, 3, isa);
            auto again = before;
            pieces.run(a.data(), b.data(), again.data());
            for (std::size_t i = 0; i < got.size(); ++i) {
              const auto row = static_cast<Index>(i) / size, column = static_cast<Index>(i) % size;
              if (column < ends[static_cast<std::size_t>(row % size)]) wrong += again[i] == got[i] ? 0U : 1U;
            }
            CHECK(wrong == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("sizes that contradict one another are refused by name") {
  const auto refused = [](auto&& change, const char* part) {
    GemmCall g = make_call(GemmType::f32, false, false, 4, 5, 6);
    g.batch = 2;
    change(g);
    std::string message;
    try {
      gemm(g, nullptr, nullptr, nullptr, 1);
    } catch (const GemmError& error) {
      message = error.what();
    }
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  refused([](GemmCall& g) { g.m = -1; }, "m >= 0, got -1");
  refused([](GemmCall& g) { g.lda = 5; }, "leading dimension of A of at least 6, got 5");
  refused([](GemmCall& g) { g.ldb = 4; }, "leading dimension of B of at least 5, got 4");
  refused([](GemmCall& g) { g.ldc = 4; }, "leading dimension of C of at least 5, got 4");
  refused([](GemmCall& g) { g.stride_c = 19; }, "do not overlap, got stride_c 19");
  refused([](GemmCall& g) { g.stride_a = std::numeric_limits<Index>::max(); },
          "bytes of A to fit in an int64");
  refused([](GemmCall& g) { g.m = g.lda = Index{1} << 40; }, "to fit in an int64");
}

TEST_CASE("a transposed B may be packed beforehand, one that is read where it is need not") {
  const auto bytes = [](bool trans_b, Index m, Index batch) {
    GemmCall g = make_call(GemmType::f64, false, trans_b, m, 20, 30);
    g.batch = batch;
    return GemmPlan(g, 1).packed_bytes();
  };
  // Panels, and which terms each has.
  CHECK(bytes(true, 3, 1) == 30 * 32 * 8 + 20 * 8 / 32 * 16);
  CHECK(bytes(true, 2, 1) == 0);
  CHECK(bytes(true, 3, 2) == 0);
  CHECK(bytes(false, 3, 1) == 0);
}

TEST_CASE("the code that runs has a name") {
  const auto name = [](GemmType type, Index n) {
    return std::string(gemm_library(make_call(type, false, false, n, n, n)));
  };
  CHECK(name(GemmType::f32, 2).rfind("tidu/", 0) == 0);
  CHECK(name(GemmType::f64, 500).rfind("tidu/", 0) == 0);
  CHECK((name(GemmType::f32, 500) == "onednn" || name(GemmType::f32, 500).rfind("tidu/", 0) == 0));
}
