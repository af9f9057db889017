// tidu_rs.cpp - [T9] the graph-level cases that any such system must pass: scalars, arrays, complex numbers,
// orders up to four, robustness, missing rules and the context that every rule sees.
#include "check/derived.hpp"
#include "check/helpers.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

// exp(a x), of inputs x and a, both of `type`.
Graph exp_ax(Type type = f64) {
  GraphBuilder g("exp_ax");
  const Value x = g.input("x", type), a = g.input("a", type);
  return g.build({ops::exp(a * x)});
}
// sum of exp(a x) over three elements.
Graph sum_exp_ax() {
  GraphBuilder g("sum_exp_ax");
  const Value x = g.input("x", {f64, {3}}), a = g.input("a", {f64, {3}});
  return g.build({ops::reduce_sum(ops::exp(a * x), {0})});
}
Graph doubled_times_x(Type type = f64) {  // (x + x) x
  return of_x(type, [](Value x) { return (x + x) * x; });
}
Graph norm_squared(Type type = c128) {  // z conj(z)
  return of_x(type, [](Value z) { return z * ops::conj(z); });
}
Graph sincos() {
  GraphBuilder inner("sincos");
  const Value t = inner.input("x", f64);
  const Graph both = inner.build({ops::sin(t), ops::cos(t)});
  GraphBuilder g("f");
  return g.build(ops::call(both, Values{g.input("x", f64)}));
}

// <J u, v> = <u, J^T v> at random tangents and cotangents.
bool adjoint_consistent(const Graph& f, const Tensors& inputs, std::vector<std::size_t> wrt) {
  const check::Derived derived(f, wrt);
  const check::Point point(derived, inputs, reference());
  Random random(7);
  for (int i = 0; i < 5; ++i) {
    const Tensors u = point.random_tangents(random);
    const MaybeTensors v = point.random_cotangents(random);
    const check::InnerProduct left = check::inner_product(point.jvp(u), v);
    const check::InnerProduct right = check::inner_product(MaybeTensors(u.begin(), u.end()), point.vjp(v));
    if (left.magnitude == 0.0 || std::abs(left.value - right.value) > 1e-13 * left.magnitude) return false;
  }
  return true;
}

// The five-point derivative of output 0, one number, by element `element` of input 0, along `direction`.
double five_point(const Graph& f, Tensors inputs, const Tensor& direction) {
  const Tensor x = inputs[0];
  const auto at = [&](double s) {
    inputs[0] = check::combine(1.0, x, s, direction);
    return number(f, inputs).real();
  };
  const double h = 1e-3;
  return (8.0 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12.0 * h);
}

struct CountingContext : ADContext {
  int calls = 0;
};

// An identity whose rules count themselves in the context.
const Primitive counting_identity{.name = "test.identity",
                                  .linearity = linearity::linear,
                                  .infer = [](InferContext& c) { c.result(c.operand(0)); },
                                  .jvp = [](JvpContext& c) -> Derivatives {
                                    ++dynamic_cast<CountingContext&>(*c.context()).calls;
                                    return emit(c.op(), Values(*c.tangent(0)))[0];
                                  },
                                  .transpose = [](TransposeContext& c) -> Derivatives {
                                    dynamic_cast<CountingContext&>(*c.context()).calls += 100;
                                    return c.cotangent();
                                  }};
// y = x without any rule.
const Primitive no_rules{.name = "test.no_rules", .infer = [](InferContext& c) { c.result(c.operand(0)); }};
// Linear, without a transpose.
const Primitive no_transpose{.name = "test.no_transpose",
                             .linearity = linearity::linear,
                             .infer = [](InferContext& c) { c.result(c.operand(0)); }};

Graph chain_of(const Primitive& primitive, int length) {
  GraphBuilder g("chain", standard_primitives().with({&primitive}));
  Value x = g.input("x", f64);
  for (int i = 0; i < length; ++i) x = emit(Op::make(primitive), Values(x))[0];
  return g.build({x});
}

