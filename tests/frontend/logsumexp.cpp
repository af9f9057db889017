// logsumexp.cpp - logsumexp of Arrays compared with long double and the primitive's reference, for large,
// infinite, absent or narrow numbers; its gradients compared with softmax, in all modes, and their cost.
#include <limits>

#include "support.hpp"

namespace tidu::test::logsumexp_cases {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// By the primitive, in the reference executor.
Array by_primitive(const Array& x, const Ints& axes) {
  GraphBuilder builder("logsumexp");
  const Graph graph = builder.build({ops::logsumexp(builder.input("x", x.type()), axes)});
  return Array(reference().run(graph, std::vector<Tensor>{x.tensor()}).front());
}

TEST_CASE("logsumexp is the primitive's, over any axes, of any size of numbers and dtype") {
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const double eps = dtype == f64 ? 1e-15 : dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 8e-3;
    for (const double size : {1.0, 30.0, 3000.0}) {
      const Array x = astype(size * random_array({6, 7, 40}, 35), dtype);
      for (const Ints& axes : {Ints{2}, Ints{0}, Ints{1, 2}, Ints{0, 1, 2}, Ints{0, 2}}) {
        const Array got = logsumexp(x, axes), expected = by_primitive(x, axes);
        CAPTURE(to_string(got.type()));
        CHECK(got.type() == expected.type());
        CHECK(distance(astype(got, f64), astype(expected, f64)) <= eps * (4 * size + 8));
      }
    }
  }
  CHECK(logsumexp(array({1, 2, 3}, i32)).item() ==
        doctest::Approx(std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0))));
  CHECK(logsumexp(random_array({2, 3}, 1), 1, true).shape() == Shape{2, 1});
}

TEST_CASE("logsumexp of infinities, of nothing and of NaN") {
  const auto of = [](const std::vector<double>& x) {
    return logsumexp(array(x, {static_cast<std::int64_t>(x.size())})).item();
  };
  CHECK(of({-infinite, -infinite}) == -infinite);
  CHECK(of({infinite, 1.0, -infinite}) == infinite);
  CHECK(of({-infinite, 2.0}) == 2.0);
  CHECK(std::isnan(of({1.0, NAN})));
  CHECK(std::isnan(of({infinite, NAN})));
  CHECK(elements(logsumexp(zeros({2, 0}), 1)) == std::vector<double>{-infinite, -infinite});
  CHECK(logsumexp(zeros({0, 2}), 1).shape() == Shape{0});
  const auto slope = grad([](const Array& x) { return logsumexp(x); });
  CHECK(elements(slope(array({-infinite, 2.0}))) == std::vector<double>{0.0, 1.0});
}

TEST_CASE("gradients of logsumexp and cross-entropy: softmax, in each mode, also of the second order") {
  const Array x = random_array({5, 9}, 3, 4.0), labels = array({0, 8, 3, 3, 1}, i32);
  const Array weights = random_array({5}, 4);
  const auto weighted = [&](const Array& a) { return sum(weights * logsumexp(a, 1)); };
  const Array expected = weights.reshape({5, 1}) * softmax(x, 1);
  CHECK(distance(grad(weighted)(x), expected) < 1e-15);
  CHECK(distance(compile(grad(weighted))(x), expected) < 1e-15);
  Array tape = leaf(x);
  weighted(tape).backward();
  CHECK(distance(tape.grad().value(), expected) < 1e-15);
  CHECK(distance(vmap(grad([](const Array& row) { return logsumexp(row); }))(x), softmax(x, 1)) < 1e-15);
  check_gradient("logsumexp", weighted, x, 1e-7);
  check_gradient(
      "logsumexp by columns", [](const Array& a) { return sum(square(logsumexp(a, 0))); }, x, 1e-6);
  check_gradient(
      "logsumexp, second order", [&](const Array& a) { return sum(square(grad(weighted)(a))); }, x, 1e-6);

  const auto loss = [&](const Array& a) { return sum(softmax_cross_entropy_with_integer_labels(a, labels)); };
  CHECK(distance(grad(loss)(x), softmax(x, 1) - one_hot(labels, 9, f64)) < 1e-15);
  check_gradient(
      "cross-entropy, second order", [&](const Array& a) { return sum(square(grad(loss)(a))); }, x, 1e-6);
}

TEST_CASE("elements that are the infinite greatest share logsumexp's derivative evenly, as in logaddexp") {
  const auto sums = [](const Array& x) { return logsumexp(x); };
  const auto adds = [](const Array& x) { return logaddexp(x[0], x[1]); };
  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const double a : {-infinite, 1.0, infinite}) {
      for (const double b : {-infinite, 1.0, infinite}) {
        const Array x = astype(array({a, b}), dtype);
        CAPTURE(x);
        const std::vector<double> shares = a == b  ? std::vector<double>{0.5, 0.5}
                                           : a > b ? std::vector<double>{1.0, 0.0}
                                                   : std::vector<double>{0.0, 1.0};
        if (std::isinf(std::max(a, b))) {
          CHECK(elements(grad(sums)(x)) == shares);
          CHECK(elements(compile(grad(sums))(x)) == shares);
          CHECK(elements(jacfwd(sums)(x)) == shares);
          // diag(w) - w wᵀ of the shares
          const double second = shares[0] * shares[1];
          CHECK(elements(hessian(sums)(x)) == std::vector<double>{second, -second, -second, second});
        }
        CHECK(distance(grad(sums)(x), grad(adds)(x)) < 1e-2);
      }
    }
  }
  const Array third = grad(sums)(array({-infinite, -infinite, -infinite}));
  CHECK(elements(third) == std::vector<double>(3, 1.0 / 3));
  CHECK(elements(grad(sums)(array({infinite, 3.0, infinite, NAN})))[1] != 0.5);
  CHECK(std::isnan(elements(grad(sums)(array({infinite, NAN})))[0]));
}

