// logsumexp.cpp - logsumexp of Arrays against long double and the primitive's reference, where numbers are
// large, infinite, none or narrow; its gradients against softmax, in all modes, and what they cost.
#include <limits>

#include "support.hpp"

namespace tidu::test {
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

TEST_CASE("logsumexp of infinities, of nothing and of what is no number") {
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
  // Gradients as in JAX: exact where the result is finite, NaN where it is not.
  const auto slope = grad([](const Array& x) { return logsumexp(x); });
  CHECK(elements(slope(array({-infinite, 2.0}))) == std::vector<double>{0.0, 1.0});
  CHECK(std::isnan(elements(slope(array({-infinite, -infinite})))[0]));
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

TEST_CASE("the gradient of logsumexp takes each power once") {
  const auto both = value_and_grad([](const Array& x) { return sum(logsumexp(x, 1)); });
  const Program program = Program::make(trace(both, Type(f32, {1000, 100})));
  const std::string text = to_text(program);
  std::size_t powers = 0;
  for (std::size_t at = text.find("= exp "); at != std::string::npos; at = text.find("= exp ", at + 1))
    ++powers;
  CHECK_MESSAGE(powers == 1, text);
}

}  // namespace
}  // namespace tidu::test