template <class T>
ADRuleError rule_error(const Result<T>& result) {
  REQUIRE(!result.has_value());
  const auto* error = dynamic_cast<const ADRuleError*>(&result.error());
  REQUIRE(error != nullptr);
  return *error;
}

}  // namespace

TEST_CASE("[T9] adcontext: every jvp rule sees the context once") {
  CountingContext context;
  const Linearization lin = linearize(chain_of(counting_identity, 2), {.wrt = {}, .context = &context});
  CHECK(context.calls == 2);
  SUBCASE("and every transpose rule, no jvp rule being called again") {
    (void)linear_transpose(lin.linear, {.linear_inputs = {}, .seeded = {}, .context = &context});
    CHECK(context.calls == 202);
  }
}

TEST_CASE("[T9] complex: conj") {
  const Graph f = of_x(c128, [](Value z) { return ops::conj(z); });
  const Complex dz(0.3, -1.7);
  CHECK(number(tangents_of(f), {scalar(Complex(1.0, 2.0)), scalar(dz)}) == std::conj(dz));
  CHECK(number(gradients_of(f), {scalar(Complex(1.0, 2.0)), scalar(dz)}) == std::conj(dz));
}

TEST_CASE("[T9] complex: product of two active inputs, and by an inactive one") {
  const Graph f = of_xy(c128, c128, [](Value z, Value w) { return z * w; });
  const Complex z(1.5, -0.5), w(0.25, 2.0), dz(0.3, 0.7), dw(-1.1, 0.4), ct(0.9, -0.2);
  CHECK(near(number(tangents_of(f), {scalar(z), scalar(w), scalar(dz), scalar(dw)}), dz * w + z * dw));
  CHECK(near(number(gradients_of(f, {"y"}), {scalar(z), scalar(w), scalar(ct)}), std::conj(z) * ct));
}

TEST_CASE("[T9] complex: gradient of |z|^2 is 2 z") {
  const Complex z(1.5, -0.5);
  CHECK(near(number(gradients_of(norm_squared()), {scalar(z), scalar(Complex(1.0))}), 2.0 * z));
}

TEST_CASE("[T9] complex: gradients of exp with seeds 1 and i against differences") {
  const Graph f = of_x(c128, [](Value z) { return ops::exp(z); });
  const Complex z(0.4, -0.9);
  for (const Complex seed : {Complex(1.0), Complex(0.0, 1.0)}) {
    // The real loss Re(conj(seed) exp z).
    const Graph loss = of_x(c128, [&](Value v) {
      return ops::real(ops::exp(v) * ops::full(*v.emitter(), c128, Literal::scalar(c128, std::conj(seed))));
    });
    const Complex numeric(five_point(loss, {scalar(z)}, scalar(Complex(1.0))),
                          five_point(loss, {scalar(z)}, scalar(Complex(0.0, 1.0))));
    CHECK(near(number(gradients_of(f), {scalar(z), scalar(seed)}), numeric, 1e-10));
  }
}

TEST_CASE("[T9] edge: two results of one operation") {
  const double x = 0.7, dx = 1.3, c0 = -0.4, c1 = 2.1;
  const Tensors t = run(jvp(sincos()), {scalar(x), scalar(dx)});
  CHECK(near(t.at(0), scalar(std::sin(x))));
  CHECK(near(t.at(2).item<double>() + t.at(3).item<double>(), (std::cos(x) - std::sin(x)) * dx));
  CHECK(
      near(number(gradients_of(sincos()), {scalar(x), scalar(1.0), scalar(1.0)}), std::cos(x) - std::sin(x)));
  CHECK(near(number(gradients_of(sincos()), {scalar(x), scalar(c0), scalar(c1)}),
             c0 * std::cos(x) - c1 * std::sin(x)));
  CHECK(adjoint_consistent(sincos(), {scalar(x)}, {0}));
}

