// Reductions of short lines that are adjacent to those of the next output, as windows of pictures are:
// integers in floating types, so that any order of sums has the same bits, and NaN.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

Tensor small_numbers(Type type, bool special, std::mt19937_64& random) {
  Tensor tensor(type);
  const auto fill = [&]<class T>(std::type_identity<T>) {
    T* at = tensor.mutable_data<T>();
    for (std::int64_t i = 0; i < type.size(); ++i) {
      const int value = static_cast<int>(random() % 7) - 3;
      at[i] = static_cast<T>(value);
      if constexpr (std::is_floating_point_v<T>) {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        if (special && random() % 40 == 0) at[i] = random() % 2 == 0 ? infinity : infinity - infinity;
      }
    }
  };
  switch (type.dtype()) {
    case DType::f32: fill(std::type_identity<float>()); break;
    case DType::f64: fill(std::type_identity<double>()); break;
    case DType::i32: fill(std::type_identity<std::int32_t>()); break;
    default: fill(std::type_identity<std::int64_t>()); break;
  }
  return tensor;
}

template <class T>
void check_equal(const Tensor& got, const Tensor& expected) {
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const T a = got.data<T>()[i], b = expected.data<T>()[i];
    different += a == b || (a != a && b != b) ? 0 : 1;
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("[reductions] short lines side by side") {
  std::mt19937_64 random(11);
  const std::size_t rounds = scaled(400);
  for (std::size_t round = 0; round < rounds; ++round) {
    const DType dtype = std::array{f32, f64, i32, i64}[random() % 4];
    const auto extent = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % most) + 1; };
    // Picture, rows of windows, rows, windows, and their columns; some with one more axis before.
    Shape shape{extent(3), extent(5), extent(5), extent(300), extent(17)};
    Ints axes{2, 4};
    if (random() % 3 == 0) {
      shape.insert(shape.begin() + 2, extent(3));
      axes = random() % 2 == 0 ? Ints{1, 3, 5} : Ints{3, 5};
    }
    const Type type(dtype, shape);
    GraphBuilder g("folds");
    const Value x = g.input("x", type);
    std::vector<Value> outputs{ops::reduce_sum(x, axes), ops::reduce_max(x, axes), ops::reduce_min(x, axes)};
    if (random() % 4 == 0) outputs.push_back(ops::reduce_prod(x, axes));
    const Graph graph = g.build(outputs);
    const std::vector<Tensor> inputs{small_numbers(type, random() % 3 == 0, random)};
    const std::vector<Tensor> expected = reference().run(graph, inputs);
    for (const int threads : {1, 2}) {
      const std::vector<Tensor> got = CpuExecutor({.threads = threads}).run(graph, inputs);
      for (std::size_t k = 0; k < got.size(); ++k) {
        CAPTURE(k);
        CAPTURE(round);
        switch (dtype) {
          case DType::f32: check_equal<float>(got[k], expected[k]); break;
          case DType::f64: check_equal<double>(got[k], expected[k]); break;
          case DType::i32: check_equal<std::int32_t>(got[k], expected[k]); break;
          default: check_equal<std::int64_t>(got[k], expected[k]); break;
        }
      }
    }
  }
}
