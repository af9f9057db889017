// p_higher_order.cpp - P6: the backward computation is recorded and differentiated again: against closed
// forms, and against finite differences in random directions.
#include <cmath>
#include <complex>

#include "p_support.hpp"

namespace tidu::test::p_higher_order_cases {
namespace {

using Program = std::function<Var(Tape&, const std::vector<Var>&)>;

BackwardOptions recorded() {
  BackwardOptions options;
  options.create_graph = true;
  return options;
}

// Gradients of `y` as values of the tape; zeros where there is none.
std::vector<Var> recorded_gradients(Tape& tape, const Root& root, const std::vector<Var>& wrt) {
  std::vector<Requested> requested;
  for (const Var& value : wrt) requested.emplace_back(value.first);
  const auto gradients = run(Spy(), {root}, recorded(), requested, &tape.recorder);
  std::vector<Var> made;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const auto& gradient = gradients.requested()[i];
    made.emplace_back(gradient.recorded,
                      gradient.value ? *gradient.value : Tensor::zeros(wrt[i].second.type()));
  }
  return made;
}

// Σ Re(conj(u) x) for a constant u.
Var contract(Tape& tape, const Var& x, const Tensor& u) {
  const RecordedGraph graph = graph_of("contract", {x.second.type(), u.type()}, [](const auto& in) {
    Value product = is_complex(in[0].dtype()) ? ops::real(ops::conj(in[1]) * in[0]) : in[1] * in[0];
    Ints axes;
    for (std::size_t axis = 0; axis < product.rank(); ++axis) axes.push_back(static_cast<std::int64_t>(axis));
    return std::vector<Value>{axes.empty() ? product : ops::reduce_sum(product, axes)};
  });
  return tape.apply(graph, {x, tape.constant(u)})[0];
}

Tensor random_like(Type type, std::mt19937& random, double low = -1, double high = 1) {
  std::uniform_real_distribution<double> uniform(low, high);
  Tensor tensor(type);
  if (is_complex(type.dtype())) {
    for (auto& element : tensor.mutable_elements<std::complex<double>>())
      element = {uniform(random), uniform(random)};
  } else {
    for (double& element : tensor.mutable_elements<double>()) element = uniform(random);
  }
  return tensor;
}
Tensor step(const Tensor& x, const Tensor& direction, double by) {
  Tensor moved = x.clone();
  if (is_complex(x.dtype())) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()); ++i)
      moved.mutable_elements<std::complex<double>>()[i] += by * direction.elements<std::complex<double>>()[i];
  } else {
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()); ++i)
      moved.mutable_elements<double>()[i] += by * direction.elements<double>()[i];
  }
  return moved;
}
double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += (std::conj(a.at(i)) * b.at(i)).real();
  return sum;
}

// h_0 = <u, f(x)>, h_k = Σ <v_k, ∇h_(k-1)>: its gradients at x.
struct Tower {
  Program f;
  std::vector<Tensor> weights;               // of the output
  std::vector<std::vector<Tensor>> vectors;  // by order, by input
  Var height(Tape& tape, const std::vector<Var>& x, std::size_t order) const {
    if (order == 0) return contract(tape, f(tape, x), weights[0]);
    const Var below = height(tape, x, order - 1);
    const std::vector<Var> slopes = recorded_gradients(tape, root_of(below), x);
    Var sum = contract(tape, slopes[0], vectors[order - 1][0]);
    for (std::size_t i = 1; i < x.size(); ++i)
      sum = tape.apply<prim::add>({sum, contract(tape, slopes[i], vectors[order - 1][i])});
    return sum;
  }
};

