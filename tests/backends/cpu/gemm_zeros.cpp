// Matmuls whose operands have blocks of zeros, for which kernels skip terms: the bits of the same matmul a
// few rows at a time, for which no term is skipped, and NaN wherever a zero meets infinity or NaN.
#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cpu/matmul/gemm.hpp"
#include "support/support.hpp"

using namespace tidu::cpu_detail;
using Index = std::int64_t;

namespace gemm_zeros_cases {
namespace {

template <class T>
constexpr GemmType type_of_elements() {
  if constexpr (std::is_same_v<T, float>) return GemmType::f32;
  if constexpr (std::is_same_v<T, double>) return GemmType::f64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return GemmType::c64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return GemmType::c128;
  if constexpr (std::is_same_v<T, std::int32_t>) return GemmType::i32;
  return GemmType::i64;
}

template <class T>
T random_element(std::mt19937& random) {
  const int whole = std::uniform_int_distribution<int>(-1000, 1000)(random);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(whole);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(whole) / T(700);
  } else {
    return T(random_element<typename T::value_type>(random), random_element<typename T::value_type>(random));
  }
}

/// Which terms of a row of op(A), or of a column of op(B), are there.
enum class Pattern : std::uint8_t { full, lower, upper, band, blocks, last, none, scattered };
constexpr Pattern patterns[] = {Pattern::full,   Pattern::lower, Pattern::upper, Pattern::band,
                                Pattern::blocks, Pattern::last,  Pattern::none,  Pattern::scattered};

bool is_there(Pattern pattern, Index line, Index lines, Index term, Index terms, std::mt19937& random) {
  const Index diagonal = line * terms / lines;
  switch (pattern) {
    case Pattern::full: return true;
    case Pattern::lower: return term <= diagonal;
    case Pattern::upper: return term >= diagonal;
    case Pattern::band: return std::abs(term - diagonal) < 9;
    case Pattern::blocks: return line / 40 % 2 == 0 ? term / 20 % 4 == line / 40 % 4 : term == 7;
    case Pattern::last: return term == terms - 1 && line == lines - 1;
    case Pattern::none: return false;
    case Pattern::scattered: return random() % 50 == 0;
  }
  return true;
}

/// Lines of terms, side by side, or the term of all lines after another (`across`); `gap` elements between.
template <class T>
std::vector<T> matrix(Pattern pattern, bool across, Index lines, Index terms, Index ld,
                      std::mt19937& random) {
  std::vector<T> v(static_cast<std::size_t>((across ? terms : lines) * ld), random_element<T>(random));
  for (Index i = 0; i < lines; ++i) {
    for (Index p = 0; p < terms; ++p) {
      T zero{};
      if constexpr (std::is_floating_point_v<T>) zero = random() % 3 == 0 ? -T(0) : T(0);
      const bool there = is_there(pattern, i, lines, p, terms, random);
      v[static_cast<std::size_t>(across ? p * ld + i : i * ld + p)] =
          there ? random_element<T>(random) : zero;
    }
  }
  return v;
}

template <class T>
bool are_same(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return x == y;
  } else if constexpr (std::is_floating_point_v<T>) {
    return x == y || (x != x && y != y);
  } else {
    return are_same(x.real(), y.real()) && are_same(x.imag(), y.imag());
  }
}

struct Case {
  Index m, n, k;
  Pattern of_a, of_b;
  bool trans_a, trans_b, add, packed;
  int not_finite;  // elements that are made so
};

std::string words(const Case& c) {
  std::string text = std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k);
  text += ", patterns " + std::to_string(static_cast<int>(c.of_a)) + ", " +
          std::to_string(static_cast<int>(c.of_b));
  text += c.trans_a ? ", A transposed" : "";
  text += c.trans_b ? ", B transposed" : "";
  text += c.add ? ", added" : "";
  text += c.packed ? ", packed" : "";
  return text + ", not finite " + std::to_string(c.not_finite);
}

template <class T>
Index differing_elements(const Case& c, int threads, GemmIsa isa, std::mt19937& random) {
  GemmCall g;
  g.type = type_of_elements<T>();
  g.trans_a = c.trans_a;
  g.trans_b = c.trans_b;
  g.m = c.m;
  g.n = c.n;
  g.k = c.k;
  g.add = c.add;
  g.lda = (c.trans_a ? c.m : c.k) + static_cast<Index>(random() % 3);
  g.ldb = (c.trans_b ? c.k : c.n) + static_cast<Index>(random() % 3);
  g.ldc = c.n + static_cast<Index>(random() % 3);
  std::vector<T> a = matrix<T>(c.of_a, c.trans_a, c.m, c.k, g.lda, random),
                 b = matrix<T>(c.of_b, !c.trans_b, c.n, c.k, g.ldb, random);
  if constexpr (!std::is_integral_v<T>) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (int i = 0; i < c.not_finite; ++i) {
      std::vector<T>& into = random() % 2 == 0 ? a : b;
      into[random() % into.size()] = static_cast<T>(random() % 2 == 0 ? infinity : infinity - infinity);
    }
  }
  std::vector<T> expected(static_cast<std::size_t>(c.m * g.ldc), random_element<T>(random)), got = expected;
  constexpr Index few = 24;  // rows for which no terms are left out
  const Index parts = (c.m + few - 1) / few;
  for (Index part = 0; part < parts; ++part) {
    const Index i = c.m * part / parts;
    GemmCall rows = g;
    rows.m = c.m * (part + 1) / parts - i;
    GemmPlan(rows, 1, isa).run(a.data() + (c.trans_a ? i : i * g.lda), b.data(), expected.data() + i * g.ldc);
  }
  const GemmPlan plan(g, threads, isa);
  const std::int64_t bytes = plan.packed_bytes();
  if (c.packed && bytes > 0) {
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    std::vector<Line> scratch(static_cast<std::size_t>(bytes) / sizeof(Line) + 1);
    plan.pack(b.data(), scratch.data());
    plan.packed().run(a.data(), scratch.data(), got.data());
  } else {
    plan.run(a.data(), b.data(), got.data());
  }
  Index differing = 0;
  for (std::size_t i = 0; i < got.size(); ++i) differing += are_same(got[i], expected[i]) ? 0 : 1;
  return differing;
}

}  // namespace

TEST_CASE_TEMPLATE("[matmuls] terms that are zeros in blocks are left out and change nothing", T, float,
                   double, std::complex<float>, std::complex<double>, std::int32_t, std::int64_t) {
  std::mt19937 random(31);
  const std::size_t rounds = tidu::test::scaled(2);
  for (const GemmIsa isa : {GemmIsa::baseline, GemmIsa::avx2, GemmIsa::avx512}) {
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const Pattern of_a : patterns) {
        for (const Pattern of_b : patterns) {
          const auto size = [&random](int least, int most) {
            return std::uniform_int_distribution<Index>(least, most)(random);
          };
          const auto coin = [&random] { return random() % 2 == 0; };
          Case c{size(32, 150), size(33, 170), size(100, 130), of_a, of_b, coin(), coin(), coin(), coin(), 0};
          if (random() % 3 == 0) c.not_finite = 1 + static_cast<int>(random() % 3);
          if (random() % 16 == 0) c.k += 300;  // several blocks of terms
          CHECK_MESSAGE(differing_elements<T>(c, coin() ? 1 : 2, isa, random) == 0, words(c));
        }
      }
    }
  }
}

}  // namespace gemm_zeros_cases
