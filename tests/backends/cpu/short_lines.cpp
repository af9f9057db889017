// Reductions of short contiguous lines, several of them at once: the bits of each line alone.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

const char* const short_reductions[] = {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "logsumexp"};

Value reduce_last(const std::string& name, Value x) {
  const Ints axes{static_cast<std::int64_t>(x.type().rank()) - 1};
  if (name == "reduce_sum") return ops::reduce_sum(x, axes);
  if (name == "reduce_prod") return ops::reduce_prod(x, axes);
  if (name == "reduce_max") return ops::reduce_max(x, axes);
  if (name == "reduce_min") return ops::reduce_min(x, axes);
  return ops::logsumexp(x, axes);
}

Tensor reduce_with(const std::string& name, const Tensor& x, int threads) {
  GraphBuilder g(name);
  CpuOptions options;
  options.threads = threads;
  const Graph graph = g.build({reduce_last(name, g.input("x", x.type()))});
  return CpuExecutor(options).compile(graph).run(std::vector{x})[0];
}

// Numbers, and in some lines infinities and NaN.
template <class T>
std::vector<T> line_elements(std::int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<T> real(-3, 3);
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T odd[] = {infinity, -infinity, infinity - infinity, T(0), -T(0)};
  std::vector<T> v;
  for (std::int64_t i = 0; i < count; ++i) v.push_back(random() % 40 == 0 ? odd[random() % 5] : real(random));
  return v;
}

template <class T>
bool is_same_number(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// The result of reducing `count` numbers one after another.
template <class T>
T reduce_in_order(const std::string& name, const T* x, std::int64_t count) {
  T value = x[0];
  for (std::int64_t i = 1; i < count; ++i) {
    if (name == "reduce_sum") value += x[i];
    if (name == "reduce_prod") value *= x[i];
    if (name == "reduce_max") value = value > x[i] || std::isnan(value) ? value : x[i];
    if (name == "reduce_min") value = value < x[i] || std::isnan(value) ? value : x[i];
  }
  return value;
}

// Computed with more digits.
template <class T>
bool is_logsumexp(T got, const T* x, std::int64_t count) {
  long double largest = -std::numeric_limits<long double>::infinity(), sum = 0;
  bool has_nan = false;
  for (std::int64_t i = 0; i < count; ++i) {
    has_nan = has_nan || std::isnan(x[i]);
    largest = std::max(largest, static_cast<long double>(x[i]));
  }
  if (has_nan) return std::isnan(got);
  if (std::isinf(largest)) return got == static_cast<T>(largest);
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - largest);
  const long double expected = std::log(sum) + largest;
  return std::abs(got - expected) <= 8 * std::numeric_limits<T>::epsilon() * (1 + std::abs(largest));
}

}  // namespace

TEST_CASE_TEMPLATE("short lines are reduced as each does alone", T, float, double) {
  std::mt19937_64 random(41);
  for (const std::string name : short_reductions) {
    for (std::int64_t length = 2; length <= 17; ++length) {
      for (const std::int64_t lines : {1, 2, 7, 8, 9, 16, 23, 700, 5000}) {
        CAPTURE(name);
        CAPTURE(length);
        CAPTURE(lines);
        const std::vector<T> x = line_elements<T>(lines * length, random);
        const Tensor got = reduce_with(name, Tensor::from<T>({lines, length}, x), 1);
        const Tensor shared = reduce_with(name, Tensor::from<T>({lines, length}, x), 2);
        REQUIRE(std::memcmp(got.bytes(), shared.bytes(), got.num_bytes()) == 0);
        std::int64_t wrong = 0;
        for (std::int64_t k = 0; k < lines; ++k) {
          const T* const line = x.data() + k * length;
          const T one = got.data<T>()[k];
          if (name == "logsumexp") {
            wrong += is_logsumexp(one, line, length) ? 0 : 1;
          } else if (length < 16) {
            wrong += is_same_number(one, reduce_in_order(name, line, length)) ? 0 : 1;
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("logsumexp of wide columns, with infinities and NaN") {
  std::mt19937_64 random(39);
  for (const DType dtype : {f32, f64, f16}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 8, 11}) {
      for (const std::int64_t columns : {63, 64, 65, 80, 255, 256, 257, 330}) {
        for (const bool special : {false, true})
          check_operation(Op::make(prim::logsumexp, {{"axes", Ints{0}}}), {Type(dtype, {rows, columns})},
                          {{-20, 20, special}}, random);
        check_operation(Op::make(prim::logsumexp, {{"axes", Ints{0, 2}}}),
                        {Type(dtype, {rows, 2, 3, columns})}, {{-20, 20}}, random);
      }
    }
  }
}

TEST_CASE_TEMPLATE("logsumexp of columns, many rows at once", T, float, double) {
  std::mt19937_64 random(47);
  const Shape shapes[] = {{2, 3}, {9, 1}, {1000, 5}, {300, 256}, {70, 700}, {1, 40}, {2000, 2}};
  for (const Shape& shape : shapes) {
    const std::int64_t rows = shape[0], columns = shape[1];
    const std::vector<T> x = line_elements<T>(rows * columns, random);
    GraphBuilder g("columns");
    const Graph graph = g.build({ops::logsumexp(g.input("x", Type(sizeof(T) == 4 ? f32 : f64, shape)), {0})});
    for (const int threads : {1, 2}) {
      CpuOptions options;
      options.threads = threads;
      const Tensor got = CpuExecutor(options).compile(graph).run(std::vector{Tensor::from<T>(shape, x)})[0];
      std::int64_t wrong = 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        std::vector<T> column;
        for (std::int64_t i = 0; i < rows; ++i)
          column.push_back(x[static_cast<std::size_t>(i * columns + j)]);
        wrong += is_logsumexp(got.data<T>()[j], column.data(), rows) ? 0 : 1;
      }
      CHECK_MESSAGE(wrong == 0, rows, " x ", columns, ", threads ", threads);
    }
  }
}