TEST_CASE("[T9] edge: ten times t -> exp(a t)") {
  GraphBuilder g("deep");
  Value t = g.input("x", f64);
  const Value a = g.input("a", f64);
  for (int i = 0; i < 10; ++i) t = ops::exp(a * t);
  const Graph f = g.build({t});
  const double x = 0.3, factor = 0.35;
  double value = x, slope = 1.0;
  for (int i = 0; i < 10; ++i) {
    value = std::exp(factor * value);
    slope *= factor * value;
  }
  const Tensors inputs{scalar(x), scalar(factor)};
  CHECK(near(number(f, inputs), value));
  CHECK(near(number(tangents_of(f, {"x"}), {inputs[0], inputs[1], scalar(2.0)}), 2.0 * slope));
  CHECK(near(number(gradients_of(f, {"x"}), {inputs[0], inputs[1], scalar(-0.7)}), -0.7 * slope));
  CHECK(near(five_point(f, inputs, scalar(1.0)), slope, 1e-10));
  CHECK(adjoint_consistent(f, inputs, {0}));
}

TEST_CASE("[T9] edge: third and fourth order by nested linearization") {
  // Inputs of the n-th: x, then a tangent for each order.
  const auto nested = [](Graph f, int order) {
    for (int i = 0; i < order; ++i) f = tangents_of(f, {"x"});
    return f;
  };
  const Graph cube = of_x(f64, [](Value x) { return x * x * x; });
  CHECK(near(number(nested(cube, 3), {scalar(1.7), scalar(1.0), scalar(1.0), scalar(1.0)}), 6.0));
  const Graph fourth = of_x(f64, [](Value x) { return x * x * x * x; });
  CHECK(near(number(nested(fourth, 4), {scalar(1.7), scalar(1.0), scalar(1.0), scalar(1.0), scalar(1.0)}),
             24.0));

  const Graph exp = of_x(f64, [](Value x) { return ops::exp(x); });
  const Graph mixed = nested(gradients_of(exp), 2);  // inputs x, seed, two tangents
  CHECK(near(number(mixed, {scalar(0.4), scalar(1.0), scalar(1.0), scalar(1.0)}), std::exp(0.4)));

  const Type pair{f64, {2}};
  const Graph cubes = of_x(pair, [](Value x) { return x * x * x; });
  const Tensor ones = vector({1.0, 1.0});
  CHECK(near(run(nested(cubes, 3), {vector({0.5, -2.0}), ones, ones, ones}).at(0), vector({6.0, 6.0})));
}

TEST_CASE("[T9] edge: forward over forward is forward over reverse") {
  const Graph f = of_x({f64, {3}}, [](Value x) { return ops::exp(x); });
  const Tensor x = vector({0.1, -0.4, 0.9}), a = vector({1.0, 2.0, -0.5}), b = vector({0.3, -1.0, 0.7});
  const Tensor fof = run(tangents_of(tangents_of(f), {"x"}), {x, a, b}).at(0);
  const Tensor over_reverse = run(tangents_of(gradients_of(f), {"x"}), {x, b, a}).at(0);
  CHECK(near(fof, over_reverse));
  CHECK(near(fof.at(1), std::exp(-0.4) * 2.0 * -1.0));
}

TEST_CASE("[T9] edge: complex arrays") {
  const Type type{c128, {2}};
  const Graph conj = of_x(type, [](Value z) { return ops::conj(z); });
  const Tensor z = vector({Complex(1.0, 2.0), Complex(-0.5, 0.25)});
  const Tensor dz = vector({Complex(0.3, -0.1), Complex(2.0, 1.0)});
  CHECK(near(run(tangents_of(conj), {z, dz}).at(0), vector({Complex(0.3, 0.1), Complex(2.0, -1.0)})));
  const Graph sum = of_x(type, [](Value v) { return ops::reduce_sum(v * ops::conj(v), {0}); });
  CHECK(near(run(gradients_of(sum), {z, scalar(Complex(1.0))}).at(0),
             vector({Complex(2.0, 4.0), Complex(-1.0, 0.5)})));
  CHECK(adjoint_consistent(norm_squared(type), {z}, {0}));
}

