// Kernels of layout operations, indexing, reductions and matmuls, by small examples worked out by hand.
#include <algorithm>
#include <cmath>

#include "reference/run.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;
using C = std::complex<double>;

// [[0, 1, 2], [3, 4, 5]]
Tensor grid() { return Tensor::from<std::int32_t>({2, 3}, {0, 1, 2, 3, 4, 5}); }

}  // namespace

TEST_CASE("qr of tall matrices needs no square one") {
  const std::int64_t rows = 200000;
  Tensor x(Type(f64, {rows, 2}));
  for (std::int64_t i = 0; i < 2 * rows; ++i)
    x.mutable_elements<double>()[static_cast<std::size_t>(i)] = static_cast<double>(i % 7) - 2.5;
  const auto parts = run_op("qr", {x}, {});
  const auto q = parts[0].elements<double>(), r = parts[1].elements<double>();
  double dot = 0, apart = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    dot += q[2 * i] * q[2 * i + 1];
    apart =
        std::max(apart, std::abs(q[2 * i] * r[1] + q[2 * i + 1] * r[3] - x.elements<double>()[2 * i + 1]));
  }
  CHECK(std::abs(dot) < 1e-12);
  CHECK(apart < 1e-8);
  const auto empty = run_op("qr", {Tensor(Type(f64, {std::int64_t{1} << 32, 0}))}, {});
  CHECK(empty[0].shape() == Shape{std::int64_t{1} << 32, 0});
}

TEST_CASE("elements move") {
  CHECK(data_of("reshape", {grid()}, {{"new_sizes", Ints{3, 2}}}) == "[0, 1, 2, 3, 4, 5]");
  CHECK(data_of("transpose", {grid()}, {{"permutation", Ints{1, 0}}}) == "[0, 3, 1, 4, 2, 5]");
  const Tensor cube = Tensor::from<std::int32_t>({2, 1, 3}, {0, 1, 2, 3, 4, 5});
  const Tensor turned = run_op("transpose", {cube}, {{"permutation", Ints{2, 0, 1}}})[0];
  CHECK(turned.shape() == Shape{3, 2, 1});
  CHECK(data_of(turned) == "[0, 3, 1, 4, 2, 5]");
  CHECK(data_of("broadcast_in_dim", {row({7, 8})},
                {{"shape", Ints{2, 2}}, {"broadcast_dimensions", Ints{0}}}) == "[7, 7, 8, 8]");
  CHECK(data_of("broadcast_in_dim", {Tensor::from<std::int32_t>({1, 2}, {7, 8})},
                {{"shape", Ints{2, 2}}, {"broadcast_dimensions", Ints{0, 1}}}) == "[7, 8, 7, 8]");
  CHECK(data_of("squeeze", {cube}, {{"dimensions", Ints{1}}}) == "[0, 1, 2, 3, 4, 5]");
  CHECK(data_of("expand_dims", {grid()}, {{"dimensions", Ints{0}}}) == "[0, 1, 2, 3, 4, 5]");
  CHECK(data_of("rev", {grid()}, {{"dimensions", Ints{1}}}) == "[2, 1, 0, 5, 4, 3]");
  CHECK(data_of("rev", {grid()}, {{"dimensions", Ints{0, 1}}}) == "[5, 4, 3, 2, 1, 0]");
  CHECK(data_of("slice", {grid()},
                {{"start_indices", Ints{1, 0}}, {"limit_indices", Ints{2, 3}}, {"strides", Ints{1, 2}}}) ==
        "[3, 5]");
  CHECK(data_of("concatenate", {grid(), Tensor::from<std::int32_t>({2, 1}, {8, 9})}, {{"dimension", 1}}) ==
        "[0, 1, 2, 8, 3, 4, 5, 9]");
  CHECK(data_of("stop_gradient", {row({1.5})}) == "[1.5]");
  CHECK(data_of("device_put", {row({1.5})}, {{"device", "cuda:0"}, {"src", "cpu"}}) == "[1.5]");
  const auto passed = run_op("optimization_barrier", {grid(), row({1.5})}, {{"instance", 1}});
  CHECK(data_of(passed[0]) == "[0, 1, 2, 3, 4, 5]");
  CHECK(data_of(passed[1]) == "[1.5]");
}

