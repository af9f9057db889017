// transforms.cpp - grad, value_and_grad, vjp, jvp, hvp, jacrev, jacfwd and hessian against closed forms,
// against each other, nested, and under trace and compile.
#include <functional>
#include <utility>

#include "support.hpp"

namespace tidu::test {
namespace {

Array loss(const Array& w, const Array& b, const Array& x, const Array& y) {
  return -mean(sum(y * log_softmax(matmul(x, w) + b), 1));
}

// f(x) = Σ x³ sin x and its derivatives.
Array cubic_sine(const Array& x) { return sum(pow(x, 3) * sin(x)); }
Array cubic_sine_gradient(const Array& x) { return 3.0 * square(x) * sin(x) + pow(x, 3) * cos(x); }
Array cubic_sine_curvature(const Array& x) {
  return 6.0 * x * sin(x) + 6.0 * square(x) * cos(x) - pow(x, 3) * sin(x);
}

TEST_CASE("common uses") {
  const Array w = random_array({4, 3}, 1), b = random_array({3}, 2), x = random_array({5, 4}, 3);
  const Array y = one_hot(array({0, 1, 2, 1, 0}), 3);
  const auto step = value_and_grad(loss, {0, 1});
  auto [value, grads] = step(w, b, x, y);
  REQUIRE(grads.size() == 2);
  const Array error = (softmax(matmul(x, w) + b) - y) / 5.0;
  CHECK(distance(grads[0], matmul(x.T(), error)) < 1e-14);
  CHECK(distance(grads[1], sum(error, 0)) < 1e-14);
  CHECK(distance(value, loss(w, b, x, y)) == 0);
  CHECK_FALSE(value.requires_grad());
  CHECK_FALSE(grads[0].requires_grad());

  const auto compiled = compile(value_and_grad(loss, {0, 1}));
  for (int round = 0; round < 2; ++round) {
    auto [same_value, same_grads] = compiled(w, b, x, y);
    CHECK(distance(same_value, value) < 1e-15);
    CHECK(distance(same_grads[0], grads[0]) < 1e-14);
    CHECK(distance(same_grads[1], grads[1]) < 1e-14);
  }
  CHECK(compiled.num_traced() == 1);

  Array w2 = w.copy(), b2 = b.copy();
  w2.set_requires_grad();
  b2.set_requires_grad();
  loss(w2, b2, x, y).backward();
  CHECK(distance(*w2.grad(), grads[0]) < 1e-15);
  CHECK(distance(*b2.grad(), grads[1]) < 1e-15);
}

TEST_CASE("closed forms of first and second order") {
  const Array x = random_array({6}, 4), v = random_array({6}, 5);
  CHECK(distance(grad(cubic_sine)(x), cubic_sine_gradient(x)) < 1e-13);
  CHECK(distance(hvp(cubic_sine, x, v), cubic_sine_curvature(x) * v) < 1e-13);
  CHECK(distance(hessian(cubic_sine)(x), eye(6) * cubic_sine_curvature(x)) < 1e-13);
  CHECK(distance(jacrev(grad(cubic_sine))(x), eye(6) * cubic_sine_curvature(x)) < 1e-13);
  CHECK(distance(jacfwd(cubic_sine_gradient)(x), eye(6) * cubic_sine_curvature(x)) < 1e-13);
  CHECK(distance(jacrev(cubic_sine_gradient)(x), eye(6) * cubic_sine_curvature(x)) < 1e-13);
  const auto [y, tangent] = jvp(cubic_sine_gradient, x, v);
  CHECK(distance(y, cubic_sine_gradient(x)) < 1e-13);
  CHECK(distance(tangent, cubic_sine_curvature(x) * v) < 1e-13);
  const auto [z, pullback] = vjp(cubic_sine_gradient, x);
  CHECK(distance(z, cubic_sine_gradient(x)) == 0);
  CHECK(distance(pullback(v), cubic_sine_curvature(x) * v) < 1e-13);
  CHECK(distance(pullback(2.0 * v), 2.0 * cubic_sine_curvature(x) * v) < 1e-13);
}

TEST_CASE("gradients of any order by nesting") {
  const auto f = [](const Array& x) { return exp(2.0 * x) + pow(x, 4); };
  const auto d1 = grad(f);
  const auto d2 = grad(d1);
  const auto d3 = grad(d2);
  const auto d4 = grad(d3);
  const double e = std::exp(2 * 0.3);
  CHECK(d1(0.3).item() == doctest::Approx(2 * e + 4 * std::pow(0.3, 3)));
  CHECK(d2(0.3).item() == doctest::Approx(4 * e + 12 * 0.09));
  CHECK(d3(0.3).item() == doctest::Approx(8 * e + 24 * 0.3));
  CHECK(d4(0.3).item() == doctest::Approx(16 * e + 24));
  CHECK_FALSE(d4(0.3).requires_grad());
  // The same through a trace.
  CHECK(compile(d3)(0.3).item() == doctest::Approx(8 * e + 24 * 0.3));
}

TEST_CASE("tangents of nested transforms do not mix") {
  // d/dx (x * d/dy (x + y)) = 1
  const auto f = [](const Array& x) { return x * grad([&](const Array& y) { return x + y; })(1.0); };
  CHECK(grad(f)(2.0).item() == 1.0);
  CHECK(compile(grad(f))(2.0).item() == 1.0);
  CHECK(jvp(f, Array(2.0), Array(1.0)).second.item() == 1.0);
  // d/dx (x * d/dy (x y)) = 2x
  const auto g = [](const Array& x) { return x * grad([&](const Array& y) { return x * y; })(1.0); };
  CHECK(grad(g)(3.0).item() == 6.0);
  CHECK(grad(grad(g))(3.0).item() == 2.0);
  CHECK(jvp(g, Array(3.0), Array(1.0)).second.item() == 6.0);
  // Forward inside reverse inside forward.
  const auto h = [](const Array& x) {
    return jvp([&](const Array& y) { return grad([&](const Array& z) { return x * y * z * z; })(y); }, x,
               Array(1.0))
        .second;  // d/dy (2 x y y) at y = x: 4 x x
  };
  CHECK(h(3.0).item() == 36.0);
  CHECK(grad(h)(3.0).item() == 24.0);
  CHECK(jvp(h, Array(3.0), Array(1.0)).second.item() == 24.0);
}

TEST_CASE("an Array that a function uses from outside keeps its own gradient") {
  Array w(1.5);
  w.set_requires_grad();
  const Array g = grad([&](const Array& x) { return w * x * x; })(2.0);  // 2 w x
  CHECK(g.item() == 6.0);
  CHECK(g.requires_grad());
  (g * g).backward();  // d/dw (16 w²) = 32 w
  CHECK(w.grad()->item() == 48.0);
  w.zero_grad();
  const Array t = jvp([&](const Array& x) { return w * x * x; }, Array(2.0), Array(1.0)).second;
  t.backward();
  CHECK(w.grad()->item() == 4.0);
  w.zero_grad();
  jacrev([&](const Array& x) { return w * w * x; })(array({1.0, 2.0})).sum().backward();
  CHECK(w.grad()->item() == 6.0);
  w.zero_grad();
  hvp([&](const Array& x) { return w * pow(x, 3); }, Array(2.0), Array(1.0)).backward();
  CHECK(w.grad()->item() == 12.0);
  w.zero_grad();
  const auto [y, pullback] = vjp([&](const Array& x) { return w * w * x; }, Array(2.0));
  CHECK(y.requires_grad());
  pullback(1.0).backward();
  CHECK(w.grad()->item() == 3.0);
  CHECK_FALSE(no_grad([&] { return grad([&](const Array& x) { return w * x * x; })(2.0); }).requires_grad());
}

TEST_CASE("an Array from outside that a function returns unchanged keeps its own gradient") {
  const auto by_value = [](const Array& v) {
    const auto made = value_and_grad([&](const Array& x) { return std::pair(x * x, v); })(Array(2.0));
    return made.first.first + 3.0 * made.first.second;
  };
  const auto by_vjp = [](const Array& v) {
    const auto made = vjp([&](const Array& x) { return std::pair(x * x, v); }, Array(2.0));
    return made.first.first + 3.0 * made.first.second;
  };
  const auto alone = [](const Array& v) {
    return 3.0 * value_and_grad([&](const Array&) { return v; })(Array(2.0)).first;
  };
  for (const std::function<Array(const Array&)>& f :
       {std::function<Array(const Array&)>(by_value), std::function<Array(const Array&)>(by_vjp),
        std::function<Array(const Array&)>(alone)}) {
    CHECK(grad(f)(Array(1.0)).item() == 3.0);
    CHECK(grad(compile(f))(Array(1.0)).item() == 3.0);
  }
  Array w(1.5);
  w.set_requires_grad();
  const Array penalty = w * w;
  const auto [values, slope] =
      value_and_grad([&](const Array& x) { return std::pair(x * x, penalty); })(Array(2.0));
  values.second.backward();
  CHECK(w.grad()->item() == 3.0);
  CHECK(slope.item() == 4.0);
  // Values made within do not require a gradient outside.
  CHECK_FALSE(values.first.requires_grad());
  CHECK_FALSE(value_and_grad([](const Array& x) { return std::pair(sum(x), x); })(Array(2.0))
                  .first.second.requires_grad());
}

TEST_CASE("an argument that requires a gradient passes it on") {
  Array x(2.0);
  x.set_requires_grad();
  grad([](const Array& y) { return pow(y, 3); })(x).backward();
  CHECK(x.grad()->item() == 12.0);
}

TEST_CASE("several results, vectors of Arrays, and arguments that are no Arrays") {
  const auto f = [](const std::vector<Array>& p, const Array& x, int power) {
    const Array y = p[0] * pow(x, power) + p[1];
    return std::pair(sum(y), y);
  };
  const std::vector<Array> p{Array(2.0), Array(1.0)};
  const Array x = array({1.0, 2.0});
  auto [result, gradients] = value_and_grad(f)(p, x, 2);
  CHECK(result.first.item() == 12.0);
  CHECK(elements(result.second) == std::vector<double>{3, 9});
  REQUIRE(gradients.size() == 2);
  CHECK(gradients[0].item() == 5.0);
  CHECK(gradients[1].item() == 2.0);
  const auto [again, compiled_gradients] = compile(value_and_grad(f))(p, x, 2);
  CHECK(elements(again.second) == std::vector<double>{3, 9});
  CHECK(compiled_gradients[0].item() == 5.0);
}

TEST_CASE("gradients of Arrays on which nothing depends are zeros") {
  const auto f = [](const Array&, const Array& y) { return sum(y); };
  const auto gradients = grad(f, {0, 1})(array({1.0, 2.0}), array({3.0}));
  CHECK(elements(gradients[0]) == std::vector<double>{0, 0});
  CHECK(elements(gradients[1]) == std::vector<double>{1});
  CHECK(grad([](const Array&) { return Array(1.0); })(3.0).item() == 0.0);
  CHECK(hvp([](const Array& x) { return 2.0 * x; }, Array(1.0), Array(1.0)).item() == 0.0);
}

TEST_CASE("misuse of transforms") {
  const auto vector = [](const Array& x) { return 2.0 * x; };
  CHECK(contains(error_of([&] { grad(vector)(array({1.0, 2.0})); }), "floating scalar, got f64[2]"));
  CHECK(contains(error_of([&] { grad(vector)(array({1, 2})); }), "floating or complex"));
  CHECK(contains(error_of([&] { grad(vector, 1)(Array(1.0)); }), "of 1 arguments, got 1"));
  CHECK(contains(error_of([&] { grad(vector, {0, 0})(Array(1.0)); }), "once"));
  CHECK(contains(error_of([&] { jvp(vector, Array(1.0), array({1.0})); }), "f64[1] for f64[]"));
  CHECK(contains(error_of([&] { jvp(vector, array({1, 2}), array({1, 2})); }), "captured by the function"));
  CHECK(contains(error_of([&] { jacrev([](const Array& x) { return x.item() > 0 ? x : -x; })(1.0); }),
                 "where()"));
}

TEST_CASE("trace gives a graph, and call_graph runs it") {
  const Graph graph =
      trace([](const Array& x, const Array& y) { return sum(x * 2.0 + y); }, Type(f64, {3}), f64);
  CHECK(graph.inputs().size() == 2);
  CHECK(graph.input_name(1) == "x1");
  Array x = array({1.0, 2.0, 3.0});
  x.set_requires_grad();
  const Array y = call_graph(graph, {x, Array(1.0)})[0];
  CHECK(y.item() == 15.0);
  y.backward();
  CHECK(elements(*x.grad()) == std::vector<double>{2, 2, 2});
  const Array constant = array({1.0, 2.0});
  const Graph closed = trace([&](const Array& a) { return a * constant; }, Type(f64, {2}));
  CHECK(closed.inputs().size() == 1);
  CHECK(elements(call_graph(closed, {array({3.0, 4.0})})[0]) == std::vector<double>{3, 8});
  CHECK(contains(error_of([&] { call_graph(closed, {Array(1.0)}); }), "expected f64[2] for input x0"));
}

}  // namespace
}  // namespace tidu::test
