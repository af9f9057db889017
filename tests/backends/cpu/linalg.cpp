// linalg.cpp - decompositions on the CPU and on the reference interpreter: products of the factors,
// orthonormal vectors, empty and single matrices, operands that are not finite or not definite, and errors.
#include "tidu/primitives/linalg.hpp"
#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

Graph of(Type type, Values (*f)(Value)) {
  GraphBuilder g("f");
  return g.build(f(g.input("x", type)));
}

Value product(Value x, Value y) {
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  Ints batch(x.rank() - 2);
  for (std::size_t i = 0; i < batch.size(); ++i) batch[i] = static_cast<std::int64_t>(i);
  return ops::dot_general(x, y, {{last}, {last - 1}, batch, batch});
}
Value adjoint(Value x) {
  Ints order(x.rank());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  const Value y = ops::transpose(x, order);
  return is_complex(x.dtype()) ? ops::conj(y) : y;
}
Value scaled(Value u, Value s) {
  Ints axes(s.rank());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  ++axes.back();
  return u * ops::broadcast_in_dim(ops::convert_element_type(s, u.dtype()), u.shape(), axes);
}

// Values that must be zero: x minus the product of its factors, and the deviation of vectors from
// orthonormality.
Values left_of_svd(Value x) {
  const Values f = ops::svd(x);
  const Value uu = product(adjoint(f[0]), f[0]), vv = product(f[2], adjoint(f[2]));
  return {product(scaled(f[0], f[1]), f[2]) - x, uu - vv};
}
Values left_of_eigh(Value x) {
  const Values f = ops::eigh(x);
  const Value half = ops::full_like(x, 0.5);
  return {product(scaled(f[0], f[1]), adjoint(f[0])) - (x + adjoint(x)) * half,
          product(adjoint(f[0]), f[0]) - product(f[0], adjoint(f[0]))};
}
Values left_of_qr(Value x) {
  const Values f = ops::qr(x);
  return {product(f[0], f[1]) - x, product(product(f[0], adjoint(f[0])), f[0]) - f[0]};
}

void check_zero(Type type, Values (*f)(Value), std::mt19937_64& random) {
  const Graph graph = of(type, f);
  const std::vector<Tensor> x{random_tensor(type, {}, random)};
  for (const Executor* executor :
       {static_cast<const Executor*>(&cpu()), static_cast<const Executor*>(&reference())}) {
    if (executor != &cpu() && type.size() > 2000) continue;
    for (const Tensor& result : executor->run(graph, std::span<const Tensor>(x))) {
      for (std::int64_t i = 0; i < result.size(); ++i)
        REQUIRE_MESSAGE(std::abs(result.at(i)) <= 100 * tolerance(type.dtype()), type, " element ", i);
    }
  }
}

Values cholesky(Value x) { return ops::cholesky(x); }
Values lu(Value x) { return ops::lu(x); }
Values qr(Value x) { return ops::qr(x); }
Values eigh(Value x) { return ops::eigh(x); }
Values svd(Value x) { return ops::svd(x); }
constexpr Values (*square_only[])(Value) = {cholesky, eigh};
constexpr Values (*any_shape[])(Value) = {lu, qr, svd};

}  // namespace

TEST_CASE("linear algebra: factors put together again are the operand") {
  std::mt19937_64 random(3);
  for (const DType dtype : {f32, f64, c64, c128}) {
    for (const Shape& shape :
         {Shape{1, 1}, Shape{5, 5}, Shape{7, 3}, Shape{3, 7}, Shape{2, 3, 4, 4}, Shape{60, 60}}) {
      const Type type(dtype, shape);
      check_zero(type, left_of_svd, random);
      check_zero(type, left_of_qr, random);
      if (shape.back() == shape[shape.size() - 2]) check_zero(type, left_of_eigh, random);
    }
  }
}