TEST_CASE("padding may be interior, and cuts where it is negative") {
  const auto pad = [](Tensor x, IntLists config) {
    return data_of("pad", {std::move(x), Tensor::scalar(9)}, {{"padding_config", std::move(config)}});
  };
  CHECK(pad(row({1, 2}), {{1, 2, 0}}) == "[9, 1, 2, 9, 9]");
  CHECK(pad(row({1, 2, 3}), {{0, 0, 2}}) == "[1, 9, 9, 2, 9, 9, 3]");
  CHECK(pad(row({1, 2, 3}), {{-1, 1, 1}}) == "[9, 2, 9, 3, 9]");
  CHECK(pad(row({1, 2, 3}), {{-1, -1, 0}}) == "[2]");
  CHECK(pad(Tensor(Type(i32, {0})), {{1, 1, 3}}) == "[9, 9]");
  CHECK(pad(grid(), {{0, 1, 0}, {1, -1, 0}}) == "[9, 0, 1, 9, 3, 4, 9, 9, 9]");
}

TEST_CASE("take clips indices or drops them") {
  const Attributes clip{{"axis", 1}}, drop{{"axis", 1}, {"mode", "drop"}};
  CHECK(data_of("take", {grid(), row({2, -1, 7})}, clip) == "[2, 0, 2, 5, 3, 5]");
  CHECK(data_of("take", {grid(), row({2, -1, 7})}, drop) == "[2, 0, 0, 5, 0, 0]");
  const Tensor square = run_op(
      "take", {row({5.0, 6.0, 7.0}), Tensor::from<std::int64_t>({2, 2}, {0, 2, 1, 1})}, {{"axis", 0}})[0];
  CHECK(square.shape() == Shape{2, 2});
  CHECK(data_of(square) == "[5.0, 7.0, 6.0, 6.0]");
  CHECK(data_of("take", {grid(), Tensor::scalar(1)}, {{"axis", 0}}) == "[3, 4, 5]");
  CHECK(data_of("take", {Tensor(Type(f32, {0})), row({0, 1})}, {{"axis", 0}, {"mode", "drop"}}) ==
        "[0.0, 0.0]");
  CHECK(data_of("take_along_axis", {grid(), Tensor::from<std::int32_t>({2, 2}, {2, 0, 1, 9})}, clip) ==
        "[2, 0, 4, 5]");
  CHECK(data_of("take_along_axis", {grid(), Tensor::from<std::int32_t>({1, 3}, {1, 0, 9})},
                {{"axis", 0}, {"mode", "drop"}}) == "[3, 1, 0]");
}

TEST_CASE("scatter_add sums repeated indices, and clips or drops others") {
  const Tensor zeros = Tensor::zeros(Type(i32, {3}));
  const Tensor at = row({0, 2, 0, 5, -1}), updates = row({1, 10, 100, 1000, 10000});
  CHECK(data_of("scatter_add", {zeros, at, updates}, {{"axis", 0}}) == "[10101, 0, 1010]");
  CHECK(data_of("scatter_add", {zeros, at, updates}, {{"axis", 0}, {"mode", "drop"}}) == "[101, 0, 10]");
  CHECK(data_of("scatter_add", {grid(), row({1}), Tensor::from<std::int32_t>({2, 1}, {10, 20})},
                {{"axis", 1}}) == "[0, 11, 2, 3, 24, 5]");
  CHECK(data_of("scatter_add_along_axis",
                {grid(), Tensor::from<std::int32_t>({2, 2}, {2, 2, 0, 7}),
                 Tensor::from<std::int32_t>({2, 2}, {10, 20, 30, 40})},
                {{"axis", 1}, {"mode", "drop"}}) == "[0, 1, 32, 33, 4, 5]");
  CHECK(data_of("scatter_add", {row({C(1, 1)}), row({0, 0}), row({C(1, 0), C(0, 2)})}, {{"axis", 0}}) ==
        "[[2.0, 3.0]]");
  // in f32, and in the order of the indices: 1e8 + 1 + ... stays 1e8
  CHECK(data_of("scatter_add", {row({1e8F}), row({0, 0, 0}), row({1.0F, 1.0F, 1.0F})}, {{"axis", 0}}) ==
        "[100000000.0]");
}

