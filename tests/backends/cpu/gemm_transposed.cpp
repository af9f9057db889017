// Matmuls by a transposed B: the bits of a matmul by a B that was packed before, and nothing read or written
// outside the matrices.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu/matmul/gemm.hpp"

using namespace tidu::cpu_detail;
using Index = std::int64_t;

namespace {

template <class T>
std::vector<T> random_matrix(Index size, std::mt19937& random) {
  std::uniform_real_distribution<T> real(-1, 1);
  std::vector<T> v(static_cast<std::size_t>(size));
  for (T& x : v) x = real(random);
  return v;
}

/// Elements from the first to the last of `rows` rows.
Index extent(Index rows, Index columns, Index ld) { return (rows - 1) * ld + columns; }

/// The elements of C that are not those of the packed matmul; C is NaN before, and stays so between rows.
template <class T>
Index wrong_elements(bool trans_a, Index m, Index n, Index k, Index gap, Index batch, bool add, GemmIsa isa,
                     std::mt19937& random) {
  GemmCall g;
  g.type = sizeof(T) == 4 ? GemmType::f32 : GemmType::f64;
  g.trans_a = trans_a;
  g.trans_b = true;
  g.m = m;
  g.n = n;
  g.k = k;
  g.lda = (trans_a ? m : k) + gap;
  g.ldb = k + gap;
  g.ldc = n + gap;
  const Index size_a = trans_a ? extent(k, m, g.lda) : extent(m, k, g.lda), size_b = extent(n, k, g.ldb);
  g.stride_a = size_a;
  g.stride_b = size_b;
  g.stride_c = m * g.ldc;
  const std::vector<T> a = random_matrix<T>(batch * size_a, random),
                       b = random_matrix<T>(batch * size_b, random);
  std::vector<T> expected(static_cast<std::size_t>(batch * g.stride_c), std::numeric_limits<T>::quiet_NaN());
  for (Index i = 0; add && i < batch * m; ++i) {
    for (Index j = 0; j < n; ++j) expected[static_cast<std::size_t>(i * g.ldc + j)] = static_cast<T>(i - j);
  }
  std::vector<T> got = expected;
  g.add = add;
  const GemmPlan one(g, 1, isa);  // B of a single matmul alone is packed
  std::vector<T> scratch(static_cast<std::size_t>(one.packed_bytes()) / sizeof(T) + 64);
  void* packed = scratch.data();
  std::size_t bytes = scratch.size() * sizeof(T);
  REQUIRE(std::align(64, static_cast<std::size_t>(one.packed_bytes()), packed, bytes) != nullptr);
  for (Index q = 0; q < batch; ++q) {
    one.pack(b.data() + q * g.stride_b, packed);
    one.packed().run(a.data() + q * g.stride_a, packed, expected.data() + q * g.stride_c);
  }
  g.batch = batch;
  GemmPlan(g, 1, isa).run(a.data(), b.data(), got.data());
  Index wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = got[i] != got[i] && expected[i] != expected[i];
    wrong += got[i] == expected[i] || both_nan ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("[prepacked] [gemm] a transposed B gives the bits of a packed one", T, float, double) {
  std::mt19937 random(29);
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (const bool trans_a : {false, true}) {
      for (const bool add : {false, true}) {
        const auto check = [&](Index m, Index n, Index k, Index gap, Index batch) {
          const std::string sizes = std::to_string(m) + " x " + std::to_string(n) + " x " +
                                    std::to_string(k) + ", gap " + std::to_string(gap) + ", " +
                                    std::to_string(batch);
          CHECK_MESSAGE(wrong_elements<T>(trans_a, m, n, k, gap, batch, add, isa, random) == 0, sizes);
        };
        // Each height of the first tiles and of those after them, each last width, each rest of terms.
        for (Index m = 3; m <= 34; ++m) check(m, 9 + m % 4 * 7, 32 + m % 5, m % 3, 1);
        for (Index n = 9; n <= 70; ++n) check(n % 2 == 0 ? 16 : 19, n, 33, n % 3, 1);
        for (Index k = 8; k <= 44; ++k) check(k % 2 == 0 ? 10 : 16, k % 3 == 0 ? 16 : 30, k, 0, 2);
        // Larger ones: several blocks of terms; rows of A, or of B, that are pages from each other.
        check(37, 150, 800, 1, 1);
        check(32, 48, 512, 0, 1);
        check(32, 48, 1024, 0, 1);
        // Batches of a tile, or of more, each.
        check(16, 16, 8, 0, 16);
        check(16, 32, 8, 4, 5);
        check(24, 33, 40, 0, 3);
      }
    }
  }
}