// Divide and conquer alone gives vectors that are not orthogonal, or not finite, for these sizes.
TEST_CASE("linear algebra: singular vectors of matrices that repeat themselves are orthonormal") {
  const auto check = [](Type type, const auto& element) {
    std::vector<double> elements(static_cast<std::size_t>(type.size()));
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = element(static_cast<std::int64_t>(i) / type.shape()[1],
                            static_cast<std::int64_t>(i) % type.shape()[1]);
    GraphBuilder g("f");
    const Value x = g.input("x", {f64, type.shape()}), y = ops::convert_element_type(x, type.dtype());
    const Values f = ops::svd(y);
    const Graph graph = g.build(
        {product(scaled(f[0], f[1]), f[2]) - y, product(adjoint(f[0]), f[0]), product(f[2], adjoint(f[2]))});
    const std::vector<Tensor> results = cpu().run(graph, {Tensor::from<double>(type.shape(), elements)});
    const std::int64_t k = std::min(type.shape()[0], type.shape()[1]);
    for (std::size_t r = 0; r < results.size(); ++r) {
      double most = 0;
      for (std::int64_t i = 0; i < results[r].size(); ++i) {
        const double off = std::abs(results[r].at(i) - (r > 0 && i / k == i % k ? 1.0 : 0.0));
        most = off <= most ? most : off;  // NaN, too
      }
      CHECK_MESSAGE(most <= 100 * tolerance(type.dtype()), type, " result ", r);
    }
  };
  const auto one = [](std::int64_t, std::int64_t) { return 1.0; };
  for (const std::int64_t n : {33, 67, 75, 89, 91, 98}) {
    for (const DType dtype : {f32, f64, c128}) check({dtype, {n, n}}, one);
  }
  const auto checkerboard = [](std::int64_t i, std::int64_t j) { return i % 2 == j % 2 ? 1.0 : 0.0; };
  for (const Shape& shape : {Shape{40, 37}, Shape{42, 39}, Shape{39, 42}}) check({f64, shape}, checkerboard);
  check({f64, {60, 60}},
        [](std::int64_t i, std::int64_t j) { return static_cast<double>((7 * i + 3 * j) % 5); });
}

TEST_CASE("linear algebra: matrices that are empty, and operands that are not finite") {
  for (const Executor* executor :
       {static_cast<const Executor*>(&cpu()), static_cast<const Executor*>(&reference())}) {
    for (const auto f : any_shape) {
      for (const Shape& shape : {Shape{0, 0}, Shape{0, 3}, Shape{3, 0}, Shape{0, 2, 2}, Shape{2, 0, 0}})
        CHECK_NOTHROW(executor->run(of({f64, shape}, f), std::vector{Tensor(Type(f64, shape))}));
    }
    for (const auto f : square_only)
      CHECK_NOTHROW(executor->run(of({f64, {2, 0, 0}}, f), std::vector{Tensor(Type(f64, {2, 0, 0}))}));
    for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      const std::vector<Tensor> x{Tensor::from<double>({3, 3}, {2, 1, 0, 1, odd, 1, 0, 1, 4})};
      for (const auto f : {cholesky, eigh, lu, qr, svd}) {
        bool finite = true;
        for (const Tensor& result : executor->run(of({f64, {3, 3}}, f), std::span<const Tensor>(x))) {
          for (std::int64_t i = 0; i < result.size(); ++i)
            finite = finite && std::isfinite(result.at(i).real());
        }
        CHECK_FALSE(finite);
      }
    }
    const std::vector<Tensor> indefinite{Tensor::from<double>({2, 2}, {1, 2, 2, 1})};
    const Tensor l = executor->run(of({f64, {2, 2}}, cholesky), std::span<const Tensor>(indefinite))[0];
    CHECK(std::isnan(l.at(0).real()));
    CHECK(l.at(1) == 0.0);
  }
}

TEST_CASE("linear algebra: errors") {
  GraphBuilder g("refused");
  const Value vector = g.input("vector", {f64, {3}}), wide = g.input("wide", {f64, {2, 3}}),
              whole = g.input("whole", {i32, {2, 2}}), square = g.input("square", {f64, {2, 2}});
  CHECK_THROWS_WITH_AS(ops::cholesky(wide), doctest::Contains("expected square matrices, got f64[2,3]"),
                       Error);
  CHECK_THROWS_WITH_AS(ops::lu(vector), doctest::Contains("expected matrices, of two axes or more"), Error);
  CHECK_THROWS_WITH_AS(ops::svd(whole), doctest::Contains("expected a floating or complex operand"), Error);
  CHECK_THROWS_WITH_AS(ops::triangular_solve(square, wide, {}), doctest::Contains("as many columns of b"),
                       Error);
}