TEST_CASE("a row of -inf after where poisons no gradient") {
  const Array x = array({0.0, 1.0, -infinite, -infinite}, {2, 2});
  const auto masked = [](const Array& a) {
    const Array sums = logsumexp(a, 1);
    return sum(where(isfinite(sums), sums, 0.0));
  };
  const double p = 1.0 / (1.0 + std::exp(1.0));
  const Array expected = array({p, 1.0 - p, 0.0, 0.0}, {2, 2});
  CHECK(distance(grad(masked)(x), expected) < 1e-15);
  CHECK(distance(compile(grad(masked))(x), expected) < 1e-15);
  CHECK(distance(jacfwd(masked)(x), expected) < 1e-15);
  CHECK(static_cast<bool>(all(isfinite(hessian(masked)(x)))));
}

TEST_CASE("derivatives of logsumexp of third order, at the greatest element too") {
  const auto of = [](const Array& a) { return logsumexp(a); };
  const Array v = array({1.0, -2.0, 0.5}), x = array({1.0, 3.0, 2.0});
  const auto second = [&](const Array& a) { return sum(hvp(of, a, v) * v); };
  check_gradient("third", second, x, 1e-6);
  check_gradient(
      "fourth", [&](const Array& a) { return sum(grad(second)(a) * v); }, x, 1e-5);
}

TEST_CASE("cross-entropy depends on differences of logits alone, of any size") {
  const Array labels = array({1, 2}, i32);
  const auto loss = [&](const Array& a) { return sum(softmax_cross_entropy_with_integer_labels(a, labels)); };
  for (const DType dtype : {f64, f32, f16, bf16}) {
    const double eps = dtype == f64 ? 1e-15 : dtype == f32 ? 1e-6 : dtype == f16 ? 2e-3 : 2e-2;
    const Array near_0 = array({0.0, 4.0, 8.0, 4.0, 0.0, 4.0}, {2, 3});
    for (const double size : {0.0, 512.0, 1e6, 1e15}) {
      // The dtype holds each of these numbers.
      const Array x = astype(near_0 + size, dtype);
      if (elements(astype(x, f64) - size) != elements(near_0)) continue;
      CAPTURE(to_string(x.type()));
      CAPTURE(size);
      CHECK(astype(loss(x), f64).item() == doctest::Approx(loss(near_0).item()).epsilon(eps));
      CHECK(distance(astype(grad(loss)(x), f64), grad(loss)(near_0)) < eps);
      CHECK(distance(astype(jacfwd(loss)(x), f64), grad(loss)(near_0)) < eps);
      CHECK(distance(astype(hessian(loss)(x), f64), hessian(loss)(near_0)) < eps);
    }
  }
  const Array masked = array({-infinite, 0.0, -infinite}, {1, 3});
  const auto of_one = [](const Array& a) {
    return sum(softmax_cross_entropy_with_integer_labels(a, array({1}, i32)));
  };
  CHECK(of_one(masked).item() == 0.0);
  CHECK(elements(grad(of_one)(masked)) == std::vector<double>{0.0, 0.0, 0.0});
  CHECK(of_one(full({1, 3}, -infinite)).item() == doctest::Approx(std::log(3.0)));
}

TEST_CASE("the gradient of logsumexp takes each power once") {
  const auto both = value_and_grad([](const Array& x) { return sum(logsumexp(x, 1)); });
  const Program program = Program::make(trace(both, Type(f32, {1000, 100})));
  const std::string text = to_text(program);
  std::size_t powers = 0;
  for (std::size_t at = text.find("= exp "); at != std::string::npos; at = text.find("= exp ", at + 1))
    ++powers;
  CHECK_MESSAGE(powers == 1, text);
}

TEST_CASE("the primitive's weights add up to 1, however large the numbers are") {
  for (const auto& [dtype, size] :
       std::vector<std::pair<DType, double>>{{f64, 1e16}, {f32, 1e7}, {f16, 3e4}, {bf16, 1e6}}) {
    GraphBuilder g("f");
    const Value x = g.input("x", {dtype, {3}});
    const Graph f = g.build({ops::logsumexp(x, {0})});
    const Array at = full({3}, size, dtype);
    const std::vector<Tensor> inputs{at.tensor()};
    for (const Tensor& gradient : {cpu().run(grad(f), inputs)[0], reference().run(grad(f), inputs)[0]}) {
      for (const double share : elements(Array(gradient)))
        CHECK(share == doctest::Approx(1.0 / 3.0).epsilon(dtype == bf16 ? 4e-3 : 1e-3));
    }
  }
}

}  // namespace
}  // namespace tidu::test::logsumexp_cases