TEST_CASE("reductions") {
  CHECK(data_of("reduce_sum", {grid()}, {{"axes", Ints{0}}}) == "[3, 5, 7]");
  CHECK(data_of("reduce_sum", {grid()}, {{"axes", Ints{1}}}) == "[3, 12]");
  CHECK(data_of("reduce_sum", {grid()}, {{"axes", Ints{0, 1}}}) == "[15]");
  CHECK(data_of("reduce_sum", {grid()}, {{"axes", Ints{}}}) == "[0, 1, 2, 3, 4, 5]");
  CHECK(data_of("reduce_prod", {row({C(1, 2), C(3, 4)})}, {{"axes", Ints{0}}}) == "[[-5.0, 10.0]]");
  CHECK(data_of("reduce_max", {row({1.0, not_a_number, 3.0})}, {{"axes", Ints{0}}}) == "[\"nan\"]");
  CHECK(data_of("reduce_min", {grid()}, {{"axes", Ints{1}}}) == "[0, 3]");
  CHECK(data_of("reduce_and", {row({true, false})}, {{"axes", Ints{0}}}) == "[false]");
  CHECK(data_of("reduce_or", {row({true, false})}, {{"axes", Ints{0}}}) == "[true]");
  CHECK(data_of("reduce_max", {row({true, false})}, {{"axes", Ints{0}}}) == "[true]");
  CHECK(data_of("reduce_min", {row({true, false})}, {{"axes", Ints{0}}}) == "[false]");
}

TEST_CASE("reductions over no elements") {
  const auto none = [](std::string_view primitive, DType dtype) {
    return data_of(primitive, {Tensor(Type(dtype, {0}))}, {{"axes", Ints{0}}});
  };
  CHECK(none("reduce_sum", f32) == "[0.0]");
  CHECK(none("reduce_prod", c128) == "[[1.0, 0.0]]");
  CHECK(none("reduce_max", f64) == "[\"-inf\"]");
  CHECK(none("reduce_max", i32) == "[-2147483648]");
  CHECK(none("reduce_min", f16) == "[\"inf\"]");
  CHECK(none("reduce_min", i64) == "[9223372036854775807]");
  CHECK(none("reduce_max", bool_) == "[false]");
  CHECK(none("reduce_min", bool_) == "[true]");
  CHECK(none("reduce_and", bool_) == "[true]");
  CHECK(none("reduce_or", bool_) == "[false]");
  CHECK(none("logsumexp", f64) == "[\"-inf\"]");
}

TEST_CASE("argmax and argmin: the lowest index wins a tie, NaN wins over all") {
  const auto arg = [](std::string_view primitive, Tensor x, std::int64_t axis, DType dtype = i32) {
    return data_of(primitive, {std::move(x)}, {{"axis", axis}, {"index_dtype", dtype}});
  };
  CHECK(arg("argmax", row({1.0, 3.0, 3.0}), 0) == "[1]");
  CHECK(arg("argmin", row({1.0, 0.0, -0.0}), 0, i64) == "[1]");
  CHECK(arg("argmax", row({1.0, not_a_number, inf, not_a_number}), 0) == "[1]");
  CHECK(arg("argmin", row({1.0, not_a_number, -inf}), 0) == "[1]");
  CHECK(arg("argmax", row({false, true, true}), 0) == "[1]");
  CHECK(arg("argmin", row({true, true, false, false}), 0, i64) == "[2]");
  CHECK(arg("argmax", row({false, false}), 0) == "[0]");
  CHECK(arg("argmax", grid(), 0) == "[1, 1, 1]");
  CHECK(arg("argmin", grid(), 1) == "[0, 0]");
}

TEST_CASE("cumsum runs either way along its axis") {
  CHECK(data_of("cumsum", {grid()}, {{"axis", 1}, {"reverse", false}}) == "[0, 1, 3, 3, 7, 12]");
  CHECK(data_of("cumsum", {grid()}, {{"axis", 1}, {"reverse", true}}) == "[3, 3, 2, 12, 9, 5]");
  CHECK(data_of("cumsum", {grid()}, {{"axis", 0}, {"reverse", false}}) == "[0, 1, 2, 3, 5, 7]");
}