TEST_CASE("[T9] fallible: a missing rule comes back as an error of its kind") {
  const ADRuleError jvp_error = rule_error(try_linearize(chain_of(no_rules, 1)));
  CHECK(jvp_error.rule() == ADRuleError::Rule::jvp);
  CHECK(jvp_error.primitive() == "test.no_rules");
  const Graph linear = linearize(chain_of(no_transpose, 2)).linear;
  const ADRuleError transpose_error = rule_error(try_linear_transpose(linear));
  CHECK(transpose_error.rule() == ADRuleError::Rule::transpose);
  CHECK(transpose_error.operation() == 1U);
  GraphBuilder g("target", linear.primitives());
  const std::vector<std::optional<Value>> seeds{g.input("ct", f64)};
  CHECK(rule_error(try_linear_transpose_with(g, linear, {}, {}, seeds)).rule() ==
        ADRuleError::Rule::transpose);
}

TEST_CASE("[T9] robustness: adjoint consistency") {
  CHECK(adjoint_consistent(exp_ax(), {scalar(0.4), scalar(1.3)}, {0}));
  CHECK(adjoint_consistent(doubled_times_x(), {scalar(0.4)}, {0}));
  CHECK(adjoint_consistent(norm_squared(), {scalar(Complex(0.4, -1.2))}, {0}));
}

TEST_CASE("[T9] robustness: no path, no tangent, no cotangent") {
  const Graph f = of_xy(f64, f64, [](Value, Value y) { return ops::exp(y); });
  const Linearization lin = linearize(f, {.wrt = std::vector<std::size_t>{0}, .context = nullptr});
  CHECK(!lin.tangent_of_output[0].has_value());
  CHECK(lin.linear.outputs().empty());
  CHECK(lin.linear.num_operations() == 0);
  CHECK(lin.residuals.empty());
  const Transposition transposed = linear_transpose(lin.linear);
  CHECK(transposed.graph.inputs().empty());
  CHECK(!transposed.cotangent_of_input[0].has_value());
  CHECK(vjp_parts(f, {"x"}).present == std::vector<bool>{false});
  CHECK(real_number(gradients_of(f, {"x"}), {scalar(1.0), scalar(2.0), scalar(3.0)}) == 0.0);
}

TEST_CASE("[T9] robustness: a diamond, several variables, the identity") {
  const Graph diamond = of_x(f64, [](Value x) {
    const Value e = ops::exp(x);
    return e + e;
  });
  CHECK(near(number(tangents_of(diamond), {scalar(0.4), scalar(1.0)}), 2.0 * std::exp(0.4)));
  CHECK(near(number(gradients_of(diamond), {scalar(0.4), scalar(1.0)}), 2.0 * std::exp(0.4)));

  const Graph product = of_xy(f64, f64, [](Value x, Value y) { return x * y; });
  CHECK(linear_transpose(linearize(product).linear).graph.outputs().size() == 2);
  CHECK(real_number(gradients_of(product), {scalar(2.0), scalar(5.0), scalar(1.5)}, 0) == 7.5);
  CHECK(real_number(gradients_of(product), {scalar(2.0), scalar(5.0), scalar(1.5)}, 1) == 3.0);

  const Graph identity = of_x(f64, [](Value x) { return x; });
  CHECK(linearize(identity).tangent_of_output[0].has_value());
  CHECK(real_number(tangents_of(identity), {scalar(2.0), scalar(0.3)}) == 0.3);
  CHECK(real_number(gradients_of(identity), {scalar(2.0), scalar(0.3)}) == 0.3);
}