void check_orders(const Program& f, const std::vector<Tensor>& at, std::size_t orders, std::uint32_t seed) {
  std::mt19937 random(seed);
  Tower tower{f, {}, {}};
  {
    Tape tape;
    std::vector<Var> x;
    for (const Tensor& tensor : at) x.push_back(tape.leaf(tensor));
    tower.weights.push_back(random_like(f(tape, x).second.type(), random));
  }
  std::vector<Tensor> direction;
  for (const Tensor& tensor : at) direction.push_back(random_like(tensor.type(), random));
  for (std::size_t order = 0; order < orders; ++order) {
    tower.vectors.emplace_back();
    for (const Tensor& tensor : at) tower.vectors.back().push_back(random_like(tensor.type(), random));
  }
  const auto value = [&](double by, std::size_t order) {
    Tape tape;
    std::vector<Var> x;
    for (std::size_t i = 0; i < at.size(); ++i) x.push_back(tape.leaf(step(at[i], direction[i], by)));
    return tower.height(tape, x, order).second.item<double>();
  };
  for (std::size_t order = 0; order < orders; ++order) {
    CAPTURE(order);
    Tape tape;
    std::vector<Var> x;
    for (const Tensor& tensor : at) x.push_back(tape.leaf(tensor));
    const Var h = tower.height(tape, x, order);
    double slope = 0;
    if (h.first.requires_grad) {
      const auto gradients = run(Spy(), {root_of(h)}, {});
      for (std::size_t i = 0; i < x.size(); ++i)
        if (const Tensor* g = gradients.find(x[i].first.key)) slope += dot(*g, direction[i]);
    }
    const double e = 1e-5;
    const double difference = (value(e, order) - value(-e, order)) / (2 * e);
    CHECK(slope == doctest::Approx(difference).epsilon(1e-6));
  }
}

TEST_CASE("[P6] first to third order of an element-wise program, with fan-in") {
  const Program f = [](Tape& tape, const std::vector<Var>& x) {
    const Var s = tape.apply<prim::sin>({x[0]});
    const Var p = tape.apply<prim::mul>({s, tape.apply<prim::exp>({x[1]})});
    const Var q = tape.apply<prim::div>({p, tape.apply<prim::add>({tape.apply<prim::mul>({x[1], x[1]}), s})});
    return tape.apply<prim::add>({tape.apply<prim::mul>({q, s}), tape.apply<prim::mul>({q, p})});
  };
  check_orders(f, {vec({0.3, 0.9, 1.4}), vec({0.7, 0.2, 1.1})}, 4, 1);
}

TEST_CASE("[P6] first to third order through composites whose intermediates are not retained") {
  const RecordedGraph layer =
      graph_of("layer", {Type(f64, Shape{3, 2}), Type(f64, Shape{2})}, [](const auto& in) {
        const Value h = ops::tanh(ops::dot_general(in[0], in[1], {{1}, {0}, {}, {}}));
        return std::vector<Value>{ops::reduce_sum(ops::exp(h) * h, {0}), h};
      });
  const Program f = [layer](Tape& tape, const std::vector<Var>& x) {
    const std::vector<Var> made = tape.apply(layer, {x[0], x[1]}, false);
    return tape.apply<prim::mul>({made[0], contract(tape, made[1], vec({0.3, -0.8, 1.7}))});
  };
  check_orders(f, {random_tensor(Type(f64, Shape{3, 2}), 3), vec({0.4, -0.3})}, 4, 2);
}

TEST_CASE("[P6] first to third order of complex numbers") {
  const Program f = [](Tape& tape, const std::vector<Var>& z) {
    const Var e = tape.apply<prim::exp>({z[0]});
    const Var p = tape.apply<prim::mul>({e, tape.apply<prim::conj>({z[1]})});
    return tape.apply<prim::add>({tape.apply<prim::mul>({p, z[0]}), tape.apply<prim::sin>({z[1]})});
  };
  const auto at = [](std::complex<double> a, std::complex<double> b) {
    return Tensor::from<std::complex<double>>(Shape{2}, {a, b});
  };
  check_orders(f, {at({0.3, 0.4}, {-0.2, 0.9}), at({0.5, -0.7}, {0.1, 0.2})}, 4, 3);
}