TEST_CASE("cumprod, cummax, cummin and cumlogsumexp") {
  const auto along = [](std::int64_t axis, bool reverse) {
    return Attributes{{"axis", axis}, {"reverse", reverse}};
  };
  CHECK(data_of("cumprod", {row({2, -1, 0, 7})}, along(0, false)) == "[2, -2, 0, 0]");
  CHECK(data_of("cumprod", {row({2, -1, 5, 7})}, along(0, true)) == "[-70, -35, 35, 7]");
  CHECK(data_of("cumprod", {row({C(0, 1), C(0, 1), C(2, 0)})}, along(0, false)) ==
        "[[0.0, 1.0], [-1.0, 0.0], [-2.0, 0.0]]");
  CHECK(data_of("cummax", {row({1.0, -0.0, 0.0, 3.0, 2.0})}, along(0, false)) == "[1.0, 1.0, 1.0, 3.0, 3.0]");
  CHECK(data_of("cummax", {row({-0.0, 0.0})}, along(0, false)) == "[-0.0, -0.0]");
  CHECK(data_of("cummax", {row({1.0, not_a_number, 3.0})}, along(0, true)) == "[\"nan\", \"nan\", 3.0]");
  CHECK(data_of("cummin", {row({4, 5, -7, 0})}, along(0, false)) == "[4, 4, -7, -7]");
  CHECK(data_of("cummin", {grid()}, along(0, true)) == "[0, 1, 2, 3, 4, 5]");
  CHECK(data_of("cummin", {Tensor(Type(f64, {0, 2}))}, along(0, true)) == "[]");
  CHECK(data_of("cumlogsumexp", {row({-inf, -inf, 1000.0, -inf, inf, inf})}, along(0, false)) ==
        "[\"-inf\", \"-inf\", 1000.0, 1000.0, \"inf\", \"inf\"]");
  const Tensor sums = run_op("cumlogsumexp", {row({0.0, 0.0, -700.0, 710.0})}, along(0, true))[0];
  CHECK(close(sums.at(1), 710.0));
  const Tensor logs = run_op("cumlogsumexp", {row({0.0, 0.0, 0.0, 0.0})}, along(0, false))[0];
  for (std::int64_t k = 0; k < 4; ++k) CHECK(close(logs.at(k), std::log(static_cast<double>(k + 1))));
}

TEST_CASE("sort is stable, takes -0 for 0 and puts NaN last; later keys order equals") {
  const auto sorted = [](std::vector<Tensor> operands, std::int64_t keys, std::size_t slot) {
    return data_of(run_op("sort", operands, {{"dimension", 0}, {"num_keys", keys}})[slot]);
  };
  const Tensor places = row({0, 1, 2, 3, 4, 5});
  const Tensor odd = row({not_a_number, 0.0, -0.0, inf, -inf, not_a_number});
  CHECK(sorted({odd}, 1, 0) == "[\"-inf\", 0.0, -0.0, \"inf\", \"nan\", \"nan\"]");
  CHECK(sorted({odd, places}, 1, 1) == "[4, 1, 2, 3, 0, 5]");
  const Tensor a = row({1, 0, 1, 0, 1, 0}), b = row({2.0, 1.0, 1.0, 1.0, 2.0, 0.0});
  CHECK(sorted({a, b, places}, 1, 2) == "[1, 3, 5, 0, 2, 4]");
  CHECK(sorted({a, b, places}, 2, 2) == "[5, 1, 3, 2, 0, 4]");
  CHECK(sorted({a, b, places}, 3, 1) == "[0.0, 1.0, 1.0, 1.0, 2.0, 2.0]");
  CHECK(
      sorted({row({C(1, 1), C(0, 2), C(1, -1), C(not_a_number, 0), C(0, not_a_number), C(-0.0, 3)}), places},
             1, 1) == "[1, 5, 4, 2, 0, 3]");
  CHECK(data_of("sort", {Tensor::from<bool>({2, 2}, {true, true, false, true})},
                {{"dimension", 0}, {"num_keys", 1}}) == "[false, true, true, true]");
}