TEST_CASE("[T9] robustness: reverse over reverse, and forward over reverse of complex squares") {
  // The transpose of the transpose of (x + x) x's linearization is the linearization.
  const std::vector<std::size_t> wrt{0};
  const check::Derived derived(doubled_times_x(), wrt);
  const check::Point point(derived, Tensors{scalar(3.0)}, reference());
  CHECK(point.twice_transposed({scalar(1.0)}).at(0).value().item<double>() == 12.0);

  const Graph square = of_x(c128, [](Value z) { return z * z; });
  const Tensor one = scalar(Complex(1.0));
  CHECK(near(number(tangents_of(gradients_of(square), {"x"}), {scalar(Complex(0.7, 0.2)), one, one}), 2.0));
}

TEST_CASE("[T9] scalars") {
  const Graph sum = of_x(f64, [](Value x) { return x + x; });
  CHECK(real_number(sum, {scalar(3.0)}) == 6.0);
  CHECK(real_number(tangents_of(sum), {scalar(3.0), scalar(0.4)}) == 0.8);
  const Graph product = of_xy(f64, f64, [](Value x, Value y) { return x * y; });
  CHECK(real_number(tangents_of(product, {"x"}), {scalar(3.0), scalar(5.0), scalar(2.0)}) == 10.0);
  const double x = 0.3, a = 1.4, value = std::exp(a * x);
  CHECK(near(number(jvp(exp_ax(), {"x"}), {scalar(x), scalar(a), scalar(2.0)}, 0), value));
  CHECK(near(number(jvp(exp_ax(), {"x"}), {scalar(x), scalar(a), scalar(2.0)}, 1), 2.0 * a * value));
  CHECK(near(number(gradients_of(exp_ax(), {"x"}), {scalar(x), scalar(a), scalar(2.0)}), 2.0 * a * value));
  CHECK(real_number(gradients_of(doubled_times_x()), {scalar(3.0), scalar(1.0)}) == 12.0);
  const Graph square = of_x(f64, [](Value v) { return v * v; });
  CHECK(real_number(tangents_of(tangents_of(square), {"x"}), {scalar(3.0), scalar(1.0), scalar(1.0)}) == 2.0);
  CHECK(near(number(tangents_of(gradients_of(exp_ax(), {"x"}), {"x"}),
                    {scalar(x), scalar(a), scalar(1.0), scalar(1.0)}),
             a * a * value));
  CHECK(near(five_point(exp_ax(), {scalar(x), scalar(a)}, scalar(1.0)), a * value, 1e-10));
}

TEST_CASE("[T9] arrays") {
  const Tensor x = vector({0.1, -0.4, 0.9}), a = vector({1.0, 2.0, -0.5}), t = vector({0.3, -1.0, 0.7});
  Numbers slopes;
  double along = 0.0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Complex slope = a.at(i) * std::exp(a.at(i) * x.at(i));
    slopes.push_back(slope);
    along += (slope * t.at(i)).real();
  }
  Numbers expected = slopes;
  for (std::size_t i = 0; i < 3; ++i) expected[i] *= t.at(static_cast<std::int64_t>(i));
  const Type type{f64, {3}};
  CHECK(near(run(tangents_of(exp_ax(type), {"x"}), {x, a, t}).at(0), check::tensor_of(type, expected)));
  CHECK(near(run(gradients_of(exp_ax(type), {"x"}), {x, a, t}).at(0), check::tensor_of(type, expected)));
  CHECK(near(number(tangents_of(sum_exp_ax(), {"x"}), {x, a, t}), along));
  // The seed 2 is broadcast over the elements.
  const Tensor gradient = run(gradients_of(sum_exp_ax(), {"x"}), {x, a, scalar(2.0)}).at(0);
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(near(gradient.at(i), 2.0 * slopes[static_cast<std::size_t>(i)]));
    Numbers unit(3);
    unit[static_cast<std::size_t>(i)] = 1.0;
    CHECK(near(2.0 * five_point(sum_exp_ax(), {x, a}, check::tensor_of(type, unit)), gradient.at(i), 1e-10));
  }
}