TEST_CASE("[P6] complex: the gradient of Re z^3 is conj(3 z^2), that of Re(conj(u) of it) is conj(6 u z)") {
  Tape tape;
  const std::complex<double> at(0.6, -0.8);
  const std::complex<double> weight(0.3, 0.5);
  const Var z = tape.leaf(Tensor::scalar(at));
  const Var cube = tape.apply<prim::mul>({tape.apply<prim::mul>({z, z}), z});
  const Var first = recorded_gradients(tape, root_of(tape.apply<prim::real>({cube})), {z})[0];
  const std::complex<double> expected = std::conj(3.0 * at * at);
  CHECK(std::abs(first.second.at(0) - expected) < 1e-14);
  const Var h = contract(tape, first, Tensor::scalar(weight));
  const Var second = recorded_gradients(tape, root_of(h), {z})[0];
  CHECK(std::abs(second.second.at(0) - std::conj(6.0 * weight * at)) < 1e-14);
}

TEST_CASE("[P6] mixed partial derivatives are symmetric and right") {
  Tape tape;
  const Var x = tape.leaf(0.4);
  const Var y = tape.leaf(1.3);
  // f = sin(x y) + x^2 exp(y)
  const Var xy = tape.apply<prim::mul>({x, y});
  const Var f = tape.apply<prim::add>(
      {tape.apply<prim::sin>({xy}),
       tape.apply<prim::mul>({tape.apply<prim::mul>({x, x}), tape.apply<prim::exp>({y})})});
  const std::vector<Var> first = recorded_gradients(tape, root_of(f), {x, y});
  CHECK(first[0].second.item<double>() == doctest::Approx(1.3 * std::cos(0.52) + 0.8 * std::exp(1.3)));
  const std::vector<Var> from_x = recorded_gradients(tape, root_of(first[0]), {x, y});
  const std::vector<Var> from_y = recorded_gradients(tape, root_of(first[1]), {x, y});
  const double mixed = std::cos(0.52) - 0.52 * std::sin(0.52) + 0.8 * std::exp(1.3);
  CHECK(from_x[1].second.item<double>() == doctest::Approx(mixed));
  CHECK(from_y[0].second.item<double>() == doctest::Approx(mixed));
  CHECK(from_x[0].second.item<double>() == doctest::Approx(-1.3 * 1.3 * std::sin(0.52) + 2 * std::exp(1.3)));
  // d3f/dx2dy both ways
  const Var xxy = recorded_gradients(tape, root_of(from_x[0]), {y})[0];
  const Var xyx = recorded_gradients(tape, root_of(from_x[1]), {x})[0];
  const double third = -2 * 1.3 * std::sin(0.52) - 1.3 * 1.3 * 0.4 * std::cos(0.52) + 2 * std::exp(1.3);
  CHECK(xxy.second.item<double>() == doctest::Approx(third));
  CHECK(xyx.second.item<double>() == doctest::Approx(third));
}

TEST_CASE(
    "[P6] derivatives with respect to seeds: d/ds of the vector-Jacobian product is the product forward") {
  Tape tape;
  const Var x = tape.leaf(vec({0.3, 0.8}));
  for (const bool leaf_seed : {true, false}) {
    const Var given = tape.leaf(vec({0.7, -0.4}));
    const Var seed = leaf_seed ? given : tape.apply<prim::add>({given, given});
    const double factor = leaf_seed ? 1 : 2;
    const Var y = tape.apply<prim::mul>({tape.apply<prim::sin>({x}), x});
    Root root = root_of(y, seed.second);
    root.recorded_seed = seed.first;
    const Var vjp = recorded_gradients(tape, root, {x})[0];
    const Tensor u = vec({1.5, -2.5});
    const auto gradients = run(Spy(), {root_of(contract(tape, vjp, u))}, keep());
    const Tensor by_seed = gradient(gradients, given);
    const Tensor by_x = gradient(gradients, x);
    for (std::int64_t i = 0; i < 2; ++i) {
      const double at = x.second.at(i).real();
      const double slope = std::sin(at) + at * std::cos(at);
      CHECK(by_seed.at(i).real() == doctest::Approx(factor * u.at(i).real() * slope));
      CHECK(by_x.at(i).real() == doctest::Approx(u.at(i).real() * seed.second.at(i).real() *
                                                 (2 * std::cos(at) - at * std::sin(at))));
    }
  }
}

