// Rows of one length beside rows of another in one fusion, and one column of a matrix gathered more than
// once.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <type_traits>
#include <vector>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

Tensor run_on(const Graph& graph, const std::vector<Tensor>& inputs, int threads) {
  CpuOptions options;
  options.threads = threads;
  return CpuExecutor(options).compile(graph).run(inputs)[0];
}

// A matrix without its last column times numbers that repeat with another period, summed. All are whole, and
// so is the sum, exactly.
void check_repeated(std::int64_t rows, std::int64_t columns, std::int64_t period) {
  GraphBuilder g("repeated");
  const Value x = g.input("x", {f32, {rows, columns + 1}});
  const Value part = ops::slice(x, {0, 0}, {rows, columns});
  const Value places = ops::iota(g, {f32, {rows * columns / period, period}}, 1);
  const Graph graph =
      g.build({ops::reduce_sum(ops::mul(part, ops::reshape(places, {rows, columns})), {0, 1})});
  std::vector<float> ones(static_cast<std::size_t>(rows * (columns + 1)), 1.0F);
  const float expected = static_cast<float>(rows * columns / period * (period * (period - 1) / 2));
  REQUIRE(expected < 16'000'000);
  for (const int threads : {1, 2})
    CHECK(run_on(graph, {Tensor::from<float>({rows, columns + 1}, ones)}, threads).data<float>()[0] ==
          expected);
}

// Columns a, b and a again of a matrix of so many, some through its transpose.
template <class T>
void check_columns(std::int64_t rows, std::int64_t width, std::int64_t a, std::int64_t b) {
  GraphBuilder g("columns");
  const Value x = g.input("x", {std::is_same_v<T, float> ? f32 : f64, {rows, width}});
  const Value t = ops::transpose(x, {1, 0});
  const auto row_of_t = [&](std::int64_t k) {
    return ops::reshape(ops::slice(t, {k, 0}, {k + 1, rows}), {rows});
  };
  const Value first = row_of_t(a), second = row_of_t(b);
  const Value again = ops::reshape(ops::slice(x, {0, a}, {rows, a + 1}), {rows});
  const Graph graph = g.build({ops::add(ops::mul(first, second), again)});
  std::vector<T> elements(static_cast<std::size_t>(rows * width));
  std::iota(elements.begin(), elements.end(), T(1));
  for (const int threads : {1, 2}) {
    const Tensor got = run_on(graph, {Tensor::from<T>({rows, width}, elements)}, threads);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const T at_a = elements[static_cast<std::size_t>(i * width + a)],
              at_b = elements[static_cast<std::size_t>(i * width + b)];
      wrong += got.data<T>()[i] != at_a * at_b + at_a;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("[fused loads] elements that repeat in lines of another length than the fusion's") {
  check_repeated(210, 100, 140);
  check_repeated(210, 100, 150);
  check_repeated(310, 90, 155);
  check_repeated(500, 64, 80);
  check_repeated(301, 100, 43);
}

TEST_CASE_TEMPLATE("[columns] a column of a matrix that is taken twice", T, float, double) {
  for (const std::int64_t width : {2, 3, 4}) {
    for (std::int64_t a = 0; a < width; ++a) {
      for (std::int64_t b = 0; b < width; ++b) check_columns<T>(1000, width, a, b);
    }
  }
}