TEST_CASE("top_k gives NaN first, then the greatest, the lowest index first among equals") {
  const auto top = [](Tensor x, std::int64_t k, std::size_t slot) {
    return data_of(run_op("top_k", {std::move(x)}, {{"k", k}})[slot]);
  };
  const Tensor odd = row({1.0, not_a_number, -0.0, 0.0, 1.0, not_a_number});
  CHECK(top(odd, 6, 1) == "[1, 5, 0, 4, 3, 2]");
  CHECK(top(odd, 3, 0) == "[\"nan\", \"nan\", 1.0]");
  CHECK(top(grid(), 2, 1) == "[2, 1, 2, 1]");
  CHECK(top(grid(), 2, 0) == "[2, 1, 5, 4]");
  CHECK(top(grid(), 0, 0) == "[]");
}

TEST_CASE("dynamic slices move their windows inside") {
  const auto at = [](std::int64_t start) { return Tensor::scalar(start); };
  const auto part = [&](std::int64_t i, std::int64_t j) {
    return data_of("dynamic_slice", {grid(), at(i), at(j)}, {{"slice_sizes", Ints{1, 2}}});
  };
  CHECK(part(1, 0) == "[3, 4]");
  CHECK(part(-9, 99) == "[1, 2]");
  CHECK(part(INT64_MAX, INT64_MIN) == "[3, 4]");
  CHECK(data_of("dynamic_slice", {Tensor::scalar(2.0)}, {{"slice_sizes", Ints{}}}) == "[2.0]");
  const Tensor update = Tensor::from<std::int32_t>({1, 2}, {8, 9});
  CHECK(data_of("dynamic_update_slice", {grid(), update, at(-1), at(1)}) == "[0, 8, 9, 3, 4, 5]");
  CHECK(data_of("dynamic_update_slice", {grid(), update, at(5), at(5)}) == "[0, 1, 2, 3, 8, 9]");
}

TEST_CASE("logsumexp neither overflows nor loses infinities") {
  const auto of = [](Tensor x) { return run_op("logsumexp", {std::move(x)}, {{"axes", Ints{0}}})[0].at(0); };
  CHECK(close(of(row({0.0, 0.0})), std::log(2.0)));
  CHECK(close(of(row({1000.0, 1000.0, -1e9})), 1000 + std::log(2.0)));
  CHECK(of(row({-inf, -inf})) == -inf);
  CHECK(of(row({inf, 1.0})) == inf);
  CHECK(std::isnan(of(row({not_a_number, 1.0})).real()));
}

TEST_CASE("dot_general contracts, batches and orders its axes") {
  const auto dot = [](Tensor x, Tensor y, IntLists numbers) {
    return run_op("dot_general", {std::move(x), std::move(y)},
                  {{"dimension_numbers", std::move(numbers)}})[0];
  };
  const Tensor b = Tensor::from<std::int32_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(data_of(dot(grid(), b, {{1}, {0}, {}, {}})) == "[13, 16, 40, 52]");
  CHECK(data_of(dot(grid(), grid(), {{0, 1}, {0, 1}, {}, {}})) == "[55]");
  CHECK(data_of(dot(row({1.0, 2.0}), row({3.0, 4.0}), {{}, {}, {}, {}})) == "[3.0, 4.0, 6.0, 8.0]");
  // axis 1 of lhs is axis 0 of rhs, both batched; axis 0 of lhs is contracted with axis 1 of rhs
  const Tensor batched = dot(grid(), b, {{0}, {1}, {1}, {0}});
  CHECK(batched.shape() == Shape{3});
  CHECK(data_of(batched) == "[6, 19, 40]");
  const Tensor left = Tensor::from<double>({2, 3, 1}, {1, 2, 3, 4, 5, 6}),
               right = Tensor::from<double>({2, 3, 2}, {1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 2, 2});
  const Tensor product = dot(left, right, {{1}, {1}, {0}, {0}});
  CHECK(product.shape() == Shape{2, 1, 2});
  CHECK(data_of(product) == "[4.0, 5.0, 20.0, 22.0]");
  CHECK(data_of(dot(row({C(0, 1)}), row({C(0, 1)}), {{0}, {0}, {}, {}})) == "[[-1.0, 0.0]]");
  CHECK(data_of(dot(Tensor(Type(f32, {2, 0})), Tensor(Type(f32, {0})), {{1}, {0}, {}, {}})) == "[0.0, 0.0]");
}
