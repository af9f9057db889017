// pullbacks.cpp - pullbacks that vjp returns, on traced cotangents: mapped, compiled and differentiated,
// compared with closed forms and with their results on data; and other transforms of which a part is traced
// and a part is not.
#include <memory>

#include "support.hpp"

namespace tidu::test {
namespace pullbacks_cases {
namespace {

// f(x) = A sin(x) + x³ has the Jacobian A diag(cos x) + diag(3 x²).
struct Mixed {
  Array a;
  Array operator()(const Array& x) const { return matmul(a, sin(x)) + pow(x, 3); }
  Array jacobian(const Array& x) const { return a * cos(x) + eye(4) * (3.0 * square(x)); }
};

const Mixed mixed{random_array({4, 4}, 1)};

TEST_CASE("a pullback is mapped over cotangents") {
  const Array x = random_array({4}, 2);
  const auto pullback = vjp(mixed, x).second;
  CHECK(distance(vmap(pullback)(eye(4)), mixed.jacobian(x)) < 1e-13);
  const Array seeds = random_array({3, 4}, 3);
  CHECK(distance(vmap(pullback)(seeds), matmul(seeds, mixed.jacobian(x))) < 1e-13);
  CHECK(distance(vmap(pullback, {1})(seeds.T()), matmul(seeds, mixed.jacobian(x))) < 1e-13);
  CHECK_FALSE(vmap(pullback)(seeds).requires_grad());
  // All seeds of all groups, by one vmap in another.
  const Array groups = random_array({2, 3, 4}, 4);
  const Array mapped = vmap([&](const Array& group) { return vmap(pullback)(group); })(groups);
  CHECK(distance(mapped, matmul(groups, mixed.jacobian(x))) < 1e-13);
}

TEST_CASE("a pullback is compiled, and runs lazily") {
  const Array x = random_array({4}, 5), v = random_array({4}, 6);
  const auto pullback = vjp(mixed, x).second;
  const Array expected = matmul(v, mixed.jacobian(x));
  const auto compiled = compile(pullback);
  for (int round = 0; round < 2; ++round) CHECK(distance(compiled(v), expected) < 1e-13);
  CHECK(compiled.num_traced() == 1);
  const Array of_data = compile([&](const Array& ct) { return vjp(mixed, x).second(ct); })(v);
  CHECK(distance(of_data, expected) < 1e-13);
  const Graph graph = trace(pullback, v);
  CHECK(distance(call_graph(graph, {v})[0], expected) < 1e-13);
  const Lazy lazy;
  const auto late = vjp(mixed, x + 0.0).second;
  CHECK(distance(vmap(late)(eye(4)), mixed.jacobian(x)) < 1e-13);
}

TEST_CASE("derivatives of a pullback by its cotangent") {
  const Array x = random_array({4}, 7), v = random_array({4}, 8), t = random_array({4}, 9);
  const auto pullback = vjp(mixed, x).second;
  const Array jacobian = mixed.jacobian(x);
  // g(v) = Σ sin(Jᵀ v): the gradient is J cos(Jᵀ v), the Hessian -J diag(sin(Jᵀ v)) Jᵀ.
  const auto g = [&](const Array& ct) { return sum(sin(pullback(ct))); };
  const Array pulled = matmul(v, jacobian);
  const Array gradient = matmul(jacobian, cos(pulled));
  const Array curvature = -matmul(jacobian * sin(pulled), jacobian.T());
  CHECK(distance(grad(g)(v), gradient) < 1e-12);
  CHECK(distance(compile(grad(g))(v), gradient) < 1e-12);
  CHECK(distance(jvp(g, v, t).second, sum(gradient * t)) < 1e-12);
  CHECK(distance(jacfwd(pullback)(v), jacobian.T()) < 1e-12);
  CHECK(distance(jacrev(pullback)(v), jacobian.T()) < 1e-12);
  CHECK(distance(hvp(g, v, t), matmul(curvature, t)) < 1e-12);
  CHECK(distance(hessian(g)(v), curvature) < 1e-12);
  CHECK(distance(vmap(grad(g))(stack({v, t}))[0], gradient) < 1e-12);
}

TEST_CASE("derivatives of a mapped pullback by the Arrays that the function reads") {
  // J of w x² is diag(2 w x); E = Σ weights J².
  const Array weights = random_array({3, 3}, 10), x = random_array({3}, 11), w = random_array({3}, 12);
  const Array diagonals = diagonal(weights);
  const auto energy = [&](const Array& scale, const Array& at) {
    const auto f = [&](const Array& z) { return scale * square(z); };
    const auto pulled = vjp(f, at);
    return sum(weights * square(vmap(pulled.second)(eye(3))));
  };
  const Array by_w = 8.0 * diagonals * w * square(x), by_x = 8.0 * diagonals * square(w) * x;
  const auto both = grad<0, 1>(energy)(w, x);
  CHECK(distance(std::get<0>(both), by_w) < 1e-12);
  CHECK(distance(std::get<1>(both), by_x) < 1e-12);
  const auto compiled = compile(grad<0, 1>(energy))(w, x);
  CHECK(distance(std::get<0>(compiled), by_w) < 1e-12);
  CHECK(distance(std::get<1>(compiled), by_x) < 1e-12);
  CHECK(distance(grad<1>([&](const Array& a, const Array& b) { return sum(grad<0>(energy)(a, b)); })(w, x),
                 16.0 * diagonals * w * x) < 1e-12);
  // Leaves, whose gradients are accumulated.
  Array leaf_w = leaf(w), leaf_x = leaf(x);
  energy(leaf_w, leaf_x).backward();
  CHECK(distance(*leaf_w.grad(), by_w) < 1e-12);
  CHECK(distance(*leaf_x.grad(), by_x) < 1e-12);
  CHECK_FALSE(no_grad([&] { return energy(leaf_w, leaf_x); }).requires_grad());
  // A value that was not recorded then has no gradient now.
  const auto f = [](const Array& z) { return z * z; };
  const auto unrecorded = no_grad([&] { return vjp(f, leaf_x); });
  CHECK_FALSE(vmap(unrecorded.second)(eye(3)).requires_grad());
}

TEST_CASE("a pullback of structures, some results of which have no derivative") {
  using Pair = std::pair<Array, Array>;
  const auto f = [](const Pair& p, int power) {
    return std::tuple(pow(p.first, power) * p.second, argmax(p.first), sum(p.second));
  };
  const Pair p(random_array({4}, 13), random_array({4}, 14));
  const auto pulled = vjp(f, p, 2);
  const auto of_two = [&](const Array& a, const Array& b) {
    return std::get<0>(pulled.second(std::tuple(a, Array(), b)));
  };
  const auto [by_first, by_second] = vmap(of_two, {0, std::nullopt})(eye(4), Array(0.5));
  CHECK(distance(by_first, eye(4) * (2.0 * p.first * p.second)) < 1e-13);
  CHECK(distance(by_second, eye(4) * square(p.first) + 0.5) < 1e-13);
  CHECK(contains(error_of([&] { (void)vmap(of_two)(eye(3), ones({3})); }),
                 "expected a cotangent of type f64[4] for result 0, got f64[3]"));
}

TEST_CASE("other half-traced uses: tangents over data, checkpoints, custom derivatives") {
  const Array x = random_array({4}, 15), jacobian = mixed.jacobian(x);
  const auto pushed = [&](const Array& t) { return jvp(mixed, x, t).second; };
  CHECK(distance(vmap(pushed)(eye(4)), jacobian.T()) < 1e-13);
  CHECK(distance(compile(pushed)(x), matmul(jacobian, x)) < 1e-13);
  const auto cubic = [](const Array& z) { return sum(pow(z, 3)); };
  CHECK(distance(vmap([&](const Array& t) { return hvp(cubic, x, t); })(eye(4)), eye(4) * (6.0 * x)) < 1e-13);
  CHECK(distance(vmap(vjp(checkpoint(mixed), x).second)(eye(4)), jacobian) < 1e-13);
  const auto sine = custom_vjp([](const Array& z) { return sin(z); },
                               [](const Array& z) { return std::pair(sin(z), cos(z)); },
                               [](const Array& c, const Array& ct) { return 10.0 * c * ct; });
  CHECK(distance(vmap(vjp(sine, x).second)(eye(4)), eye(4) * (10.0 * cos(x))) < 1e-13);
  const auto tangent =
      custom_jvp([](const Array& z) { return sin(z); },
                 [](const Array& z, const Array& t) { return std::pair(sin(z), 10.0 * cos(z) * t); });
  CHECK(distance(vmap(vjp(tangent, x).second)(eye(4)), eye(4) * (10.0 * cos(x))) < 1e-13);
}

TEST_CASE("pullbacks refuse to trace functions that cannot be traced") {
  Array x = random_array({4}, 16).copy();
  const auto pullback = vjp(mixed, x).second;
  const auto asks = [](const Array& z) { return z[0].item() > 100 ? z : 2.0 * z; };
  const auto half = vjp(asks, x);
  CHECK(distance(half.second(ones({4})), full({4}, 2.0)) == 0);
  CHECK(contains(error_of([&] { (void)vmap(half.second)(eye(4)); }), "where()"));
  struct Alone {
    std::unique_ptr<double> factor;
    Array operator()(const Array& z) const { return *factor * z; }
  };
  const Alone alone{std::make_unique<double>(3.0)};
  const auto uncopied = vjp(alone, x);
  CHECK(distance(uncopied.second(ones({4})), full({4}, 3.0)) == 0);
  CHECK(contains(error_of([&] { (void)vmap(uncopied.second)(eye(4)); }),
                 "[vjp] expected cotangents with data, since the function cannot be copied to be traced"));
  x.assign(zeros({4}));
  CHECK(contains(error_of([&] { (void)vmap(pullback)(eye(4)); }),
                 "[vjp] expected Array 0 of the arguments (f64[4]) as it was when vjp was called"));

  // A captured Array was changed: no call uses its present elements.
  Array factor = full({4}, 5.0);
  const Array point = ones({4});
  const auto captured = vjp([factor](const Array& z) { return factor * z; }, point).second;
  factor.assign(ones({4}));
  CHECK(contains(error_of([&] { (void)captured(ones({4})); }), "changed in place"));
  CHECK(contains(error_of([&] { (void)vmap(captured)(eye(4)); }), "changed in place"));
}

TEST_CASE("vjp by no Array is refused") {
  const auto squared = [](const Array& q) { return q * q; };
  CHECK(contains(error_of([&] { (void)vjp(squared, std::complex<double>(1, 2)); }),
                 "[vjp] expected an argument that holds an Array"));
  CHECK(contains(error_of([&] { (void)vjp(squared, 3); }), "[vjp] expected an argument that holds an Array"));
}

TEST_CASE("a pullback reads its arguments as they were, where others were put in their place") {
  Array x = random_array({4}, 17);
  const Array before = x.copy();
  const auto pullback = vjp(mixed, x).second;
  x += 1.0;
  CHECK(distance(vmap(pullback)(eye(4)), mixed.jacobian(before)) < 1e-13);
  const Lazy lazy;
  Array w = leaf(before);
  const auto lazily = vjp(mixed, w);
  no_grad([&] { w -= 1.0; });
  CHECK(distance(vmap(lazily.second)(eye(4)), mixed.jacobian(before)) < 1e-13);
}

}  // namespace
}  // namespace pullbacks_cases
}  // namespace tidu::test