TEST_CASE("[P6] the effect of a hook on a cotangent is differentiated too") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var s = tape.leaf(1.7);
  const Var y = tape.apply<prim::sin>({x});
  bool created = false;
  eager::on_value<Tensor>(y.first.trace, y.first.key, [&](HookContext<Tensor>& context) {
    created = context.creates_graph();
    const Var cotangent{context.incoming().recorded(), context.incoming().value()};
    const Var squared = tape.apply<prim::mul>({cotangent, cotangent});
    context.incoming().replace(squared.second, squared.first);
  });
  Root root = root_of(y, s.second);
  root.recorded_seed = s.first;
  const Var first = recorded_gradients(tape, root, {x})[0];  // s^2 cos x
  CHECK(created);
  CHECK(first.second.item<double>() == doctest::Approx(1.7 * 1.7 * std::cos(0.3)));
  const auto gradients = run(Spy(), {root_of(first)});
  CHECK(item(gradients, s) == doctest::Approx(2 * 1.7 * std::cos(0.3)));
  CHECK(item(gradients, x) == doctest::Approx(-1.7 * 1.7 * std::sin(0.3)));
}

TEST_CASE("[P6] a hook may put a leaf of its own in the place of a cotangent") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var w = tape.leaf(2.5);
  const Var y = tape.apply<prim::sin>({x});
  eager::on_value<Tensor>(y.first.trace, y.first.key, [&](HookContext<Tensor>& context) {
    context.incoming().replace(w.second, w.first);
  });
  const Var first = recorded_gradients(tape, root_of(y), {x})[0];
  const auto gradients = run(Spy(), {root_of(first)});
  CHECK(item(gradients, w) == doctest::Approx(std::cos(0.3)));
  CHECK(item(gradients, x) == doctest::Approx(-2.5 * std::sin(0.3)));
}

TEST_CASE("[P6] hooks of the first order's tape do not run in the second, those of the backward's do") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x});
  const Var first = recorded_gradients(tape, root_of(y), {x})[0];
  int calls = 0;
  eager::on_value<Tensor>(first.first.trace, first.first.key, [&](HookContext<Tensor>& context) {
    ++calls;
    context.incoming().replace(scalar(3.0));
  });
  CHECK(item(run(Spy(), {root_of(first)}), x) == doctest::Approx(-3 * std::sin(0.3)));
  CHECK(calls == 1);
}

TEST_CASE("[P6] gradients of several leaves come recorded, also without a request, and into slots") {
  Tape tape;
  Leaf<Tensor> w(tape.recorder.keys(), "w");
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::mul>({tape.apply<prim::sin>({x}), var(w, scalar(2.0))});
  BackwardOptions options = recorded();
  options.accumulate = true;
  for (int i = 0; i < 2; ++i) run(Spy(), {root_of(y)}, options, {}, &tape.recorder);
  const Var slope{w.recorded_gradient(), *w.gradient()};
  CHECK(slope.second.item<double>() == doctest::Approx(2 * std::sin(0.3)));
  REQUIRE(slope.first.trace);
  CHECK(item(run(Spy(), {root_of(slope)}), x) == doctest::Approx(2 * std::cos(0.3)));
}

TEST_CASE("[P6] without create_graph nothing is recorded; with it a recorder is expected") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::sin>({x});
  const auto before = tape.recorder.num_recorded();
  run(Spy(), {root_of(y)}, keep(), {}, &tape.recorder);
  CHECK(tape.recorder.num_recorded() == before);
  CHECK(kind_of([&] { run(Spy(), {root_of(y)}, recorded()); }) == ErrorKind::invalid_argument);
  run(Spy(), {root_of(y)}, recorded(), {}, &tape.recorder);
  CHECK(tape.recorder.num_recorded() > before);
}

TEST_CASE(
    "[P6] where the backward is linear in all it reads nothing flows on: sums have no second derivative") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply<prim::add>({x, x});
  const Var first = recorded_gradients(tape, root_of(y), {x})[0];
  CHECK(first.second.item<double>() == 2.0);
  CHECK_FALSE(first.first.requires_grad);
}

}  // namespace
}  // namespace tidu::test::p_higher_order_cases
